"""What agents push is judged like what they answer: masked, blocked, or held until a person has decided."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from placet.ports.audit_store import AuditFilter, AuditRow
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import RawAgent, answer_with
from tests.relay.holds.holding_server import build_policy_draft, decide, find_pending_hold, wait_until_settled
from tests.relay.push.pusher import (
    V1,
    Pusher,
    build_status_update,
    build_task_event,
    send_with_config,
    wait_for_deliveries,
)
from tests.relay.push.receiver import Notification, Receiver
from tests.server.running import RunningServer, running
from tests.waiting import eventually

POLICIES = [
    build_policy_draft("No tulip", "tulip", "requestFromSource"),
    build_policy_draft("No marigold", "marigold", "responseFromSink"),
    build_policy_draft("No snowdrop", "snowdrop", "responseToSource"),
    build_policy_draft("Mask clover", "clover", "responseToSource", action="MASK"),
    build_policy_draft("Block nettle", "nettle", "responseFromSink", action="BLOCK"),
]
ASKS = {"relay_reason": "HITL_HELD_AGENT_INPUT_REQUIRED"}
numbers = count(1)


@pytest.fixture(scope="module")
def server(raw_agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("push")
    (folder / "policies.json").write_text(json.dumps(POLICIES))
    relay = RelaySettings(
        agents={"raw": AgentSettings(url=raw_agent.url)},
        callers={"acme": CallerSettings(agents=("raw",))},
        policies=str(folder / "policies.json"),
    )
    with running(folder, relay=relay) as found:
        yield found


@pytest.fixture(scope="module")
def acme(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=f"{server.url}/relay/v1/agents/raw",
        headers={"Authorization": f"Bearer {server.api_key}", **V1},
        verify=False,
        timeout=60,
    ) as found:
        yield found


class PushedTask:
    """One task of acme's, the webhook its agent was given, and where acme is told."""

    def __init__(
        self, server: RunningServer, acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver
    ) -> None:
        self.server = server
        self.agent = raw_agent
        self.task_id = f"t-{next(numbers)}"
        self.path = f"/{self.task_id}"
        self.receiver = receiver
        self.pusher = send_with_config(
            acme, raw_agent, self.task_id, {"url": receiver.url + self.path, "token": "mine"}
        )

    def push(self, state: str, text: str | None = None) -> int:
        fields = {} if text is None else {"message": build_agent_message(text)}
        return self.pusher.push(build_status_update(self.task_id, state, **fields)).status_code

    def told(self) -> list[Notification]:
        wait_for_deliveries(self.server)
        return self.receiver.at(self.path)

    def will_answer(self, state: str, text: str, **fields: Any) -> None:
        """What the agent says of its task from now on."""
        about = build_task_event(self.task_id, state, message=build_agent_message(text))["task"] | fields

        async def behave(raw_agent: RawAgent, reader: Any, writer: Any) -> None:
            head, body = raw_agent.requests[-1]
            call = json.loads(body or b"{}")
            sends = call.get("method") == "SendMessage" or "/message:send " in head
            result = {"task": about} if sends else about
            answer = {"jsonrpc": "2.0", "id": call["id"], "result": result} if "jsonrpc" in call else result
            await answer_with(200, json.dumps(answer).encode())(raw_agent, reader, writer)

        self.agent.behave = behave


@pytest.fixture
def pushed_task(
    server: RunningServer, acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver
) -> PushedTask:
    return PushedTask(server, acme, raw_agent, receiver)


