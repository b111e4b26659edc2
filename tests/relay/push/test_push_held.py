"""What agents push is judged like what they answer: masked, blocked, or held until a person has decided."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from placet.ports.audit_store import AuditFilter, AuditRow
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import RawAgent, answering, raw_agent
from tests.relay.holds.holding import decide, pending, policy, settled
from tests.relay.push.pushing import V1, Pusher, given, settle, task, update
from tests.relay.push.receiver import Receiver, Told, receiving
from tests.server.running import RunningServer, running
from tests.waiting import eventually

POLICIES = [
    policy("No tulip", "tulip", "requestFromSource"),
    policy("No marigold", "marigold", "responseFromSink"),
    policy("No snowdrop", "snowdrop", "responseToSource"),
    policy("Mask clover", "clover", "responseToSource", action="MASK"),
    policy("Block nettle", "nettle", "responseFromSink", action="BLOCK"),
]
ASKS = {"relay_reason": "HITL_HELD_AGENT_INPUT_REQUIRED"}
numbers = count(1)


@pytest.fixture(scope="module")
def agent() -> Iterator[RawAgent]:
    with raw_agent() as found:
        yield found


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def server(agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("push")
    (folder / "policies.json").write_text(json.dumps(POLICIES))
    relay = RelaySettings(
        agents={"raw": AgentSettings(url=agent.url)},
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


class Asked:
    """One task of acme's, the webhook its agent was given, and where acme is told."""

    def __init__(
        self, server: RunningServer, acme: httpx.Client, agent: RawAgent, receiver: Receiver
    ) -> None:
        self.server = server
        self.agent = agent
        self.task_id = f"t-{next(numbers)}"
        self.path = f"/{self.task_id}"
        self.receiver = receiver
        self.pusher = given(acme, agent, self.task_id, {"url": receiver.url + self.path, "token": "mine"})

    def push(self, state: str, text: str | None = None) -> int:
        fields = {} if text is None else {"message": said(text)}
        return self.pusher.push(update(self.task_id, state, **fields)).status_code

    def told(self) -> list[Told]:
        settle(self.server)
        return self.receiver.at(self.path)

    def will_answer(self, state: str, text: str, **fields: Any) -> None:
        """What the agent says of its task from now on."""
        about = task(self.task_id, state, message=said(text))["task"] | fields

        async def behave(agent: RawAgent, reader: Any, writer: Any) -> None:
            head, body = agent.requests[-1]
            call = json.loads(body or b"{}")
            sends = call.get("method") == "SendMessage" or "/message:send " in head
            result = {"task": about} if sends else about
            answer = {"jsonrpc": "2.0", "id": call["id"], "result": result} if "jsonrpc" in call else result
            await answering(200, json.dumps(answer).encode())(agent, reader, writer)

        self.agent.behave = behave


@pytest.fixture
def asked(server: RunningServer, acme: httpx.Client, agent: RawAgent, receiver: Receiver) -> Asked:
    return Asked(server, acme, agent, receiver)


