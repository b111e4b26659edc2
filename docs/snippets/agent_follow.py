"""An agent that follows whatever its services ask of people."""

import os
import threading

import httpx

from placet.agent import Agent, Decided, FollowedCase, Notice, PendingCases

SERVICE = os.environ["PLACET_SERVER"] + "/v1/cases"
HEADERS = {"Authorization": f"Bearer {os.environ['PLACET_KEY']}"}
QUESTION = {"type": "confirmation", "prompt": "Restart the mail server?", "inline_actions": ["confirm"]}


def send_to_chat(case: FollowedCase) -> None:
    """A chat in which somebody reads and presses a button."""
    threading.Thread(target=press, args=(case,)).start()


def press(case: FollowedCase) -> None:
    """What the person does."""
    body = {
        "action": "confirm",
        "submitted_via": "telegram_inline_button",
        "submitted_by": {"platform": "telegram", "platform_user_id": "7"},
    }
    headers = {"Authorization": f"Bearer {case.submit_token}"}
    httpx.post(case.submit_url or "", json=body, headers=headers).raise_for_status()


def tell(notice: Notice) -> None:
    """Bring the link to the person; a reminder brings it again."""
    if notice.name in ("requested", "reminder"):
        send_to_chat(notice.case)


with Agent(tell=tell, pending=PendingCases("agent.db")) as agent:
    outcome = agent.request("POST", SERVICE, json=QUESTION, headers=HEADERS)
    if isinstance(outcome, Decided) and outcome.action == "confirm":
        print("A person said yes; verified:", outcome.verified)

assert isinstance(outcome, Decided)
assert outcome.verified
