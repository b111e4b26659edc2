"""`/relay/v1/policies/replay`: what a policy would have done with stored traffic."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from placet.errors import CaseNotFound, NotPermitted, RateLimited, ValidationFailed
from placet.relay.tenants import PERMISSIONS, RegisteredAgent, RegisteredCaller, Subscription
from tests.relay.api.policy_api_client import PolicyApiClient
from tests.relay.policies.samples import build_regex_draft

pytestmark = pytest.mark.anyio

SUBSCRIPTION = Subscription(
    source=RegisteredCaller(name="travel", kind="agent"),
    sink=RegisteredAgent(id="hotel", url="https://hotel.example"),
)
HOLDS_SECRETS = build_regex_draft("secret-[0-9]+", "HUMAN_REVIEW_REQUIRED", name="Hold secrets")


def build_question(text: str) -> dict[str, Any]:
    params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}


def build_answer(text: str, task_id: str = "t1") -> dict[str, Any]:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    status = {"state": "TASK_STATE_COMPLETED"}
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"task": {"id": task_id, "status": status, "artifacts": [artifact]}},
    }


async def store_call(
    policy_api: PolicyApiClient,
    said: str | None = None,
    answered: str | None = None,
    *,
    exchange: Subscription = SUBSCRIPTION,
    task_id: str | None = None,
) -> None:
    """Something that the relay carried some time ago."""
    payload: dict[str, Any] = {"version": "1.0", "method": "SendMessage"}
    if said is not None:
        payload["requestBody"] = msgspec.Raw(msgspec.json.encode(build_question(said)))
    if answered is not None:
        payload["responseBody"] = msgspec.Raw(msgspec.json.encode(build_answer(answered, task_id or "t1")))
    policy_api.trail.record(
        policy_api.trail.build_event(
            "COMMUNICATION_AUDIT",
            exchange,
            correlation_id="c1",
            action="LOG",
            transport="JSONRPC",
            task_id=task_id,
            payload=payload,
        )
    )
    await policy_api.trail.flush()


async def replay(policy_api: PolicyApiClient, policy: Any = None, **asked: Any) -> dict[str, Any]:
    policy_api.clock.advance(timedelta(minutes=1))
    body = {"policy": policy or HOLDS_SECRETS, **asked}
    found: dict[str, Any] = await policy_api.request("POST", "/policies/replay", body)
    return found


async def test_replay_lists_held_messages_masked(policy_api: PolicyApiClient):
    await store_call(policy_api, "good morning", "hello")
    await store_call(policy_api, "the secret-42 is mine, secret-42 I say", "thanks")
    await store_call(policy_api, "tell me", "it is secret-7")
    found = await replay(policy_api)
    assert found["outcomes"] == {"PASS": 1, "LOG": 0, "WARN": 0, "MASK": 0, "HOLD": 2, "BLOCK": 0}
    assert (found["read"], found["examined"], found["complete"]) == (3, 3, True)
    first, second = found["examples"]
    assert first["excerpt"] == "the [MASKED:REGEX] is mine, [MASKED:REGEX] I say"
    assert (first["leg"], first["outcome"]) == ("requestFromSource", "HOLD")
    assert first["findings"][0] == {
        "entity": "REGEX",
        "score": 1.0,
        "path": "message.parts[0].text",
        "start": 4,
        "end": 13,
    }
    assert (first["sourceAgentId"], first["sourceUserId"], first["sinkAgentId"]) == ("travel", None, "hotel")
    assert (second["leg"], second["excerpt"]) == ("responseFromSink", "it is [MASKED:REGEX]")
    assert "secret-" not in str(found)
    assert found["summary"] == ("Of 3 examined messages, 2 would have been held, 0 blocked and 0 masked.")


async def test_replay_reports_calls_without_stored_bodies(policy_api: PolicyApiClient):
    await store_call(policy_api)
    await store_call(policy_api, "a [MASKED:US_SSN] was here")
    await store_call(policy_api, "secret-1")
    found = await replay(policy_api)
    assert (found["read"], found["examined"], found["withoutPayload"], found["maskedBefore"]) == (3, 2, 1, 1)
    assert "1 more were stored without their content and not examined." in found["summary"]
    assert "1 were masked before they were stored" in found["summary"]


async def test_replay_evaluates_only_the_policys_legs(policy_api: PolicyApiClient):
    await store_call(policy_api, "secret-1", "fine")
    on_answers = build_regex_draft("secret-[0-9]+", "BLOCK", legs={"responseToSource": True})
    found = await replay(policy_api, on_answers)
    assert (found["examined"], found["outcomes"]["BLOCK"]) == (1, 0)
    assert (await replay(policy_api, build_regex_draft("fine", "BLOCK")))["outcomes"]["BLOCK"] == 1


async def test_repeated_reply_counts_once(policy_api: PolicyApiClient):
    for _ in range(3):
        await store_call(policy_api, answered="secret-1", task_id="t9")
    await store_call(policy_api, answered="secret-1", task_id="t10")
    found = await replay(policy_api)
    assert (found["read"], found["repeated"], found["outcomes"]["HOLD"]) == (4, 2, 2)


async def test_replay_is_filtered_by_time_source_and_sink(policy_api: PolicyApiClient):
    user = Subscription(
        source=RegisteredCaller(name="olga", kind="user"),
        sink=RegisteredAgent(id="bank", url="https://b.example"),
    )
    await store_call(policy_api, "secret-1")
    middle = policy_api.clock.advance(timedelta(hours=1))
    await store_call(policy_api, "secret-2", exchange=user)
    for asked, count in (
        ({}, 2),
        ({"since": middle.isoformat()}, 1),
        ({"until": middle.isoformat()}, 1),
        ({"sourceUserId": "olga"}, 1),
        ({"sourceAgentId": "travel", "sinkAgentId": "hotel"}, 1),
        ({"sinkAgentId": "nobody"}, 0),
    ):
        assert (await replay(policy_api, **asked))["read"] == count, asked
    policy_api.clock.advance(timedelta(days=2))
    assert (await replay(policy_api))["read"] == 0
    with pytest.raises(ValidationFailed, match="since is not before until"):
        await replay(policy_api, since=middle.isoformat(), until=middle.isoformat())


@pytest.mark.parametrize("asked", ["since", "until"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"])
async def test_replay_time_outside_the_supported_years_is_refused(
    policy_api: PolicyApiClient, asked: str, moment: str
):
    with pytest.raises(ValidationFailed, match=f"{asked}: must be between the years"):
        await replay(policy_api, **{asked: moment})


async def test_replay_stops_at_its_limits_and_says_where_to_continue(policy_api: PolicyApiClient):
    for number in range(60):
        await store_call(policy_api, f"secret-{number}")
        policy_api.clock.advance(timedelta(seconds=1))
    found = await replay(policy_api, limits={"messages": 50, "examples": 2})
    assert (found["read"], found["complete"], found["stoppedBy"], len(found["examples"])) == (
        50,
        False,
        "messages",
        2,
    )
    assert "reached its limit of messages; there are more" in found["summary"]
    rest = await replay(policy_api, since=found["reachedAt"])
    assert (rest["read"], rest["complete"]) == (11, True)
    for wrong in ({"messages": 0}, {"seconds": 1_000}, {"days": 1}):
        with pytest.raises(ValidationFailed):
            await replay(policy_api, limits=wrong)


async def test_a_policy_that_takes_too_long_ends_at_the_limit_of_seconds(policy_api: PolicyApiClient):
    slow = build_regex_draft("(?=(a+)+$)b?a", "LOG")
    for _ in range(40):
        await store_call(policy_api, "a" * 3_000 + "b")
    found = await replay(policy_api, slow, limits={"seconds": 2})
    assert (found["complete"], found["stoppedBy"]) == (False, "seconds")
    assert found["unchecked"] == found["examined"] == found["outcomes"]["HOLD"] > 0


async def test_saved_policies_and_versions_are_replayed_whatever_their_window(policy_api: PolicyApiClient):
    made = await policy_api.request(
        "POST", "/policies", build_regex_draft("old", validTo="2026-01-01T00:00:00Z")
    )
    await policy_api.request("PUT", f"/policies/{made['policyId']}", build_regex_draft("new"))
    await store_call(policy_api, "an old one")
    one = await replay(policy_api, {"policyId": made["policyId"], "version": "1"})
    assert (one["policyVersion"], one["outcomes"]["BLOCK"]) == ("1", 1)
    assert (await replay(policy_api, {"policyId": made["policyId"]}))["outcomes"]["BLOCK"] == 0
    with pytest.raises(CaseNotFound):
        await replay(policy_api, {"policyId": "nobody"})
    with pytest.raises(ValidationFailed):
        await replay(policy_api, build_regex_draft("("))


@pytest.mark.parametrize("missing", ["AUDIT:READ", "POLICIES:READ"])
async def test_replay_needs_permission_to_read_audit_and_policies(policy_api: PolicyApiClient, missing: str):
    await store_call(policy_api, "secret-1")
    policy_api.clock.advance(timedelta(minutes=1))
    few = PERMISSIONS - {missing}
    with pytest.raises(NotPermitted, match=missing):
        await policy_api.request("POST", "/policies/replay", {"policy": HOLDS_SECRETS}, permissions=few)
    both = frozenset({"AUDIT:READ", "POLICIES:READ"})
    found = await policy_api.request("POST", "/policies/replay", {"policy": HOLDS_SECRETS}, permissions=both)
    assert (found["outcomes"]["HOLD"], found["examples"][0]["excerpt"]) == (1, "[MASKED:REGEX]")


async def test_messages_of_other_tenants_are_not_read(policy_api: PolicyApiClient):
    await store_call(policy_api, "secret-1")
    policy_api.clock.advance(timedelta(minutes=1))
    found = await policy_api.request("POST", "/policies/replay", {"policy": HOLDS_SECRETS}, tenant="b")
    assert found["read"] == 0


async def measure_response_time(policy_api: PolicyApiClient) -> float:
    began = asyncio.get_running_loop().time()
    await policy_api.request("GET", "/policies")
    return asyncio.get_running_loop().time() - began


async def test_one_replay_runs_at_a_time_without_blocking_requests(policy_api: PolicyApiClient):
    for _ in range(10):
        await store_call(policy_api, "a" * 3_000 + "b")
    running = asyncio.create_task(
        replay(policy_api, build_regex_draft("(?=(a+)+$)b?a", "LOG"), limits={"seconds": 1})
    )
    await asyncio.wait({running}, timeout=0.05)
    with pytest.raises(RateLimited):
        await replay(policy_api)
    assert min([await measure_response_time(policy_api) for _ in range(3)]) < 0.2
    assert not running.done()
    assert (await running)["stoppedBy"] == "seconds"
    assert (await replay(policy_api))["complete"]


async def test_replay_is_audited(policy_api: PolicyApiClient):
    await store_call(policy_api, "secret-1")
    await replay(policy_api)
    event = (await policy_api.events())[-1]
    assert event["message"] == "olga replayed the policy Hold secrets on stored messages."
    assert event["metadata"]["outcomes"]["HOLD"] == 1


async def test_replay_limit_is_per_tenant(policy_api: PolicyApiClient):
    for _ in range(10):
        await store_call(policy_api, "a" * 3_000 + "b")
    slow = build_regex_draft("(?=(a+)+$)b?a", "LOG")
    running = asyncio.create_task(replay(policy_api, slow, limits={"seconds": 1}))
    await asyncio.wait({running}, timeout=0.05)
    found = await policy_api.request("POST", "/policies/replay", {"policy": HOLDS_SECRETS}, tenant="b")
    assert (found["complete"], running.done()) == (True, False)
    assert (await running)["stoppedBy"] == "seconds"
