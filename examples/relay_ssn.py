"""A message with a Social Security number, held by the relay until a person has decided.

Between an app and an agent of the official A2A SDK stands the relay, with one policy: Presidio looks for
US_SSN on all four legs, and what scores 0.7 or more waits for a person. One message is approved and reaches
the agent; one is rejected and never does.

python -m examples.relay_ssn
python -m examples.relay_ssn clerk 9000     # the agent alone, at this port, to try the relay with
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import uvicorn
from a2a.helpers.proto_helpers import get_message_text, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from examples.stage import find_free_port, read_address_and_key, serve_app, wait_until

SSN = "My SSN is 536-22-8764, please file it."
POLICY = {
    "name": "Review Messages with SSNs",
    "config": {
        "type": "PRESIDIO_DETECTION",
        "enabledLegs": {
            "requestFromSource": True,
            "requestToSink": True,
            "responseFromSink": True,
            "responseToSource": True,
        },
        "entity": {"type": "US_SSN", "scoreThreshold": 0.7, "action": "HUMAN_REVIEW_REQUIRED"},
    },
}


class Clerk(AgentExecutor):
    """An agent that files whatever it is told."""

    def __init__(self) -> None:
        self.received: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Take a message in, and say that it is filed."""
        assert context.message is not None
        self.received.append(get_message_text(context.message))
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([new_text_part("It is filed.")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing to do."""


def build_clerk_app(url: str, clerk: Clerk) -> Starlette:
    """The agent as the SDK serves it."""
    card = AgentCard(
        name="Clerk",
        description="Files what it is told",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[
            AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        skills=[AgentSkill(id="file", name="File", description="Files a note", tags=["office"])],
    )
    handler = DefaultRequestHandlerV2(agent_executor=clerk, task_store=InMemoryTaskStore(), agent_card=card)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")])


@contextmanager
def run_relay(agent_url: str) -> Iterator[tuple[str, str, str]]:
    """A server with the relay before one agent: its address, the operator's key and the app's."""
    placet = str(Path(sys.executable).with_name("placet"))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "placet.toml").write_text(
            f'allow_loopback = true\ndb = "placet.db"\n[relay.agents.clerk]\nurl = "{agent_url}"\n'
            '[relay.callers.app]\nagents = ["clerk"]\n'
        )
        server = subprocess.Popen(
            [placet, "serve", "--port", "0", "--config", "placet.toml"],
            cwd=folder,
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            url, operator = read_address_and_key(server)
            command = [placet, "key", "create", "app", "--config", "placet.toml"]
            made = subprocess.run(
                command, check=True, cwd=folder, env=environ, text=True, capture_output=True
            )
            yield url, operator, made.stdout.strip()
        finally:
            server.terminate()
            server.communicate()


class App:
    """Calls the agent through the relay, as any A2A client does."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}", "A2A-Version": "1.0"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=60)

    def send(self, text: str) -> dict[str, Any]:
        """Send a message; returns the task."""
        message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
        task: dict[str, Any] = self._call("SendMessage", {"message": message})["task"]
        return task

    def get_task(self, task_id: str) -> dict[str, Any]:
        """Return the task as it is now."""
        return self._call("GetTask", {"id": task_id})

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self._http.post("/relay/v1/agents/clerk", json=call).json()
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result


class Operator:
    """Creates policies and decides held messages."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60)

    def bind(self, policy: dict[str, Any]) -> dict[str, Any]:
        """Create a policy and bind it to the whole tenant."""
        saved = self._request("POST", "/relay/v1/policies", policy)
        entries = [{"orderIndex": 0, "policy": {"policyId": saved["policyId"]}}]
        group = self._request("POST", "/relay/v1/policy-groups", {"name": "SSNs", "policies": entries})
        self._request("POST", "/relay/v1/policy-bindings", {"groupId": group["id"], "bindingLevel": "TENANT"})
        return saved

    def evaluate(self, text: str) -> str:
        """Return the outcome that the policies give this text."""
        outcome: str = read_answer(self._ask(text))["outcome"]
        return outcome

    def is_ready(self) -> bool:
        """Whether the relay can check a message. Presidio loads for some seconds; meanwhile it cannot."""
        answer = self._ask("Good morning.")
        return (
            answer.status_code != httpx.codes.SERVICE_UNAVAILABLE and read_answer(answer)["outcome"] == "PASS"
        )

    def _ask(self, text: str) -> httpx.Response:
        asked = {"text": text, "sourceAgentId": "app", "sinkAgentId": "clerk"}
        return self._http.post("/relay/v1/policies/evaluate", json=asked)

    def list_pending(self) -> list[dict[str, Any]]:
        """Return the approvals that wait for a decision."""
        found: list[dict[str, Any]] = self._request("GET", "/relay/v1/approvals?status=PENDING")["content"]
        return found

    def resolve(self, approval: dict[str, Any], action: str, message: str) -> dict[str, Any]:
        """Approve or reject."""
        body = {"action": action, "message": message}
        return self._request("POST", f"/relay/v1/approvals/{approval['id']}/resolve", body)

    def list_audit_types(self, correlation_id: str) -> list[str]:
        """Return the types of the audit events of one call."""
        events = self._request("GET", f"/audit/v1/events?correlationId={correlation_id}&size=100")["content"]
        return [event["auditType"] for event in events]

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return read_answer(self._http.request(method, path, json=body))


def read_answer(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON of an answer, which must be a success."""
    request = answer.request
    assert answer.is_success, f"{request.method} {request.url}: {answer.status_code} {answer.text}"
    told: dict[str, Any] = answer.json()
    return told


def print_task(what: str, task: dict[str, Any]) -> None:
    """Print the state, reason and artifacts of a task."""
    reasons = ", ".join(task.get("metadata", {}).values())
    parts = [part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"]]
    print(f"{what}: {task['status']['state']}: {reasons or ' '.join(parts)}")


def send_and_find_held(app: App, operator: Operator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Send the number, check that it is held, and return the task and the approval."""
    task = app.send(SSN)
    print_task("held", task)
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    assert task["metadata"] == {
        "relay_reason": "HITL_HELD",
        "policy_name": POLICY["name"],
        "policy_version": "1",
        "policy_level": "TENANT",
    }
    assert app.get_task(task["id"])["metadata"] == task["metadata"]
    (approval,) = operator.list_pending()
    assert approval["taskId"] == task["id"]
    assert approval["detectionSource"] == "POLICY_ESCALATION"
    assert approval["agentMessageText"] == SSN
    assert approval["matchedContent"] == "536-22-8764"
    assert (approval["policyName"], approval["resolution"]) == (POLICY["name"], None)
    return task, approval


def approve_held_message(app: App, operator: Operator, clerk: Clerk) -> None:
    """Approve a held message and wait until its task is completed."""
    task, approval = send_and_find_held(app, operator)
    assert clerk.received == []
    resolved = operator.resolve(approval, "APPROVED", "Checked with the customer.")
    assert resolved["resolution"]["action"] == "APPROVED"
    wait_until(lambda: app.get_task(task["id"])["status"]["state"] == "TASK_STATE_COMPLETED")
    done = app.get_task(task["id"])
    print_task("approved", done)
    assert "relay_reason" not in done.get("metadata", {})
    assert done["artifacts"][0]["parts"][0]["text"] == "It is filed."
    assert clerk.received == [SSN]
    assert {"HITL", "HITL_GUARD", "HITL_RESOLUTION"} <= set(
        operator.list_audit_types(approval["correlationId"])
    )


def reject_held_message(app: App, operator: Operator, clerk: Clerk) -> None:
    """Reject a held message and wait until its task is canceled."""
    clerk.received.clear()
    task, approval = send_and_find_held(app, operator)
    operator.resolve(approval, "REJECTED", "Not by message.")
    wait_until(lambda: app.get_task(task["id"])["status"]["state"] == "TASK_STATE_CANCELED")
    done = app.get_task(task["id"])
    print_task("rejected", done)
    assert done["metadata"] == {**task["metadata"], "relay_reason": "HITL_REJECTED"}
    assert clerk.received == []
    assert operator.list_pending() == []


def main() -> None:
    """Write the policy, and send the number twice."""
    clerk, port = Clerk(), find_free_port()
    agent_url = f"http://127.0.0.1:{port}"
    with (
        serve_app(build_clerk_app(agent_url, clerk), port),
        run_relay(agent_url) as (url, operator_key, app_key),
    ):
        app, operator = App(url, app_key), Operator(url, operator_key)
        operator.bind(POLICY)
        wait_until(operator.is_ready)
        assert operator.evaluate(SSN) == "HOLD"
        task = app.send("Good morning.")
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        clerk.received.clear()
        approve_held_message(app, operator, clerk)
        reject_held_message(app, operator, clerk)


def serve_clerk(port: int) -> None:
    """The agent alone, until it is stopped."""
    uvicorn.run(build_clerk_app(f"http://127.0.0.1:{port}", Clerk()), port=port, log_level="warning")


if __name__ == "__main__":
    if sys.argv[1:2] == ["clerk"]:
        serve_clerk(int(sys.argv[2]))
    else:
        main()
