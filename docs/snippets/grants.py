import os

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, ReactAgent, ServerGrants, SqliteSaver, ToolConfig
from placet.hook.reviews import ServerReviews

client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
hook = HumanInTheLoopHook(
    approval_on={
        "send_email": "Sends an e-mail to someone outside",
        "drop_table": ToolConfig(description="Cannot be undone", high_risk=True),
    }
)
sent: list[str] = []


def send_email(to: str, template: str) -> str:
    """Send a mail."""
    sent.append(to)
    return "sent"


def drop_table(table: str) -> str:
    """Drop a table."""
    return f"{table} is gone"


def agent(model) -> ReactAgent:
    """Asks people on the server, and first what they allowed there."""
    return ReactAgent(
        "mailer",
        model,
        [send_email, drop_table],
        hooks=[hook],
        saver=SqliteSaver("threads.db"),
        reviews=ServerReviews(client),
        grants=ServerGrants(client),
    )


def end_all() -> int:
    """Revoke what is left of every grant."""
    live = [grant for grant in client.grants()["grants"] if grant["state"] == "live"]
    for grant in live:
        client.revoke_grant(grant["id"])
    return len(live)


# What follows is for the tests.
from examples.stage import answer  # noqa: E402
from placet.hook import AgentResult, InterruptionMetadata  # noqa: E402


def writes_to(to):
    def model(messages, *_):
        if messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": messages[-1]["content"]}
        arguments = {"to": to, "template": "weekly-report"}
        call = {"id": f"to {to}", "name": "send_email", "arguments": arguments}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    return model


ada = agent(writes_to("ada@acme.example"))
waiting = ada.invoke("Mail Ada", thread_id="ada")
assert isinstance(waiting, InterruptionMetadata)
assert waiting.case is not None
answer(
    waiting.case["review_url"],
    "edit",
    {
        "decision.1": "approve",
        "grant.1.on": "yes",
        "grant.1.like.1": "*@acme.example",
        "grant.1.like.2": "weekly-report",
        "grant.1.uses": "1",
        "grant.1.for": "1h",
    },
)
assert isinstance(ada.resume("ada"), AgentResult)
assert isinstance(agent(writes_to("bo@evil.example")).invoke("Mail Bo"), InterruptionMetadata)
assert isinstance(agent(writes_to("cy@acme.example")).invoke("Mail Cy"), AgentResult)
assert isinstance(agent(writes_to("di@acme.example")).invoke("Mail Di"), InterruptionMetadata)
assert sent == ["ada@acme.example", "cy@acme.example"]

waiting = agent(writes_to("ed@acme.example")).invoke("Mail Ed")
assert isinstance(waiting, InterruptionMetadata)
assert waiting.case is not None
answer(
    waiting.case["review_url"],
    "edit",
    {"decision.1": "approve", "grant.1.on": "yes", "grant.1.uses": "9", "grant.1.for": "1d"},
)
assert end_all() == 1
assert end_all() == 0
client.close()
