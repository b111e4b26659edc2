"""What the audit tells of a look at a message: who matched, who could not look, who was not reached."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from placet.ports.detector import CLEAN, PreparedRules, Rule, Scan, Scannable
from placet.relay.a2a.call import parse_call
from placet.relay.detectors.regex import RegexDetector
from placet.relay.exchange import Exchange
from placet.relay.inspection.detection_events import MAX_POLICIES, build_detection_events, get_event_type
from placet.relay.policy.policy import Leg, Policy
from placet.relay.tenants import RegisteredAgent, RegisteredCaller, Subscription
from tests.relay.detectors.sample_evaluator import build_evaluator, evaluate_texts
from tests.relay.inspection.inspected_relay import MemoryAuditLog
from tests.relay.policies.samples import build_plugin_draft, build_policy, build_regex_policy

CALL = parse_call(
    method="POST",
    path="",
    query="",
    version="1.0",
    content_type="application/json",
    body=msgspec.json.encode(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {"message": {"messageId": "m", "contextId": "c", "parts": [{"text": "x"}]}},
        }
    ),
)
EXCHANGE = Exchange(
    subscription=Subscription(
        source=RegisteredCaller(name="ada", kind="user"), sink=RegisteredAgent(id="bank", url="")
    ),
    correlation_id="one",
    call=CALL,
)


class BlindDetector:
    """A detector that finds nothing, or cannot look."""

    type = "x-blind.eye"
    within = timedelta(seconds=1)

    def __init__(self, scan: Scan = CLEAN) -> None:
        self._scan = scan

    def check(self, rule: Rule) -> None:
        return None

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        return self

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        return self._scan

    async def aclose(self) -> None:
        return None


def list_detection_events(policies: list[Policy], text: str, blind: BlindDetector) -> list[dict[str, Any]]:
    found = asyncio.run(evaluate_texts(build_evaluator(policies, RegexDetector(), blind), text))
    rows = build_detection_events(MemoryAuditLog(), Leg.REQUEST_TO_SINK, EXCHANGE, CALL, found)
    return [msgspec.json.decode(row.body) for row in rows]


def test_block_event_names_matched_and_skipped_policies() -> None:
    policies = [
        build_regex_policy("secret", "BLOCK", "p1"),
        build_policy(build_plugin_draft("x-blind.eye"), "p2"),
    ]
    [event] = list_detection_events(policies, "a secret", BlindDetector())
    assert (event["auditType"], event["auditAction"]) == ("REGEX_DETECTION", "BLOCK")
    assert event["sourceUser"]["id"] == "ada"
    assert (event["messageId"], event["contextId"]) == ("m", "c")
    metadata = event["metadata"]
    assert (metadata["outcome"], metadata["decidedBy"]["policyId"]) == ("BLOCK", "p1")
    assert [one["policyId"] for one in metadata["matched"]] == ["p1"]
    assert [one["policyId"] for one in metadata["notReached"]] == ["p2"]
    assert [(one["start"], one["end"]) for one in metadata["findings"]] == [(2, 8)]
    assert "secret" not in repr([metadata["findings"], event["message"]]).replace("No secret", "")


def test_each_detector_has_an_event_of_its_own_and_a_failure_is_an_error() -> None:
    policies = [
        build_regex_policy("secret", "LOG", "p1"),
        build_policy(build_plugin_draft("x-blind.eye", "LOG"), "p2"),
    ]
    found = list_detection_events(policies, "a secret", BlindDetector(Scan(unchecked={0: "it is dark"})))
    assert [(one["auditType"], one["auditAction"]) for one in found] == [
        ("REGEX_DETECTION", "LOG"),
        ("X_BLIND_EYE_DETECTION", "ERROR"),
    ]
    assert [one["metadata"]["outcome"] for one in found] == ["HOLD", "HOLD"]
    [unchecked] = found[1]["metadata"]["unchecked"]
    assert (unchecked["policyId"], unchecked["reason"]) == ("p2", "it is dark")


def test_a_message_in_which_nothing_was_found_has_no_event() -> None:
    assert list_detection_events([build_regex_policy("secret")], "nothing", BlindDetector()) == []


def test_event_for_thousands_of_policies_is_bounded() -> None:
    policies = [build_regex_policy("secret", "LOG", f"p{number}") for number in range(MAX_POLICIES + 50)]
    [event] = list_detection_events(policies, "a secret", BlindDetector())
    assert len(event["metadata"]["matched"]) == MAX_POLICIES
    assert event["metadata"]["matches"] == MAX_POLICIES + 50


def test_events_of_plug_ins_have_types_of_their_own() -> None:
    assert get_event_type("REGEX_DETECTION") == "REGEX_DETECTION"
    assert get_event_type("x-own.thing") == "X_OWN_THING_DETECTION"