def build_agent_message(text: str) -> dict[str, Any]:
    return {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": text}]}


def test_text_masked_in_replies_is_masked_in_pushes(pushed_task: PushedTask) -> None:
    assert pushed_task.push("WORKING", "a clover leaf") == 204
    [told] = pushed_task.told()
    text = told.body["statusUpdate"]["status"]["message"]["parts"][0]["text"]
    assert text.startswith("a [MASKED")
    assert text.endswith("] leaf")


def test_text_blocked_in_replies_is_not_pushed(pushed_task: PushedTask) -> None:
    assert pushed_task.push("WORKING", "a nettle") == 204
    assert pushed_task.push("COMPLETED", "done") == 204
    assert [one.body for one in pushed_task.told()] == [
        build_status_update(pushed_task.task_id, "COMPLETED", message=build_agent_message("done"))
    ]


def test_text_split_over_two_pushes_is_found(pushed_task: PushedTask) -> None:
    for text in ("a clo", "ver leaf", "and a net", "tle"):
        assert pushed_task.push("WORKING", text) == 204
    told = [one.body["statusUpdate"]["status"]["message"]["parts"][0]["text"] for one in pushed_task.told()]
    assert told == ["a clo", "[MASKED:REGEX] leaf", "and a net"]


def test_second_half_of_a_held_text_waits_for_a_person(pushed_task: PushedTask) -> None:
    assert pushed_task.push("WORKING", "a mari") == 204
    assert pushed_task.push("COMPLETED", "gold") == 204
    assert '"gold"' not in json.dumps([one.body for one in pushed_task.told()])
    assert find_pending_hold(pushed_task.server, pushed_task.task_id).detection_source == "POLICY_ESCALATION"


@pytest.mark.parametrize("flower", ["marigold", "snowdrop"])
def test_held_push_is_delivered_after_approval(pushed_task: PushedTask, flower: str) -> None:
    assert pushed_task.push("COMPLETED", f"a {flower}") == 204
    [told] = pushed_task.told()
    shown = told.body["task"]
    assert (shown["id"], shown["status"]["state"]) == (pushed_task.task_id, "TASK_STATE_WORKING")
    assert shown["metadata"]["relay_reason"] == "HITL_HELD"
    assert find_pending_hold(pushed_task.server, pushed_task.task_id).detection_source == "POLICY_ESCALATION"
    assert pushed_task.push("COMPLETED", "another try") == 204
    assert len(pushed_task.told()) == 1
    pushed_task.will_answer("COMPLETED", f"a {flower}")
    wait_until_settled(pushed_task.server, decide(pushed_task.server, pushed_task.task_id))
    last = pushed_task.receiver.wait_for(pushed_task.path, "TASK_STATE_COMPLETED")
    assert f"a {flower}" in json.dumps(last.body)
    assert "relay_reason" not in json.dumps(last.body)


def test_question_in_a_push_is_held(pushed_task: PushedTask) -> None:
    assert pushed_task.push("INPUT_REQUIRED", "which one?") == 204
    [told] = pushed_task.told()
    shown = told.body["task"]
    assert (shown["status"]["state"], shown["metadata"]) == ("TASK_STATE_WORKING", ASKS)
    assert "which one?" not in json.dumps(told.body)
    hold = find_pending_hold(pushed_task.server, pushed_task.task_id)
    assert hold.detection_source == "PUSH_NOTIFICATION"
    assert pushed_task.push("WORKING") == 204
    assert len(pushed_task.told()) == 1
    pushed_task.will_answer("COMPLETED", "the red one")
    wait_until_settled(pushed_task.server, decide(pushed_task.server, pushed_task.task_id))
    last = pushed_task.receiver.wait_for(pushed_task.path, "TASK_STATE_COMPLETED")
    assert "the red one" in json.dumps(last.body)
    assert last.headers["x-a2a-notification-token"] == "mine"
    calls = [json.loads(body) for _, body in pushed_task.agent.requests if b"Approved" in body]
    assert calls[-1]["message"]["taskId"] == pushed_task.task_id


def test_rejection_of_a_push_is_notified(pushed_task: PushedTask) -> None:
    assert pushed_task.push("INPUT_REQUIRED", "which one?") == 204
    pushed_task.will_answer("CANCELED", "stopped")
    wait_until_settled(pushed_task.server, decide(pushed_task.server, pushed_task.task_id, "reject"))
    last = pushed_task.receiver.wait_for(pushed_task.path, "TASK_STATE_CANCELED")
    assert last.body["task"]["metadata"]["relay_reason"] == "HITL_REJECTED"
    assert pushed_task.push("WORKING", "going on all the same") == 204
    assert "all the same" not in json.dumps([one.body for one in pushed_task.told()])


def test_a_message_that_was_held_before_its_agent_saw_it_keeps_its_webhook(
    server: RunningServer, acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver
) -> None:
    before = len(raw_agent.requests)
    message = {"messageId": "held", "role": "ROLE_USER", "parts": [{"text": "a tulip"}]}
    config = {"url": f"{receiver.url}/held", "token": "mine"}
    params = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    shown = acme.post("", json=call).json()["result"]["task"]
    assert shown["metadata"]["relay_reason"] == "HITL_HELD"
    assert len(raw_agent.requests) == before
    answer = {"jsonrpc": "2.0", "id": 1, "result": build_task_event("theirs", "WORKING")}
    raw_agent.behave = answer_with(200, json.dumps(answer).encode())
    hold = decide(server, shown["id"])
    sent = eventually(
        lambda: next(
            (json.loads(body) for _, body in raw_agent.requests[before:] if b"a tulip" in body), None
        )
    )
    given_to_agent = sent["params"]["configuration"]["taskPushNotificationConfig"]
    assert given_to_agent["url"] != config["url"]
    wait_until_settled(server, hold)
    assert Pusher(given_to_agent).push(build_status_update("theirs", "COMPLETED")).status_code == 204
    last = receiver.wait_for("/held", "TASK_STATE_COMPLETED")
    assert last.body["statusUpdate"]["taskId"] == shown["id"]
    assert "theirs" not in json.dumps([one.body for one in receiver.at("/held")]).replace("c-theirs", "")


def test_artifact_pushed_in_chunks_is_inspected_and_delivered_whole(pushed_task: PushedTask) -> None:
    for text in ("a clo", "ver leaf"):
        piece = {"artifactId": "a", "parts": [{"text": text}]}
        event = {"artifactUpdate": {"taskId": pushed_task.task_id, "append": True, "artifact": piece}}
        assert pushed_task.pusher.push(event).status_code == 204
    pieces = [{"text": "a clo"}, {"text": "ver leaf"}]
    pushed_task.will_answer("COMPLETED", "done", artifacts=[{"artifactId": "a", "parts": pieces}])
    assert pushed_task.push("COMPLETED", "done") == 204
    [told] = pushed_task.told()
    texts = [part["text"] for part in told.body["task"]["artifacts"][0]["parts"]]
    assert texts[0].startswith("a [MASKED")
    assert texts[1].endswith(" leaf")
    assert "ver" not in texts[1]


def test_push_is_audited_under_the_call_that_requested_it(
    server: RunningServer, acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver
) -> None:
    acme.headers["X-Correlation-Id"] = "order-7"
    asked = PushedTask(server, acme, raw_agent, receiver)
    del acme.headers["X-Correlation-Id"]
    assert asked.push("WORKING", "a clover leaf") == 204
    assert asked.push("COMPLETED", "a nettle") == 204

    def events() -> list[AuditRow] | None:
        wanted = AuditFilter(correlation_id="order-7", types=("COMMUNICATION_AUDIT",))
        found, _ = server.run(
            server.parts.store.list_audit_events("default", wanted, page=0, size=9, order="oldest")
        )
        return list(found) if len(found) == 3 else None

    sent, masked, blocked = eventually(events)
    assert [sent.action, masked.action, blocked.action] == ["LOG", "MASK", "BLOCK"]
    assert {one.task_id for one in (sent, masked, blocked)} == {asked.task_id}
    assert json.loads(masked.body)["payload"]["method"] == "PushNotification"
    kept = sent.body + masked.body + blocked.body
    for secret in (asked.pusher.token, "clover leaf", "a nettle", '"mine"'):
        assert secret.encode() not in kept
