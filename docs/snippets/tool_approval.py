"""Three calls of one turn: one approved, one edited, one rejected, on a page or in code."""

from placet import PlacetClient
from placet.hook import (
    AgentResult,
    HumanInTheLoopHook,
    InterruptionMetadata,
    ReactAgent,
    ServerReviews,
    SqliteSaver,
    ToolConfig,
    resume_as_decided,
    resume_pending,
    tool,
)  # fmt: skip


def write_file(path: str, text: str) -> str:
    """Write a text to a file."""
    return f"wrote {len(text)} characters to {path}"


@tool(timeout=30)
def execute_sql(query: str) -> str:
    """Run a query on the database."""
    return f"ran {query}"


def read_data(table: str) -> str:
    """Read a table."""
    return f"three rows of {table}"


hook = HumanInTheLoopHook(
    approval_on={
        "write_file": ToolConfig(description="Writing a file needs approval"),
        "execute_sql": ToolConfig(
            description="SQL needs approval",
            when=lambda call, state: not call.arguments["query"].startswith("SELECT"),
            timeout=3600,
            high_risk=True,
        ),
    }
)


def model(messages: list[dict], tools: list[dict]) -> dict:
    """Stands for a language model."""
    if messages[-1]["role"] == "tool":
        return {"content": "All done."}
    return {
        "tool_calls": [
            {"id": "a", "name": "read_data", "arguments": {"table": "records"}},
            {"id": "b", "name": "execute_sql", "arguments": {"query": "DELETE FROM records"}},
            {"id": "c", "name": "write_file", "arguments": {"path": "log.txt", "text": "gone"}},
        ]
    }


agent = ReactAgent(
    "janitor", model, [write_file, execute_sql, read_data], hooks=[hook], saver=SqliteSaver("threads.db")
)
outcome = agent.invoke("Delete the old records.", thread_id="session-123")
if isinstance(outcome, InterruptionMetadata):
    for waiting in outcome.tool_feedbacks:
        print(waiting.name, waiting.arguments, waiting.description)

assert isinstance(outcome, InterruptionMetadata)
decided = outcome.edit("b", {"query": "DELETE FROM old_records"}).reject("c", "No log, please.")
outcome = agent.resume("session-123", decided)
assert isinstance(outcome, AgentResult)
assert outcome.text == "All done."
assert [message["content"] for message in outcome.messages if message["role"] == "tool"] == [
    "three rows of records",
    "A person changed this call before it ran; it ran as"
    ' execute_sql({"query": "DELETE FROM old_records"}). Its result: ran DELETE FROM old_records',
    "A person rejected this call. Their reason: No log, please.",
]


def on_the_page(client: PlacetClient) -> str:
    """The same, decided on a review page; the process may end in between."""
    reviews = ServerReviews(client, inline_actions=["approve", "reject"])
    agent = ReactAgent(
        "janitor",
        model,
        [write_file, execute_sql, read_data],
        hooks=[hook],
        saver=SqliteSaver("threads.db"),
        reviews=reviews,
    )
    outcome = agent.invoke("Delete the old records.", thread_id="session-124")
    assert isinstance(outcome, InterruptionMetadata)
    assert outcome.case is not None
    print("Please decide:", outcome.case["review_url"])

    moved = resume_pending(agent)  # in this process or another one, now or tomorrow
    assert moved == {}, "nobody has decided yet"
    return str(outcome.case["review_url"])


def follow(agent: ReactAgent) -> None:
    for thread_id, outcome in resume_as_decided(agent):
        print(thread_id, outcome)


if __name__ == "snippet":
    import os

    with PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"]) as client:
        assert on_the_page(client).startswith("http")
