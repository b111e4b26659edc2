"""An agent made of bytes that was given a webhook, and pushes whatever a test likes."""

import json
from typing import Any

import httpx

from placet.ports.outbox_store import DeliveryFilter
from tests.relay.a2a.raw_agent import RawAgent, answer_with
from tests.server.running import RunningServer
from tests.waiting import eventually

V1 = {"A2A-Version": "1.0"}


def build_task_event(task_id: str, state: str = "WORKING", **fields: Any) -> dict[str, Any]:
    status = {"state": f"TASK_STATE_{state}", **fields}
    return {"task": {"id": task_id, "contextId": f"c-{task_id}", "status": status}}


def build_status_update(task_id: str, state: str = "WORKING", **fields: Any) -> dict[str, Any]:
    about = build_task_event(task_id, state, **fields)["task"]
    return {"statusUpdate": {"taskId": task_id, "contextId": about["contextId"], "status": about["status"]}}


def wait_for_deliveries(server: RunningServer) -> None:
    """Wait until callers were told of all that is to be told."""
    eventually(lambda: not server.run(server.parts.store.list_deliveries(DeliveryFilter(state="waiting"))))


class Pusher:
    """What the agent knows of one webhook."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.url: str = config["url"]
        self.token: str = config["token"]
        self.config = config

    def push(self, body: Any, token: str | None = None, **headers: str) -> httpx.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"X-A2A-Notification-Token": token or self.token, "Content-Type": "application/json"}
        return httpx.post(self.url, content=data, headers=sent | headers, verify=False, timeout=60)


def send_with_config(
    client: httpx.Client, agent: RawAgent, task_id: str, config: dict[str, Any], **params: Any
) -> Pusher:
    """Send a message that asks for notifications about the task that the agent makes of it."""
    answer = {"jsonrpc": "2.0", "id": 1, "result": build_task_event(task_id)}
    agent.behave = answer_with(200, json.dumps(answer).encode())
    message = {"messageId": f"m-{task_id}", "role": "ROLE_USER", "parts": [{"text": "hi"}], **params}
    wanted = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": wanted}
    response = client.post("", json=call)
    assert response.json() == answer, response.text
    sent = json.loads(agent.requests[-1][1])
    return Pusher(sent["params"]["configuration"]["taskPushNotificationConfig"])
