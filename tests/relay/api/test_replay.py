"""`/relay/v1/policies/replay`: what a policy would have done with stored traffic."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from placet.errors import CaseNotFound, NotPermitted, RateLimited, ValidationFailed
from placet.relay.registry.subscriptions import RegisteredAgent, RegisteredCaller, Subscription
from placet.relay.registry.tenant_membership import PERMISSIONS
from tests.relay.api.policy_desk import PolicyDesk
from tests.relay.policies.samples import regex_draft

pytestmark = pytest.mark.anyio

SUBSCRIPTION = Subscription(
    source=RegisteredCaller(name="travel", kind="agent"),
    sink=RegisteredAgent(id="hotel", url="https://hotel.example"),
)
HOLDS_SECRETS = regex_draft("secret-[0-9]+", "HUMAN_REVIEW_REQUIRED", name="Hold secrets")


def question(text: str) -> dict[str, Any]:
    params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}


def answer(text: str, task_id: str = "t1") -> dict[str, Any]:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    status = {"state": "TASK_STATE_COMPLETED"}
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"task": {"id": task_id, "status": status, "artifacts": [artifact]}},
    }


async def passed(
    desk: PolicyDesk,
    said: str | None = None,
    answered: str | None = None,
    *,
    exchange: Subscription = SUBSCRIPTION,
    task_id: str | None = None,
) -> None:
    """Something that the relay carried some time ago."""
    payload: dict[str, Any] = {"version": "1.0", "method": "SendMessage"}
    if said is not None:
        payload["requestBody"] = msgspec.Raw(msgspec.json.encode(question(said)))
    if answered is not None:
        payload["responseBody"] = msgspec.Raw(msgspec.json.encode(answer(answered, task_id or "t1")))
    desk.trail.record(
        desk.trail.row(
            "COMMUNICATION_AUDIT",
            exchange,
            correlation_id="c1",
            action="LOG",
            transport="JSONRPC",
            task_id=task_id,
            payload=payload,
        )
    )
    await desk.trail.flush()


async def replayed(desk: PolicyDesk, policy: Any = None, **asked: Any) -> dict[str, Any]:
    desk.clock.advance(timedelta(minutes=1))
    body = {"policy": policy or HOLDS_SECRETS, **asked}
    found: dict[str, Any] = await desk.ask("POST", "/policies/replay", body)
    return found


async def test_it_tells_what_would_have_been_held_and_shows_it_masked(desk: PolicyDesk):
    await passed(desk, "good morning", "hello")
    await passed(desk, "the secret-42 is mine, secret-42 I say", "thanks")
    await passed(desk, "tell me", "it is secret-7")
    found = await replayed(desk)
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
    assert found["summary"] == (
        "Of 3 messages that could be looked at, 2 would have been held, 0 blocked and 0 masked."
    )


async def test_what_was_not_kept_is_said_plainly(desk: PolicyDesk):
    await passed(desk)
    await passed(desk, "a [MASKED:US_SSN] was here")
    await passed(desk, "secret-1")
    found = await replayed(desk)
    assert (found["read"], found["examined"], found["withoutPayload"], found["maskedBefore"]) == (3, 2, 1, 1)
    assert "1 more were kept without their content, so nobody can say." in found["summary"]
    assert "In 1 something was masked before they were kept" in found["summary"]


async def test_a_policy_looks_only_on_its_legs(desk: PolicyDesk):
    await passed(desk, "secret-1", "fine")
    on_answers = regex_draft("secret-[0-9]+", "BLOCK", legs={"responseToSource": True})
    found = await replayed(desk, on_answers)
    assert (found["examined"], found["outcomes"]["BLOCK"]) == (1, 0)
    assert (await replayed(desk, regex_draft("fine", "BLOCK")))["outcomes"]["BLOCK"] == 1


async def test_an_answer_that_is_asked_for_again_counts_once(desk: PolicyDesk):
    for _ in range(3):
        await passed(desk, answered="secret-1", task_id="t9")
    await passed(desk, answered="secret-1", task_id="t10")
    found = await replayed(desk)
    assert (found["read"], found["repeated"], found["outcomes"]["HOLD"]) == (4, 2, 2)


async def test_time_and_parties_narrow_it_down(desk: PolicyDesk):
    user = Subscription(
        source=RegisteredCaller(name="olga", kind="user"),
        sink=RegisteredAgent(id="bank", url="https://b.example"),
    )
    await passed(desk, "secret-1")
    middle = desk.clock.advance(timedelta(hours=1))
    await passed(desk, "secret-2", exchange=user)
    for asked, count in (
        ({}, 2),
        ({"since": middle.isoformat()}, 1),
        ({"until": middle.isoformat()}, 1),
        ({"sourceUserId": "olga"}, 1),
        ({"sourceAgentId": "travel", "sinkAgentId": "hotel"}, 1),
        ({"sinkAgentId": "nobody"}, 0),
    ):
        assert (await replayed(desk, **asked))["read"] == count, asked
    desk.clock.advance(timedelta(days=2))
    assert (await replayed(desk))["read"] == 0
    with pytest.raises(ValidationFailed, match="since is not before until"):
        await replayed(desk, since=middle.isoformat(), until=middle.isoformat())


@pytest.mark.parametrize("asked", ["since", "until"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"])
async def test_a_year_of_which_nothing_can_be_kept_is_refused_by_name(
    desk: PolicyDesk, asked: str, moment: str
):
    with pytest.raises(ValidationFailed, match=f"{asked}: must be between the years"):
        await replayed(desk, **{asked: moment})


async def test_it_ends_at_its_limits_and_says_where_to_go_on(desk: PolicyDesk):
    for number in range(60):
        await passed(desk, f"secret-{number}")
        desk.clock.advance(timedelta(seconds=1))
    found = await replayed(desk, limits={"messages": 50, "examples": 2})
    assert (found["read"], found["complete"], found["stoppedBy"], len(found["examples"])) == (
        50,
        False,
        "messages",
        2,
    )
    assert "ended at its limit of messages; there is more" in found["summary"]
    rest = await replayed(desk, since=found["reachedAt"])
    assert (rest["read"], rest["complete"]) == (11, True)
    for wrong in ({"messages": 0}, {"seconds": 1_000}, {"days": 1}):
        with pytest.raises(ValidationFailed):
            await replayed(desk, limits=wrong)


async def test_a_policy_that_takes_too_long_ends_at_the_limit_of_seconds(desk: PolicyDesk):
    slow = regex_draft("(?=(a+)+$)b?a", "LOG")
    for _ in range(40):
        await passed(desk, "a" * 3_000 + "b")
    found = await replayed(desk, slow, limits={"seconds": 2})
    assert (found["complete"], found["stoppedBy"]) == (False, "seconds")
    assert found["unchecked"] == found["examined"] == found["outcomes"]["HOLD"] > 0


async def test_saved_policies_and_versions_are_replayed_whatever_their_window(desk: PolicyDesk):
    made = await desk.ask("POST", "/policies", regex_draft("old", validTo="2026-01-01T00:00:00Z"))
    await desk.ask("PUT", f"/policies/{made['policyId']}", regex_draft("new"))
    await passed(desk, "an old one")
    one = await replayed(desk, {"policyId": made["policyId"], "version": "1"})
    assert (one["policyVersion"], one["outcomes"]["BLOCK"]) == ("1", 1)
    assert (await replayed(desk, {"policyId": made["policyId"]}))["outcomes"]["BLOCK"] == 0
    with pytest.raises(CaseNotFound):
        await replayed(desk, {"policyId": "nobody"})
    with pytest.raises(ValidationFailed):
        await replayed(desk, regex_draft("("))


@pytest.mark.parametrize("missing", ["AUDIT:READ", "POLICIES:READ"])
async def test_nobody_finds_out_by_patterns_what_they_may_not_read(desk: PolicyDesk, missing: str):
    await passed(desk, "secret-1")
    desk.clock.advance(timedelta(minutes=1))
    few = PERMISSIONS - {missing}
    with pytest.raises(NotPermitted, match=missing):
        await desk.ask("POST", "/policies/replay", {"policy": HOLDS_SECRETS}, permissions=few)
    both = frozenset({"AUDIT:READ", "POLICIES:READ"})
    found = await desk.ask("POST", "/policies/replay", {"policy": HOLDS_SECRETS}, permissions=both)
    assert (found["outcomes"]["HOLD"], found["examples"][0]["excerpt"]) == (1, "[MASKED:REGEX]")


async def test_messages_of_other_tenants_are_not_read(desk: PolicyDesk):
    await passed(desk, "secret-1")
    desk.clock.advance(timedelta(minutes=1))
    found = await desk.ask("POST", "/policies/replay", {"policy": HOLDS_SECRETS}, tenant="b")
    assert found["read"] == 0


async def answered_within(desk: PolicyDesk) -> float:
    began = asyncio.get_running_loop().time()
    await desk.ask("GET", "/policies")
    return asyncio.get_running_loop().time() - began


async def test_one_replay_at_a_time_and_others_are_served_meanwhile(desk: PolicyDesk):
    for _ in range(10):
        await passed(desk, "a" * 3_000 + "b")
    running = asyncio.create_task(replayed(desk, regex_draft("(?=(a+)+$)b?a", "LOG"), limits={"seconds": 1}))
    await asyncio.wait({running}, timeout=0.05)
    with pytest.raises(RateLimited):
        await replayed(desk)
    assert min([await answered_within(desk) for _ in range(3)]) < 0.2
    assert not running.done()
    assert (await running)["stoppedBy"] == "seconds"
    assert (await replayed(desk))["complete"]


async def test_the_audit_tells_of_a_replay(desk: PolicyDesk):
    await passed(desk, "secret-1")
    await replayed(desk)
    event = (await desk.events())[-1]
    assert event["message"] == "olga ran the policy Hold secrets over stored messages."
    assert event["metadata"]["outcomes"]["HOLD"] == 1


async def test_the_replays_of_one_tenant_do_not_keep_another_from_its_own(desk: PolicyDesk):
    for _ in range(10):
        await passed(desk, "a" * 3_000 + "b")
    slow = regex_draft("(?=(a+)+$)b?a", "LOG")
    running = asyncio.create_task(replayed(desk, slow, limits={"seconds": 1}))
    await asyncio.wait({running}, timeout=0.05)
    found = await desk.ask("POST", "/policies/replay", {"policy": HOLDS_SECRETS}, tenant="b")
    assert (found["complete"], running.done()) == (True, False)
    assert (await running)["stoppedBy"] == "seconds"
