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
from placet.errors import DetectorBusy
from placet.ports.detector import CLEAN, PreparedRules, Rule, Scan, Scannable
from placet.ports.store import Store
from placet.relay.detectors.regex import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.policy.evaluation import Outcome
from placet.relay.policy.policy import Leg
from placet.relay.policy.policy_set import build_group_record, build_revision_record
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.inspection.inspected_relay import InspectedRelay, run_inspected_relay, store_policies
from tests.relay.policies.samples import NOW, build_group, build_plugin_draft, build_regex_draft

SECRET = "SECRET-1234"


class UnreliableDetector:
    """A detector that does what its rule says: fail, take too long, or say nothing that makes sense."""

    type = "x-moody"
    within = timedelta(seconds=0.1)

    def check(self, rule: Rule) -> None:
        return None

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        return _UnreliableScanner([rule.options["mood"] for rule in rules])

    async def aclose(self) -> None:
        return None


class _UnreliableScanner:
    def __init__(self, moods: list[str]) -> None:
        self.moods = moods
        self.asked = 0

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        moods = {self.moods[number] for number in wanted or range(len(self.moods))}
        if "is busy" in moods:
            raise DetectorBusy
        if "is busy once" in moods:
            self.asked += 1
            if self.asked % 2:
                raise DetectorBusy
            return CLEAN
        if "fails" in moods:
            raise RuntimeError(pieces[0].text)
        if "sleeps" in moods:
            await asyncio.Event().wait()
        if "doubts" in moods:
            return Scan(unchecked=dict.fromkeys(wanted or range(len(self.moods)), "it is not sure"))
        return "nonsense"  # type: ignore[return-value]


ANSWERS = {"enabledLegs": {"responseFromSink": True}}
MOODS = ("fails", "sleeps", "doubts", "babbles")
DRAFTS: dict[str, dict[str, Any]] = {
    **{mood: build_plugin_draft("x-moody", "LOG", mood=mood) for mood in MOODS},
    "busy": build_plugin_draft("x-moody", mood="is busy"),
    **{
        caller: {**(draft := build_plugin_draft("x-moody", mood=mood)), "config": draft["config"] | ANSWERS}
        for caller, mood in (("busy-once", "is busy once"), ("always-busy", "is busy"))
    },
    "masked": build_regex_draft(
        r"SECRET-\d+", "MASK", legs={"requestFromSource": True, "responseToSource": True}
    ),
    "blocked": build_regex_draft(r"SECRET-\d+", "BLOCK", legs={"requestFromSource": True}),
    "logged": build_regex_draft(r"SECRET-\d+", "LOG", legs={"requestFromSource": True}),
    "held": build_regex_draft(r"SECRET-\d+", "HUMAN_REVIEW_REQUIRED", legs={"responseFromSink": True}),
    "changing": build_regex_draft(r"SECRET-\d+", "BLOCK", legs={"requestFromSource": True}),
}


@pytest.fixture(scope="module")
def store() -> Store:
    found = open_memory_store()
    asyncio.run(store_policies(found, DRAFTS, "errands"))
    return found


@pytest.fixture(scope="module")
def relay(agent: SdkAgent, store: Store) -> Iterator[InspectedRelay]:
    settings = RelaySettings(
        agents={"errands": AgentSettings(url=agent.url)},
        callers={name: CallerSettings(agents=("errands",)) for name in (*DRAFTS, "free")},
    )
    with run_inspected_relay(
        settings, store, DetectorRegistry([RegexDetector(), UnreliableDetector()])
    ) as found:
        yield found


@pytest.fixture(scope="module")
def client(relay: InspectedRelay) -> Iterator[httpx.Client]:
    url = f"{relay.url}/relay/v1/agents/errands"
    with httpx.Client(base_url=url, headers={"A2A-Version": "1.0"}, timeout=60) as found:
        yield found


def build_send_call(parts: list[dict[str, Any]], method: str = "SendMessage") -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": message}}


