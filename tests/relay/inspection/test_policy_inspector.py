"""Every action on every leg in every dialect, with the official SDK's client and agent."""

import asyncio
from collections.abc import Iterator

import pytest

from placet.bootstrap.storage import open_memory_store
from placet.ports.store import Store
from placet.relay.detectors.regex import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.policy.policy import MESSAGE_LEGS, Leg, PolicyAction
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.inspection.inspected_relay import (
    CallResult,
    DialectCallers,
    InspectedRelay,
    run_inspected_relay,
    store_policies,
)
from tests.relay.policies.samples import build_regex_draft
from tests.relay.traffic.test_pass_through import BINDINGS, TIMESTAMP, UUID

SECRET = "SECRET-1234"
REQUESTS = (Leg.REQUEST_FROM_SOURCE, Leg.REQUEST_TO_SINK)
ACTIONS = [(action, leg) for action in PolicyAction for leg in MESSAGE_LEGS]
CASES = [(False, action, leg) for action, leg in ACTIONS] + [
    (True, action, leg) for action, leg in ACTIONS if leg not in REQUESTS and action is not PolicyAction.WARN
]


def name_caller(action: PolicyAction, leg: Leg) -> str:
    return f"{action.lower()}.{leg}"


def build_store() -> Store:
    """A policy for each action on each leg, each for a caller of its own."""
    store = open_memory_store()
    drafts = {
        name_caller(action, leg): build_regex_draft(
            r"SECRET-\d+",
            action.value,
            legs={leg.value: True},
            name=f"No secrets {name_caller(action, leg)}",
        )
        for action, leg in ACTIONS
    }
    asyncio.run(store_policies(store, drafts, "errands"))
    return store


@pytest.fixture(scope="module")
def relay(agent: SdkAgent) -> Iterator[InspectedRelay]:
    callers = [name_caller(action, leg) for action, leg in ACTIONS]
    settings = RelaySettings(
        agents={"errands": AgentSettings(url=agent.url)},
        callers={name: CallerSettings(agents=("errands",)) for name in (*callers, "free")},
    )
    with run_inspected_relay(settings, build_store(), DetectorRegistry([RegexDetector()])) as found:
        yield found


@pytest.fixture(scope="module")
def callers(relay: InspectedRelay) -> Iterator[DialectCallers]:
    found = DialectCallers(relay, "errands")
    yield found
    found.close()


@pytest.mark.parametrize("dialect", BINDINGS, ids="-".join)
@pytest.mark.parametrize(("stream", "action", "leg"), CASES)
def test_each_action_on_each_leg(
    *,
    relay: InspectedRelay,
    callers: DialectCallers,
    agent: SdkAgent,
    action: PolicyAction,
    leg: Leg,
    stream: bool,
    dialect: tuple[str, str],
) -> None:
    agent.seen.clear()
    caller = name_caller(action, leg)
    found = callers.call(caller, f"echo {SECRET}", dialect, stream=stream)
    said = found.said
    reached = any(one.get("x-correlation-id") == found.correlation_id for one in agent.seen)
    if action is PolicyAction.BLOCK:
        assert not found.events
        assert found.error is not None
        # The SDK's client of 1.0 over HTTP tells only the status of a reason that it does not know.
        assert "blocked this message" in found.error or "403 Forbidden" in found.error
        assert SECRET not in found.error
    elif action is PolicyAction.HUMAN_REVIEW_REQUIRED:
        assert SECRET not in said
        assert found.events[-1]["task"]["metadata"] == {
            "relay_reason": "HITL_HELD",
            "policy_name": f"No secrets {caller}",
            "policy_version": "1",
            "policy_level": "SUBSCRIPTION",
        }
        assert relay.holder.held[found.correlation_id][0] is leg
    elif action is PolicyAction.MASK:
        assert "[MASKED:REGEX]" in said
        assert SECRET not in said
    else:
        assert SECRET in said
        assert found.error is None
    goes_there = leg not in REQUESTS or action not in (PolicyAction.BLOCK, PolicyAction.HUMAN_REVIEW_REQUIRED)
    assert reached is goes_there
    told = relay.trail.of(found.correlation_id, "REGEX_DETECTION")
    assert {(one["auditAction"], one["metadata"]["leg"]) for one in told} == {(action, leg)}
    assert SECRET not in repr(told)


@pytest.mark.parametrize("leg", [leg for leg in MESSAGE_LEGS if leg not in REQUESTS])
@pytest.mark.parametrize("dialect", BINDINGS, ids="-".join)
def test_match_split_over_stream_events_is_masked(
    callers: DialectCallers, leg: Leg, dialect: tuple[str, str]
) -> None:
    found = callers.call(name_caller(PolicyAction.MASK, leg), f"spell a {SECRET} b", dialect, stream=True)
    chunks = [
        part["text"]
        for event in found.events
        for part in event.get("artifactUpdate", {}).get("artifact", {}).get("parts", [])
    ]
    mask = "[MASKED:REGEX]"
    assert chunks == [f"a {mask}", mask, mask, mask, f"{mask} b"]


@pytest.mark.parametrize("dialect", BINDINGS, ids="-".join)
def test_match_split_over_stream_events_is_blocked_before_any_text_is_sent(
    callers: DialectCallers, dialect: tuple[str, str]
) -> None:
    caller = name_caller(PolicyAction.BLOCK, Leg.RESPONSE_TO_SOURCE)
    found = callers.call(caller, f"spell {SECRET}", dialect, stream=True)
    assert found.error is not None
    assert "SEC" not in found.error


@pytest.mark.parametrize("dialect", BINDINGS, ids="-".join)
def test_match_split_over_stream_events_is_held_as_one_reply(
    relay: InspectedRelay, callers: DialectCallers, dialect: tuple[str, str]
) -> None:
    caller = name_caller(PolicyAction.HUMAN_REVIEW_REQUIRED, Leg.RESPONSE_FROM_SINK)
    found = callers.call(caller, f"spell {SECRET}", dialect, stream=True)
    assert "SEC" not in found.said
    assert found.events[-1]["task"]["metadata"]["relay_reason"] == "HITL_HELD"
    held = relay.holder.held[found.correlation_id]
    texts = [piece.text for piece in held.message.pieces()]
    assert [texts[one.piece][one.start : one.end] for one in held.evaluation.findings] == [SECRET]
    assert held.message.final
    assert found.events[-1]["task"]["id"] == held.message.task_id


@pytest.mark.parametrize("dialect", BINDINGS, ids="-".join)
@pytest.mark.parametrize("text", ["spell nothing", "echo nothing", "chat"])
def test_a_stream_in_which_nothing_is_found_passes_as_it_is(
    callers: DialectCallers, text: str, dialect: tuple[str, str]
) -> None:
    caller = name_caller(PolicyAction.BLOCK, Leg.RESPONSE_TO_SOURCE)
    looked_at = callers.call(caller, text, dialect, stream=True)
    assert looked_at.error is None
    [first] = looked_at.events[0].values()
    assert first.pop("metadata")["relay_streaming"] == "whole"  # the pattern is unbounded
    assert _replace_ids_and_times(looked_at) == _replace_ids_and_times(
        callers.call("free", text, dialect, stream=True)
    )


def _replace_ids_and_times(found: CallResult) -> str:
    return TIMESTAMP.sub("then", UUID.sub("id", repr(found.events)))


def test_caller_without_policies_is_not_inspected(relay: InspectedRelay, callers: DialectCallers) -> None:
    found = callers.call("free", f"echo {SECRET}", stream=True)
    assert SECRET in found.said
    assert relay.trail.of(found.correlation_id, "REGEX_DETECTION") == []
