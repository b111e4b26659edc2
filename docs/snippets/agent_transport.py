"""An ordinary httpx client whose questions to people are followed."""

import os
import threading

import httpx

from placet.agent import Agent, FollowingTransport, Notice

SERVICE = os.environ["PLACET_SERVER"] + "/v1/cases"
HEADERS = {"Authorization": f"Bearer {os.environ['PLACET_KEY']}"}
QUESTION = {"type": "confirmation", "prompt": "Restart the mail server?", "inline_actions": ["cancel"]}


def tell(notice: Notice) -> None:
    """A person who says no."""
    if notice.name == "requested":
        threading.Thread(target=refuse, args=(notice,)).start()


def refuse(notice: Notice) -> None:
    """What the person does."""
    body = {
        "action": "cancel",
        "submitted_via": "telegram_inline_button",
        "submitted_by": {"platform": "telegram", "platform_user_id": "7"},
    }
    headers = {"Authorization": f"Bearer {notice.case.submit_token}"}
    httpx.post(notice.case.submit_url or "", json=body, headers=headers).raise_for_status()


agent = Agent(tell=tell)
client = httpx.Client(transport=FollowingTransport(agent))
reply = client.post(SERVICE, json=QUESTION, headers=HEADERS)
print(reply.status_code, reply.json()["action"])

assert (reply.status_code, reply.json()["action"]) == (409, "cancel")
client.close()
agent.close()
