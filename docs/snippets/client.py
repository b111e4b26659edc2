import os

from placet import PlacetClient, ServerRefused

placet = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])


def ask(reply: dict[str, str], order: str) -> dict:
    """The 202 body: hand it on to the agent as it is."""
    return placet.open(
        "approval",
        f"May this reply about order {order} go out?",
        context={"artifact": reply},
        timeout="4h",
        default_action="reject",
        idempotency_key=f"reply to {order}",
    )


def approved(case_id: str) -> bool:
    """Wait at most a minute, asking every two seconds."""
    poll = placet.wait(case_id, interval=2.0, at_most=60.0)
    return poll["status"] == "completed" and poll["result"]["action"] == "approve"


def withdraw(case_id: str) -> bool:
    """Whether it was withdrawn, and not answered first."""
    try:
        placet.cancel(case_id, reason="The customer called in the meantime.")
    except ServerRefused as error:
        print(error.status, error.code, error.message)
        return False
    return True


# What follows is for the tests.
import httpx  # noqa: E402

REPLY = {"to": "Jo", "body": "We are sorry for the wait."}
hitl = ask(REPLY, "4711")["hitl"]
assert ask(REPLY, "4711")["hitl"] == hitl
httpx.post(hitl["review_url"].replace("?", "/respond?"), json={"action": "approve"})
assert approved(hitl["case_id"])
assert not withdraw(hitl["case_id"])
assert withdraw(ask(REPLY, "4712")["hitl"]["case_id"])
placet.close()