def call(
    client: httpx.Client, caller: str, *parts: dict[str, Any], id: str, method: str = "SendMessage"
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {caller}", "X-Correlation-Id": id}
    return client.post("", json=build_send_call(list(parts), method), headers=headers)


def build_text_part(words: str) -> dict[str, Any]:
    return {"text": words}


@pytest.mark.parametrize("mood", MOODS)
def test_detector_failure_holds_the_message_even_for_a_log_policy(
    relay: InspectedRelay, client: httpx.Client, mood: str
) -> None:
    answer = call(client, mood, build_text_part("echo hello"), id=f"mood-{mood}").json()
    assert answer["result"]["task"]["metadata"]["relay_reason"] == "HITL_HELD"
    leg, _, _, evaluation = relay.holder.held[f"mood-{mood}"]
    assert (leg, evaluation.outcome) == (Leg.REQUEST_FROM_SOURCE, Outcome.HOLD)
    [event] = relay.trail.of(f"mood-{mood}", "X_MOODY_DETECTION")
    assert event["auditAction"] == "ERROR"
    assert len(event["metadata"]["unchecked"]) == 1
    assert "hello" not in repr(event)


def test_detector_without_time_is_busy_and_nothing_is_held(
    relay: InspectedRelay, client: httpx.Client, agent: SdkAgent
) -> None:
    answer = call(client, "busy", build_text_part("echo not checked"), id="busy").json()
    assert answer["error"]["data"][0]["reason"] == "RELAY_BUSY"
    assert "busy" not in relay.holder.held
    assert "echo not checked" not in agent.executor.texts


def test_detector_without_time_is_asked_again_about_a_response(
    relay: InspectedRelay, client: httpx.Client
) -> None:
    assert "result" in call(client, "busy-once", build_text_part("echo hello"), id="busy-once").json()
    refused = call(client, "always-busy", build_text_part("echo hello"), id="always-busy").json()
    assert refused["error"]["data"][0]["reason"] == "RELAY_REFUSED"
    assert not {"busy-once", "always-busy"} & relay.holder.held.keys()


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
def test_data_files_and_unknown_fields_are_inspected(client: httpx.Client, part: dict[str, Any]) -> None:
    answer = call(client, "blocked", build_text_part("echo"), part, id="places").json()
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
    parts = [part] if alone else [build_text_part("echo"), part]
    answer = call(client, "blocked", *parts, id="written").json()
    assert answer["error"]["code"] == -32080


def test_mask_replaces_the_original_spelling(client: httpx.Client, agent: SdkAgent) -> None:
    sent = build_text_part("echo – SEC\u200bRET-1234 and ＳＥＣＲＥＴ-5, or SECRET-6")
    assert "result" in call(client, "masked", sent, id="masked-written").json()
    assert agent.executor.texts[-1] == "echo – [MASKED:REGEX] and [MASKED:REGEX], or [MASKED:REGEX]"


def test_a_secret_in_two_parts_of_a_message_is_found(client: httpx.Client) -> None:
    answer = call(
        client, "blocked", build_text_part("echo SEC"), build_text_part("RET-12"), id="straddling"
    ).json()
    assert answer["error"]["code"] == -32080


def test_a_refusal_names_the_policy_and_nothing_else(client: httpx.Client) -> None:
    answer = call(client, "blocked", build_text_part(f"echo {SECRET}"), id="refusal").json()
    assert answer["error"]["message"] == r"A policy blocked this message: No SECRET-\d+."
    [info] = answer["error"]["data"]
    assert info["metadata"] == {
        "policy_name": r"No SECRET-\d+",
        "policy_version": "1",
        "policy_level": "SUBSCRIPTION",
    }


def test_unreadable_parts_are_listed_in_the_audit(relay: InspectedRelay, client: httpx.Client) -> None:
    file = {"raw": "AAAA", "filename": "a.bin", "mediaType": "application/octet-stream"}
    assert "result" in call(client, "logged", build_text_part(f"echo {SECRET}"), file, id="opaque").json()
    [found] = relay.trail.of("opaque", "REGEX_DETECTION")
    assert found["metadata"]["unreadablePaths"] == ["message.parts[1].raw"]
    [whole] = relay.trail.of("opaque", "COMMUNICATION_AUDIT")
    assert whole["metadata"]["unreadablePaths"] == {"requestFromSource": ["message.parts[1].raw"]}


def test_approved_text_is_not_held_again(relay: InspectedRelay, client: httpx.Client) -> None:
    first = call(client, "held", build_text_part(f"chat {SECRET}"), id="approved-none").json()
    assert "message" in first["result"]  # the agent's words, not the caller's, are looked at on the way back
    answer = call(client, "held", build_text_part(f"echo {SECRET}"), id="approved-1").json()
    assert answer["result"]["task"]["metadata"]["relay_reason"] == "HITL_HELD"
    held = relay.holder.held["approved-1"]
    relay.holder.let_pass.update(piece.text for piece in held.message.pieces())
    again = call(client, "held", build_text_part(f"echo {SECRET}"), id="approved-2").json()
    assert "metadata" not in again["result"]["task"]
    assert "approved-2" not in relay.holder.held


@pytest.mark.parametrize("streamed", [False, True])
def test_each_call_is_audited_once_with_its_findings_masked(
    relay: InspectedRelay, client: httpx.Client, streamed: bool
) -> None:
    method = "SendStreamingMessage" if streamed else "SendMessage"
    response = call(
        client, "masked", build_text_part(f"echo {SECRET}"), id=f"whole-{streamed}", method=method
    )
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


def test_bodies_are_left_out_where_the_tenant_does_not_keep_them(
    relay: InspectedRelay, client: httpx.Client
) -> None:
    relay.trail.payloads = "none"
    try:
        call(client, "free", build_text_part("echo nothing"), id="none")
    finally:
        relay.trail.payloads = "masked"
    [event] = relay.trail.of("none", "COMMUNICATION_AUDIT")
    assert "nothing" not in repr(event)
    assert event["auditAction"] == "LOG"


@pytest.mark.parametrize(("caller", "action"), [("blocked", "BLOCK"), ("held", "HUMAN_REVIEW_REQUIRED")])
def test_refused_call_is_audited_as_refused(
    relay: InspectedRelay, client: httpx.Client, caller: str, action: str
) -> None:
    call(client, caller, build_text_part("echo SECRET-987"), id=f"not-{caller}")
    [event] = relay.trail.of(f"not-{caller}", "COMMUNICATION_AUDIT")
    assert event["auditAction"] == action
    assert "SECRET-987" not in repr(event)


def test_invalid_call_is_audited_as_refused(relay: InspectedRelay, client: httpx.Client) -> None:
    headers = {"Authorization": "Bearer free", "X-Correlation-Id": "no-call"}
    client.post("", content=b"{", headers=headers)
    [event] = relay.trail.of("no-call")
    assert (event["auditType"], event["auditAction"]) == ("VALIDATION_RESULT", "ERROR")


def test_calls_are_refused_while_the_audit_is_full(
    relay: InspectedRelay, agent: SdkAgent, client: httpx.Client
) -> None:
    relay.trail.full = True
    try:
        answer = call(client, "free", build_text_part("echo"), id="full").json()
    finally:
        relay.trail.full = False
    assert answer["error"]["code"] == -32083
    assert not any(one.get("x-correlation-id") == "full" for one in agent.seen)


def test_no_message_passes_unjudged_while_policies_change(
    relay: InspectedRelay, store: Store, client: httpx.Client
) -> None:
    """While the policy is bound anew again and again, every message with a secret is refused."""
    ended = threading.Event()

    async def bind_anew(rev: int) -> None:
        bound = build_group_record("default", build_group("changing", "changing"), rev=rev, now=NOW)
        await store.change_records(save=[bound, build_revision_record("default", rev=rev, now=NOW)])
        await relay.policy_cache.reload("default")

    def change() -> int:
        rev = 1
        while not ended.is_set():
            rev += 1
            relay.in_loop(bind_anew(rev))
        return rev

    def refused() -> Any:
        return call(client, "changing", build_text_part(f"echo {SECRET}"), id="changing").json()["error"][
            "code"
        ]

    assert refused() == -32080
    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(change)
        try:
            codes = {refused() for _ in range(40)}
        finally:
            ended.set()
        assert changes.result(60) > 5
    assert codes == {-32080}
