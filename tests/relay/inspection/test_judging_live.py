"""Policies over traffic that flows: detectors that fail, policies that change, and what the audit tells."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest

from placet.bootstrap.storage import open_memory_store
from placet.ports.detector import PreparedRules, Rule, Scan, Scannable
from placet.ports.store import Store
from placet.relay.detectors.regex_detector import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.policies.evaluation import Outcome
from placet.relay.policies.policy import Leg
from placet.relay.policies.records import build_group_record, build_revision_record
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.sdk_agent import SdkAgent, running_agent
from tests.relay.inspection.judged import Judged, judged_relay, put_in_force
from tests.relay.policies.samples import NOW, group, plugin_draft, regex_draft

SECRET = "SECRET-1234"


class Moody:
    """A detector that does what its rule says: fail, take too long, or say nothing that makes sense."""

    type = "x-moody"
    within = timedelta(seconds=0.1)

    def check(self, rule: Rule) -> None:
        return None

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        return _Moods([rule.options["mood"] for rule in rules])

    async def aclose(self) -> None:
        return None


class _Moods:
    def __init__(self, moods: list[str]) -> None:
        self.moods = moods

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        moods = {self.moods[number] for number in wanted or range(len(self.moods))}
        if "fails" in moods:
            raise RuntimeError(pieces[0].text)
        if "sleeps" in moods:
            await asyncio.Event().wait()
        if "doubts" in moods:
            return Scan(unchecked=dict.fromkeys(wanted or range(len(self.moods)), "it is not sure"))
        return "nonsense"  # type: ignore[return-value]


MOODS = ("fails", "sleeps", "doubts", "babbles")
DRAFTS: dict[str, dict[str, Any]] = {
    **{mood: plugin_draft("x-moody", "LOG", mood=mood) for mood in MOODS},
    "masked": regex_draft(r"SECRET-\d+", "MASK", legs={"requestFromSource": True, "responseToSource": True}),
    "blocked": regex_draft(r"SECRET-\d+", "BLOCK", legs={"requestFromSource": True}),
    "logged": regex_draft(r"SECRET-\d+", "LOG", legs={"requestFromSource": True}),
    "held": regex_draft(r"SECRET-\d+", "HUMAN_REVIEW_REQUIRED", legs={"responseFromSink": True}),
    "changing": regex_draft(r"SECRET-\d+", "BLOCK", legs={"requestFromSource": True}),
}


@pytest.fixture(scope="module")
def store() -> Store:
    found = open_memory_store()
    asyncio.run(put_in_force(found, DRAFTS, "errands"))
    return found


@pytest.fixture(scope="module")
def agent() -> Iterator[SdkAgent]:
    with running_agent() as found:
        yield found


@pytest.fixture(scope="module")
def relay(agent: SdkAgent, store: Store) -> Iterator[Judged]:
    settings = RelaySettings(
        agents={"errands": AgentSettings(url=agent.url)},
        callers={name: CallerSettings(agents=("errands",)) for name in (*DRAFTS, "free")},
    )
    with judged_relay(settings, store, DetectorRegistry([RegexDetector(), Moody()])) as found:
        yield found


@pytest.fixture(scope="module")
def client(relay: Judged) -> Iterator[httpx.Client]:
    url = f"{relay.url}/relay/v1/agents/errands"
    with httpx.Client(base_url=url, headers={"A2A-Version": "1.0"}, timeout=10) as found:
        yield found


def sending(parts: list[dict[str, Any]], method: str = "SendMessage") -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": message}}


def call(
    client: httpx.Client, caller: str, *parts: dict[str, Any], id: str, method: str = "SendMessage"
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {caller}", "X-Correlation-Id": id}
    return client.post("", json=sending(list(parts), method), headers=headers)


def text(words: str) -> dict[str, Any]:
    return {"text": words}


@pytest.mark.parametrize("mood", MOODS)
def test_whatever_a_detector_fails_at_holds_the_message_even_if_its_policy_only_logs(
    relay: Judged, client: httpx.Client, mood: str
) -> None:
    answer = call(client, mood, text("echo hello"), id=f"mood-{mood}").json()
    assert answer["result"]["task"]["metadata"]["relay_reason"] == "HITL_HELD"
    leg, _, evaluation = relay.holder.held[f"mood-{mood}"]
    assert (leg, evaluation.outcome) == (Leg.REQUEST_FROM_SOURCE, Outcome.HOLD)
    [event] = relay.trail.of(f"mood-{mood}", "X_MOODY_DETECTION")
    assert event["auditAction"] == "ERROR"
    assert len(event["metadata"]["unchecked"]) == 1
    assert "hello" not in repr(event)


@pytest.mark.parametrize(
    "part",
    [
        {"data": {"key": SECRET}},
        {"data": {SECRET: "key"}},
        {"data": {"deep": [{"deeper": ["x", SECRET]}]}},
        {"url": "https://files.example/x", "filename": f"{SECRET}.txt"},
        {"raw": base64.b64encode(f"a {SECRET} b".encode()).decode(), "filename": "a.txt"},
        {"text": "hello", "metadata": {"note": SECRET}},
        {"text": "hello", "somethingNew": {"anywhere": SECRET}},
    ],
)
def test_data_files_and_unknown_fields_are_looked_at(client: httpx.Client, part: dict[str, Any]) -> None:
    answer = call(client, "blocked", text("echo"), part, id="places").json()
    assert answer["error"]["code"] == -32080
    assert SECRET not in repr(answer)


@pytest.mark.parametrize(
    "part",
    [
        {"text": "SEC\u200bRET-12"},
        {"text": "ＳＥＣＲＥＴ－１２"},
        {"text": "SECRET\u201312"},
        {"text": json.dumps({"note": "ＳＥＣＲＥＴ-12"})},
        {"text": "unpack " + base64.b64encode(b"a SECRET-12 in a box").decode()},
        {"data": {"deep": ["&#83;ECRET-12"]}},
        {"data": {"SEC\u00adRET-12": "a name"}},
        {"raw": base64.b64encode("SEC\u200dRET-12".encode()).decode()},
    ],
    ids=range(8),
)
@pytest.mark.parametrize("alone", [True, False])
def test_a_secret_is_found_however_it_is_written(
    client: httpx.Client, part: dict[str, Any], alone: bool
) -> None:
    parts = [part] if alone else [text("echo"), part]
    answer = call(client, "blocked", *parts, id="written").json()
    assert answer["error"]["code"] == -32080


def test_what_is_masked_is_masked_as_it_was_written(client: httpx.Client, agent: SdkAgent) -> None:
    sent = text("echo – SEC\u200bRET-1234 and ＳＥＣＲＥＴ-5, or SECRET-6")
    assert "result" in call(client, "masked", sent, id="masked-written").json()
    assert agent.executor.texts[-1] == "echo – [MASKED:REGEX] and [MASKED:REGEX], or [MASKED:REGEX]"


def test_a_secret_in_two_parts_of_a_message_is_found(client: httpx.Client) -> None:
    answer = call(client, "blocked", text("echo SEC"), text("RET-12"), id="straddling").json()
    assert answer["error"]["code"] == -32080


def test_a_refusal_names_the_policy_and_nothing_else(client: httpx.Client) -> None:
    answer = call(client, "blocked", text(f"echo {SECRET}"), id="refusal").json()
    assert answer["error"]["message"] == r"A policy does not let this message pass: No SECRET-\d+."
    [info] = answer["error"]["data"]
    assert info["metadata"] == {
        "policy_name": r"No SECRET-\d+",
        "policy_version": "1",
        "policy_level": "SUBSCRIPTION",
    }


def test_content_that_is_no_text_is_told_of_in_the_audit(relay: Judged, client: httpx.Client) -> None:
    file = {"raw": "AAAA", "filename": "a.bin", "mediaType": "application/octet-stream"}
    assert "result" in call(client, "logged", text(f"echo {SECRET}"), file, id="opaque").json()
    [found] = relay.trail.of("opaque", "REGEX_DETECTION")
    assert found["metadata"]["notLookedAt"] == ["message.parts[1].raw"]
    [whole] = relay.trail.of("opaque", "COMMUNICATION_AUDIT")
    assert whole["metadata"]["notLookedAt"] == {"requestFromSource": ["message.parts[1].raw"]}


def test_what_a_person_let_pass_is_not_held_again(relay: Judged, client: httpx.Client) -> None:
    first = call(client, "held", text(f"chat {SECRET}"), id="approved-none").json()
    assert "message" in first["result"]  # the agent's words, not the caller's, are looked at on the way back
    answer = call(client, "held", text(f"echo {SECRET}"), id="approved-1").json()
    assert answer["result"]["task"]["metadata"]["relay_reason"] == "HITL_HELD"
    _, exchange, _ = relay.holder.held["approved-1"]
    assert exchange.reply is not None
    relay.holder.let_pass.update(piece.text for piece in exchange.reply.pieces())
    again = call(client, "held", text(f"echo {SECRET}"), id="approved-2").json()
    assert "metadata" not in again["result"]["task"]
    assert "approved-2" not in relay.holder.held


@pytest.mark.parametrize("streamed", [False, True])
def test_each_call_is_written_down_once_with_what_no_policy_found(
    relay: Judged, client: httpx.Client, streamed: bool
) -> None:
    method = "SendStreamingMessage" if streamed else "SendMessage"
    response = call(client, "masked", text(f"echo {SECRET}"), id=f"whole-{streamed}", method=method)
    [event] = relay.trail.of(f"whole-{streamed}", "COMMUNICATION_AUDIT")
    assert (event["auditAction"], event["transport"]) == ("MASK", "JSONRPC")
    assert event["payload"]["method"] == method
    assert event["payload"]["httpStatus"] == 200
    assert event["durationMicros"] > 0
    assert event["taskState"] == "completed"
    assert event["taskId"]
    assert event["metadata"]["responseBytes"] == len(response.content)
    assert event["metadata"]["requestBytes"] > 0
    assert "[MASKED:REGEX]" in repr(event["payload"]["requestBody"])
    assert "[MASKED:REGEX]" in repr(event["payload"]["responseBody"])
    assert SECRET not in repr(event)


def test_bodies_are_left_out_where_the_tenant_does_not_keep_them(relay: Judged, client: httpx.Client) -> None:
    relay.trail.payloads = "none"
    try:
        call(client, "free", text("echo nothing"), id="none")
    finally:
        relay.trail.payloads = "masked"
    [event] = relay.trail.of("none", "COMMUNICATION_AUDIT")
    assert "nothing" not in repr(event)
    assert event["auditAction"] == "LOG"


@pytest.mark.parametrize(("caller", "action"), [("blocked", "BLOCK"), ("held", "HUMAN_REVIEW_REQUIRED")])
def test_what_did_not_pass_is_written_down_as_such(
    relay: Judged, client: httpx.Client, caller: str, action: str
) -> None:
    call(client, caller, text("echo SECRET-987"), id=f"not-{caller}")
    [event] = relay.trail.of(f"not-{caller}", "COMMUNICATION_AUDIT")
    assert event["auditAction"] == action
    assert "SECRET-987" not in repr(event)


def test_what_is_no_call_is_written_down_as_refused(relay: Judged, client: httpx.Client) -> None:
    headers = {"Authorization": "Bearer free", "X-Correlation-Id": "no-call"}
    client.post("", content=b"{", headers=headers)
    [event] = relay.trail.of("no-call")
    assert (event["auditType"], event["auditAction"]) == ("VALIDATION_RESULT", "ERROR")


def test_nothing_passes_while_nothing_can_be_written_down(
    relay: Judged, agent: SdkAgent, client: httpx.Client
) -> None:
    relay.trail.full = True
    try:
        answer = call(client, "free", text("echo"), id="full").json()
    finally:
        relay.trail.full = False
    assert answer["error"]["code"] == -32083
    assert not any(one.get("x-correlation-id") == "full" for one in agent.seen)


def test_no_message_passes_unjudged_while_policies_change(
    relay: Judged, store: Store, client: httpx.Client
) -> None:
    """While the policy is bound anew again and again, every message with a secret is refused."""
    ended = threading.Event()

    async def bind_anew(rev: int) -> None:
        bound = build_group_record("default", group("changing", "changing"), rev=rev, now=NOW)
        await store.change_records(save=[bound, build_revision_record("default", rev=rev, now=NOW)])
        await relay.policy_cache.reload("default")

    def change() -> int:
        rev = 1
        while not ended.is_set():
            rev += 1
            relay.in_loop(bind_anew(rev))
        return rev

    def refused() -> Any:
        return call(client, "changing", text(f"echo {SECRET}"), id="changing").json()["error"]["code"]

    assert refused() == -32080
    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(change)
        try:
            codes = {refused() for _ in range(40)}
        finally:
            ended.set()
        assert changes.result(60) > 5
    assert codes == {-32080}