def said(text: str) -> dict[str, Any]:
    return {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": text}]}


def test_what_is_masked_in_answers_is_masked_in_pushes(asked: Asked) -> None:
    assert asked.push("WORKING", "a clover leaf") == 204
    [told] = asked.told()
    text = told.body["statusUpdate"]["status"]["message"]["parts"][0]["text"]
    assert text.startswith("a [MASKED")
    assert text.endswith("] leaf")


def test_what_is_blocked_in_answers_is_not_told(asked: Asked) -> None:
    assert asked.push("WORKING", "a nettle") == 204
    assert asked.push("COMPLETED", "done") == 204
    assert [one.body for one in asked.told()] == [update(asked.task_id, "COMPLETED", message=said("done"))]


@pytest.mark.parametrize("flower", ["marigold", "snowdrop"])
def test_a_push_that_a_policy_holds_is_told_once_a_person_has_approved(asked: Asked, flower: str) -> None:
    assert asked.push("COMPLETED", f"a {flower}") == 204
    [told] = asked.told()
    shown = told.body["task"]
    assert (shown["id"], shown["status"]["state"]) == (asked.task_id, "TASK_STATE_WORKING")
    assert shown["metadata"]["relay_reason"] == "HITL_HELD"
    assert pending(asked.server, asked.task_id).detection_source == "POLICY_ESCALATION"
    assert asked.push("COMPLETED", "another try") == 204
    assert len(asked.told()) == 1
    asked.will_answer("COMPLETED", f"a {flower}")
    settled(asked.server, decide(asked.server, asked.task_id))
    last = asked.receiver.wait_for(asked.path, "TASK_STATE_COMPLETED")
    assert f"a {flower}" in json.dumps(last.body)
    assert "relay_reason" not in json.dumps(last.body)


def test_an_agent_that_asks_by_a_push_waits_for_a_person(asked: Asked) -> None:
    assert asked.push("INPUT_REQUIRED", "which one?") == 204
    [told] = asked.told()
    shown = told.body["task"]
    assert (shown["status"]["state"], shown["metadata"]) == ("TASK_STATE_WORKING", ASKS)
    assert "which one?" not in json.dumps(told.body)
    hold = pending(asked.server, asked.task_id)
    assert hold.detection_source == "PUSH_NOTIFICATION"
    assert asked.push("WORKING") == 204
    assert len(asked.told()) == 1
    asked.will_answer("COMPLETED", "the red one")
    settled(asked.server, decide(asked.server, asked.task_id))
    last = asked.receiver.wait_for(asked.path, "TASK_STATE_COMPLETED")
    assert "the red one" in json.dumps(last.body)
    assert last.headers["x-a2a-notification-token"] == "mine"
    calls = [json.loads(body) for _, body in asked.agent.requests if b"Approved" in body]
    assert calls[-1]["message"]["taskId"] == asked.task_id


def test_a_rejection_is_told(asked: Asked) -> None:
    assert asked.push("INPUT_REQUIRED", "which one?") == 204
    asked.will_answer("CANCELED", "stopped")
    settled(asked.server, decide(asked.server, asked.task_id, "reject"))
    last = asked.receiver.wait_for(asked.path, "TASK_STATE_CANCELED")
    assert last.body["task"]["metadata"]["relay_reason"] == "HITL_REJECTED"
    assert asked.push("WORKING", "going on all the same") == 204
    assert "all the same" not in json.dumps([one.body for one in asked.told()])


def test_a_message_that_was_held_before_its_agent_saw_it_keeps_its_webhook(
    server: RunningServer, acme: httpx.Client, agent: RawAgent, receiver: Receiver
) -> None:
    before = len(agent.requests)
    message = {"messageId": "held", "role": "ROLE_USER", "parts": [{"text": "a tulip"}]}
    config = {"url": f"{receiver.url}/held", "token": "mine"}
    params = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    shown = acme.post("", json=call).json()["result"]["task"]
    assert shown["metadata"]["relay_reason"] == "HITL_HELD"
    assert len(agent.requests) == before
    answer = {"jsonrpc": "2.0", "id": 1, "result": task("theirs", "WORKING")}
    agent.behave = answering(200, json.dumps(answer).encode())
    hold = decide(server, shown["id"])
    sent = eventually(
        lambda: next((json.loads(body) for _, body in agent.requests[before:] if b"a tulip" in body), None)
    )
    given_to_agent = sent["params"]["configuration"]["taskPushNotificationConfig"]
    assert given_to_agent["url"] != config["url"]
    settled(server, hold)
    assert Pusher(given_to_agent).push(update("theirs", "COMPLETED")).status_code == 204
    last = receiver.wait_for("/held", "TASK_STATE_COMPLETED")
    assert last.body["statusUpdate"]["taskId"] == shown["id"]
    assert "theirs" not in json.dumps([one.body for one in receiver.at("/held")]).replace("c-theirs", "")


def test_what_is_pushed_in_pieces_is_judged_and_told_whole(asked: Asked) -> None:
    for text in ("a clo", "ver leaf"):
        piece = {"artifactId": "a", "parts": [{"text": text}]}
        event = {"artifactUpdate": {"taskId": asked.task_id, "append": True, "artifact": piece}}
        assert asked.pusher.push(event).status_code == 204
    pieces = [{"text": "a clo"}, {"text": "ver leaf"}]
    asked.will_answer("COMPLETED", "done", artifacts=[{"artifactId": "a", "parts": pieces}])
    assert asked.push("COMPLETED", "done") == 204
    [told] = asked.told()
    texts = [part["text"] for part in told.body["task"]["artifacts"][0]["parts"]]
    assert texts[0].startswith("a [MASKED")
    assert texts[1].endswith(" leaf")
    assert "ver" not in texts[1]


def test_the_audit_tells_of_a_push_with_the_call_that_asked_for_it(
    server: RunningServer, acme: httpx.Client, agent: RawAgent, receiver: Receiver
) -> None:
    acme.headers["X-Correlation-Id"] = "order-7"
    asked = Asked(server, acme, agent, receiver)
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
