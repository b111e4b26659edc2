"""`/relay/v1/policies`: written, changed, looked at in every version, retired."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.errors import (
    CaseNotFound,
    InvalidJson,
    NotPermitted,
    RelayConflict,
    Unavailable,
    ValidationFailed,
)
from placet.relay.policies.records import build_revision_record
from tests.relay.api.policy_desk import PolicyDesk
from tests.relay.policies.samples import entity_draft, plugin_draft, regex_draft

pytestmark = pytest.mark.anyio


async def written(desk: PolicyDesk, draft: Any = None, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await desk.ask("POST", "/policies", draft or regex_draft("secret"), **more)
    return answer


async def grouped(desk: PolicyDesk, *policy_ids: str, **ref: Any) -> dict[str, Any]:
    entries = [
        {"orderIndex": place, "policy": {"policyId": one, **ref}} for place, one in enumerate(policy_ids)
    ]
    answer: dict[str, Any] = await desk.ask("POST", "/policy-groups", {"name": "All", "policies": entries})
    return answer


async def test_a_policy_is_written_and_read_as_it_was_sent(desk: PolicyDesk):
    draft = regex_draft("secret", description="No secrets", validTo="2027-01-01T00:00:00Z")
    made = await written(desk, draft)
    assert made == {
        "policyId": made["policyId"],
        "version": "1",
        "name": "No secret",
        "description": "No secrets",
        "policyType": "REGEX_DETECTION",
        "config": draft["config"],
        "validFrom": None,
        "validTo": "2027-01-01T00:00:00Z",
        "createdAt": "2026-01-01T06:00:00Z",
        "createdBy": "olga",
        "origin": "store",
        "retiredAt": None,
    }
    assert await desk.ask("GET", f"/policies/{made['policyId']}") == made


REFUSED = [
    (regex_draft("secret", legs={}), "policy.config.enabledLegs enables no leg"),
    (regex_draft("secret", legs={"request": True}), "`request` is not a known property"),
    (regex_draft("("), "policy.config.pattern.regex: The pattern"),
    (regex_draft(".*"), "policy.config.pattern.regex: The pattern"),
    (regex_draft("(?<n>a)(?&m)"), "policy.config.pattern.regex: The pattern"),
    (regex_draft("x", "EXPLODE"), "policy.config.pattern.action"),
    (entity_draft("PERSON"), "PERSON is found only with a language model, and none is set up here"),
    (entity_draft("US_SNN"), "US_SNN is not an entity type of Presidio"),
    (entity_draft("US_SSN", 1.2), "policy.config.entity.scoreThreshold"),
    (plugin_draft("x-nobody"), "no detector for x-nobody is installed here"),
    ({"name": "x", "config": {"type": "RATE_LIMIT"}}, "RATE_LIMIT is not a known type"),
    (regex_draft("x", validFrom="2027-01-01T00:00:00Z", validTo="2026-01-01T00:00:00Z"), "is not after"),
    (regex_draft("x", validFrom="2027-01-01T00:00:00"), "policy.validFrom"),
    (regex_draft("x", name="two\nlines"), "policy.name must be one line"),
    (regex_draft("x", surprise=1), "`surprise` is not a known property"),
]


@pytest.mark.parametrize(("draft", "said"), REFUSED, ids=[said[:40] for _, said in REFUSED])
async def test_what_could_never_be_checked_is_refused_and_nothing_is_kept(
    desk: PolicyDesk, draft: Any, said: str
):
    with pytest.raises(ValidationFailed) as refused:
        await written(desk, draft)
    assert said in refused.value.message
    assert (await desk.ask("GET", "/policies"))["totalElements"] == 0
    assert await desk.events() == []


async def test_a_body_that_is_no_json_is_told(desk: PolicyDesk):
    with pytest.raises(InvalidJson):
        await written(desk, b"{")


async def test_each_change_makes_a_version_and_keeps_the_earlier_ones(desk: PolicyDesk):
    first = await written(desk)
    path = f"/policies/{first['policyId']}"
    second = await desk.ask("PUT", path, regex_draft("other", "LOG"), if_match='"1"')
    assert (second["version"], second["config"]["pattern"]["regex"]) == ("2", "other")
    assert await desk.ask("GET", path) == second
    assert await desk.ask("GET", f"{path}/versions/1") == first
    versions = await desk.ask("GET", f"{path}/versions")
    assert (versions["content"], versions["totalElements"]) == ([second, first], 2)
    with pytest.raises(CaseNotFound):
        await desk.ask("GET", f"{path}/versions/3")


async def test_a_change_of_what_someone_else_changed_is_refused(desk: PolicyDesk):
    path = f"/policies/{(await written(desk))['policyId']}"
    await desk.ask("PUT", path, regex_draft("b"), if_match="1")
    with pytest.raises(RelayConflict) as late:
        await desk.ask("PUT", path, regex_draft("c"), if_match='"1"')
    assert late.value.body() == {
        "error": "conflict",
        "message": 'If-Match says "1", and this is 2 by now; look again.',
        "current": "2",
    }
    with pytest.raises(RelayConflict):
        await desk.ask("DELETE", path, if_match='"1"')
    assert (await desk.ask("PUT", path, regex_draft("d"), if_match="*"))["version"] == "3"


async def test_many_writers_at_once_lose_nothing(desk: PolicyDesk):
    path = f"/policies/{(await written(desk))['policyId']}"
    await asyncio.gather(*(desk.ask("PUT", path, regex_draft(f"n{number}")) for number in range(12)))
    versions = (await desk.ask("GET", f"{path}/versions", size="50"))["content"]
    assert [one["version"] for one in versions] == [str(number) for number in range(13, 0, -1)]
    assert len({one["config"]["pattern"]["regex"] for one in versions}) == 13


async def test_a_list_is_cut_into_pages_and_filtered(desk: PolicyDesk):
    for name in ("Keys", "Card numbers", "card names"):
        await written(desk, regex_draft("x", name=name))
        desk.clock.advance(timedelta(seconds=1))
    await written(desk, entity_draft("US_SSN"))
    page = await desk.ask("GET", "/policies", size="3")
    assert [one["name"] for one in page.pop("content")] == ["Review US_SSN", "card names", "Card numbers"]
    assert page == {
        "totalElements": 4,
        "totalPages": 2,
        "number": 0,
        "size": 3,
        "first": True,
        "last": False,
    }
    assert [one["name"] for one in (await desk.ask("GET", "/policies", size="3", page="1"))["content"]] == [
        "Keys"
    ]
    found = await desk.ask("GET", "/policies", name="CARD", type="REGEX_DETECTION")
    assert [one["name"] for one in found["content"]] == ["card names", "Card numbers"]
    wrong: list[dict[str, Any]] = [{"page": "-1"}, {"size": "0"}, {"size": "x"}, {"sort": "name"}]
    for query in wrong:
        with pytest.raises(ValidationFailed):
            await desk.ask("GET", "/policies", **query)


async def test_a_retired_policy_stays_readable_and_never_comes_back(desk: PolicyDesk):
    made = await written(desk)
    path = f"/policies/{made['policyId']}"
    await desk.ask("PUT", path, regex_draft("b"))
    assert await desk.ask("DELETE", path) is None
    assert (await desk.ask("GET", path))["retiredAt"] == "2026-01-01T06:00:00Z"
    assert (await desk.ask("GET", f"{path}/versions/1"))["retiredAt"] is not None
    assert (await desk.ask("GET", "/policies"))["content"] == []
    assert (await desk.ask("GET", "/policies", retired="true"))["totalElements"] == 1
    for method, body in (("PUT", regex_draft("c")), ("DELETE", None)):
        with pytest.raises(RelayConflict, match="retired"):
            await desk.ask(method, path, body)
    with pytest.raises(ValidationFailed, match="which was retired"):
        await grouped(desk, made["policyId"])
    assert (await desk.policy_repository.library("default")).in_force() == ()


@pytest.mark.parametrize("ref", [{}, {"version": "1"}])
async def test_a_policy_that_a_group_names_is_not_retired(desk: PolicyDesk, ref: dict[str, str]):
    made = await written(desk)
    group = await grouped(desk, made["policyId"], **ref)
    with pytest.raises(RelayConflict) as refused:
        await desk.ask("DELETE", f"/policies/{made['policyId']}")
    assert refused.value.details["groups"] == [group["id"]]
    await desk.ask("DELETE", f"/policy-groups/{group['id']}")
    await desk.ask("DELETE", f"/policies/{made['policyId']}")


async def test_the_audit_tells_who_changed_what(desk: PolicyDesk):
    made = await written(desk)
    path = f"/policies/{made['policyId']}"
    await desk.ask("PUT", path, regex_draft("b"))
    await desk.ask("DELETE", path)
    events = await desk.events()
    assert {event["auditType"] for event in events} == {"POLICY_LIFECYCLE"}
    assert [event["message"] for event in events] == [
        "olga wrote the policy No secret.",
        "olga wrote version 2 of the policy No b.",
        "olga retired the policy No b.",
    ]
    assert [event["metadata"]["operation"] for event in events] == ["CREATED", "UPDATED", "RETIRED"]
    assert {event["metadata"]["policyId"] for event in events} == {made["policyId"]}
    assert {event["sourceUser"]["id"] for event in events} == {"olga"}


async def test_policies_of_one_tenant_are_nothing_to_another(desk: PolicyDesk):
    made = await written(desk, tenant="a")
    assert (await desk.ask("GET", "/policies", tenant="b"))["content"] == []
    for method, body in (("GET", None), ("PUT", regex_draft("x")), ("DELETE", None)):
        with pytest.raises(CaseNotFound):
            await desk.ask(method, f"/policies/{made['policyId']}", body, tenant="b")
    entries = [{"orderIndex": 0, "policy": {"policyId": made["policyId"]}}]
    with pytest.raises(ValidationFailed, match="there is no such policy"):
        await desk.ask("POST", "/policy-groups", {"name": "g", "policies": entries}, tenant="b")


async def test_reading_does_not_allow_writing(desk: PolicyDesk):
    reader = frozenset({"POLICIES:READ"})
    assert (await desk.ask("GET", "/policies", permissions=reader))["content"] == []
    with pytest.raises(NotPermitted):
        await written(desk, permissions=reader)
    with pytest.raises(NotPermitted):
        await desk.ask("GET", "/policies", permissions=frozenset({"POLICIES:WRITE"}))


async def test_a_record_that_cannot_be_read_is_named_and_not_left_out(desk: PolicyDesk):
    made = await written(desk)
    known = await desk.store.get_record("default", "policy", f"{made['policyId']}:1")
    assert known is not None
    await desk.store.save_record(replace(known, rev=2, body=b'{"policy": {}, "createdBy": "x"}'))
    await desk.store.save_record(build_revision_record("default", rev=2, now=desk.clock()))
    with pytest.raises(Unavailable, match=f"The policy {made['policyId']}:1 in the store cannot be read"):
        await desk.ask("GET", "/policies")
