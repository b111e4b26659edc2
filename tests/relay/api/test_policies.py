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
from placet.relay.policy.policy_set import build_revision_record
from tests.relay.api.policy_api_client import PolicyApiClient
from tests.relay.policies.samples import build_entity_draft, build_plugin_draft, build_regex_draft

pytestmark = pytest.mark.anyio


async def create_policy(policy_api: PolicyApiClient, draft: Any = None, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await policy_api.request(
        "POST", "/policies", draft or build_regex_draft("secret"), **more
    )
    return answer


async def create_group(policy_api: PolicyApiClient, *policy_ids: str, **ref: Any) -> dict[str, Any]:
    entries = [
        {"orderIndex": place, "policy": {"policyId": one, **ref}} for place, one in enumerate(policy_ids)
    ]
    answer: dict[str, Any] = await policy_api.request(
        "POST", "/policy-groups", {"name": "All", "policies": entries}
    )
    return answer


async def test_a_policy_is_written_and_read_as_it_was_sent(policy_api: PolicyApiClient):
    draft = build_regex_draft(
        "secret", description="No secrets", streaming="whole", validTo="2027-01-01T00:00:00Z"
    )
    made = await create_policy(policy_api, draft)
    assert made == {
        "policyId": made["policyId"],
        "version": "1",
        "name": "No secret",
        "description": "No secrets",
        "policyType": "REGEX_DETECTION",
        "config": draft["config"],
        "streaming": "whole",
        "validFrom": None,
        "validTo": "2027-01-01T00:00:00Z",
        "createdAt": "2026-01-01T06:00:00Z",
        "createdBy": "olga",
        "origin": "store",
        "retiredAt": None,
    }
    assert await policy_api.request("GET", f"/policies/{made['policyId']}") == made


REFUSED = [
    (build_regex_draft("secret", legs={}), "policy.config.enabledLegs enables no leg"),
    (build_regex_draft("secret", legs={"request": True}), "`request` is not a known property"),
    (build_regex_draft("("), "policy.config.pattern.regex: The pattern"),
    (build_regex_draft(".*"), "policy.config.pattern.regex: The pattern"),
    (build_regex_draft("(?<n>a)(?&m)"), "policy.config.pattern.regex: The pattern"),
    (build_regex_draft("x", "EXPLODE"), "policy.config.pattern.action"),
    (build_entity_draft("PERSON"), "PERSON is found only with a language model. No model is configured"),
    (build_entity_draft("US_SNN"), "US_SNN is not an entity type of Presidio"),
    (build_entity_draft("US_SSN", 1.2), "policy.config.entity.scoreThreshold"),
    (build_plugin_draft("x-nobody"), "no detector for x-nobody is installed"),
    ({"name": "x", "config": {"type": "RATE_LIMIT"}}, "RATE_LIMIT is not a known type"),
    (
        build_regex_draft("x", validFrom="2027-01-01T00:00:00Z", validTo="2026-01-01T00:00:00Z"),
        "is not after",
    ),
    (build_regex_draft("x", validFrom="2027-01-01T00:00:00"), "policy.validFrom"),
    (build_regex_draft("x", name="two\nlines"), "policy.name must be one line"),
    (build_regex_draft("x", surprise=1), "`surprise` is not a known property"),
]


@pytest.mark.parametrize(("draft", "said"), REFUSED, ids=[said[:40] for _, said in REFUSED])
async def test_uncheckable_policy_is_refused_and_not_stored(
    policy_api: PolicyApiClient, draft: Any, said: str
):
    with pytest.raises(ValidationFailed) as refused:
        await create_policy(policy_api, draft)
    assert said in refused.value.message
    assert (await policy_api.request("GET", "/policies"))["totalElements"] == 0
    assert await policy_api.events() == []


async def test_body_that_is_not_json_is_refused(policy_api: PolicyApiClient):
    with pytest.raises(InvalidJson):
        await create_policy(policy_api, b"{")


async def test_each_change_makes_a_version_and_keeps_the_earlier_ones(policy_api: PolicyApiClient):
    first = await create_policy(policy_api)
    path = f"/policies/{first['policyId']}"
    second = await policy_api.request("PUT", path, build_regex_draft("other", "LOG"), if_match='"1"')
    assert (second["version"], second["config"]["pattern"]["regex"]) == ("2", "other")
    assert await policy_api.request("GET", path) == second
    assert await policy_api.request("GET", f"{path}/versions/1") == first
    versions = await policy_api.request("GET", f"{path}/versions")
    assert (versions["content"], versions["totalElements"]) == ([second, first], 2)
    with pytest.raises(CaseNotFound):
        await policy_api.request("GET", f"{path}/versions/3")


async def test_a_change_of_what_someone_else_changed_is_refused(policy_api: PolicyApiClient):
    path = f"/policies/{(await create_policy(policy_api))['policyId']}"
    await policy_api.request("PUT", path, build_regex_draft("b"), if_match="1")
    with pytest.raises(RelayConflict) as late:
        await policy_api.request("PUT", path, build_regex_draft("c"), if_match='"1"')
    assert late.value.body() == {
        "error": "conflict",
        "message": 'If-Match is "1", but the current revision is 2. Read it again.',
        "current": "2",
    }
    with pytest.raises(RelayConflict):
        await policy_api.request("DELETE", path, if_match='"1"')
    assert (await policy_api.request("PUT", path, build_regex_draft("d"), if_match="*"))["version"] == "3"


async def test_many_writers_at_once_lose_nothing(policy_api: PolicyApiClient):
    path = f"/policies/{(await create_policy(policy_api))['policyId']}"
    await asyncio.gather(
        *(policy_api.request("PUT", path, build_regex_draft(f"n{number}")) for number in range(12))
    )
    versions = (await policy_api.request("GET", f"{path}/versions", size="50"))["content"]
    assert [one["version"] for one in versions] == [str(number) for number in range(13, 0, -1)]
    assert len({one["config"]["pattern"]["regex"] for one in versions}) == 13


async def test_a_list_is_cut_into_pages_and_filtered(policy_api: PolicyApiClient):
    for name in ("Keys", "Card numbers", "card names"):
        await create_policy(policy_api, build_regex_draft("x", name=name))
        policy_api.clock.advance(timedelta(seconds=1))
    await create_policy(policy_api, build_entity_draft("US_SSN"))
    page = await policy_api.request("GET", "/policies", size="3")
    assert [one["name"] for one in page.pop("content")] == ["Review US_SSN", "card names", "Card numbers"]
    assert page == {
        "totalElements": 4,
        "totalPages": 2,
        "number": 0,
        "size": 3,
        "first": True,
        "last": False,
    }
    assert [
        one["name"] for one in (await policy_api.request("GET", "/policies", size="3", page="1"))["content"]
    ] == ["Keys"]
    found = await policy_api.request("GET", "/policies", name="CARD", type="REGEX_DETECTION")
    assert [one["name"] for one in found["content"]] == ["card names", "Card numbers"]
    wrong: list[dict[str, Any]] = [{"page": "-1"}, {"size": "0"}, {"size": "x"}, {"sort": "name"}]
    for query in wrong:
        with pytest.raises(ValidationFailed):
            await policy_api.request("GET", "/policies", **query)


async def test_a_retired_policy_stays_readable_and_never_comes_back(policy_api: PolicyApiClient):
    made = await create_policy(policy_api)
    path = f"/policies/{made['policyId']}"
    await policy_api.request("PUT", path, build_regex_draft("b"))
    assert await policy_api.request("DELETE", path) is None
    assert (await policy_api.request("GET", path))["retiredAt"] == "2026-01-01T06:00:00Z"
    assert (await policy_api.request("GET", f"{path}/versions/1"))["retiredAt"] is not None
    assert (await policy_api.request("GET", "/policies"))["content"] == []
    assert (await policy_api.request("GET", "/policies", retired="true"))["totalElements"] == 1
    for method, body in (("PUT", build_regex_draft("c")), ("DELETE", None)):
        with pytest.raises(RelayConflict, match="retired"):
            await policy_api.request(method, path, body)
    with pytest.raises(ValidationFailed, match="which is retired"):
        await create_group(policy_api, made["policyId"])
    assert (await policy_api.policy_repository.get_snapshot("default")).in_force() == ()


@pytest.mark.parametrize("ref", [{}, {"version": "1"}])
async def test_a_policy_that_a_group_names_is_not_retired(policy_api: PolicyApiClient, ref: dict[str, str]):
    made = await create_policy(policy_api)
    group = await create_group(policy_api, made["policyId"], **ref)
    with pytest.raises(RelayConflict) as refused:
        await policy_api.request("DELETE", f"/policies/{made['policyId']}")
    assert refused.value.details["groups"] == [group["id"]]
    await policy_api.request("DELETE", f"/policy-groups/{group['id']}")
    await policy_api.request("DELETE", f"/policies/{made['policyId']}")


async def test_policy_changes_are_audited_with_the_member(policy_api: PolicyApiClient):
    made = await create_policy(policy_api)
    path = f"/policies/{made['policyId']}"
    await policy_api.request("PUT", path, build_regex_draft("b"))
    await policy_api.request("DELETE", path)
    events = await policy_api.events()
    assert {event["auditType"] for event in events} == {"POLICY_LIFECYCLE"}
    assert [event["message"] for event in events] == [
        "olga created the policy No secret.",
        "olga created version 2 of the policy No b.",
        "olga retired the policy No b.",
    ]
    assert [event["metadata"]["operation"] for event in events] == ["CREATED", "UPDATED", "RETIRED"]
    assert {event["metadata"]["policyId"] for event in events} == {made["policyId"]}
    assert {event["sourceUser"]["id"] for event in events} == {"olga"}


async def test_policies_are_invisible_to_other_tenants(policy_api: PolicyApiClient):
    made = await create_policy(policy_api, tenant="a")
    assert (await policy_api.request("GET", "/policies", tenant="b"))["content"] == []
    for method, body in (("GET", None), ("PUT", build_regex_draft("x")), ("DELETE", None)):
        with pytest.raises(CaseNotFound):
            await policy_api.request(method, f"/policies/{made['policyId']}", body, tenant="b")
    entries = [{"orderIndex": 0, "policy": {"policyId": made["policyId"]}}]
    with pytest.raises(ValidationFailed, match="which does not exist"):
        await policy_api.request("POST", "/policy-groups", {"name": "g", "policies": entries}, tenant="b")


async def test_reading_does_not_allow_writing(policy_api: PolicyApiClient):
    reader = frozenset({"POLICIES:READ"})
    assert (await policy_api.request("GET", "/policies", permissions=reader))["content"] == []
    with pytest.raises(NotPermitted):
        await create_policy(policy_api, permissions=reader)
    with pytest.raises(NotPermitted):
        await policy_api.request("GET", "/policies", permissions=frozenset({"POLICIES:WRITE"}))


async def test_a_record_that_cannot_be_read_is_named_and_not_left_out(policy_api: PolicyApiClient):
    made = await create_policy(policy_api)
    known = await policy_api.store.get_record("default", "policy", f"{made['policyId']}:1")
    assert known is not None
    await policy_api.store.save_record(replace(known, rev=2, body=b'{"policy": {}, "createdBy": "x"}'))
    await policy_api.store.save_record(build_revision_record("default", rev=2, now=policy_api.clock()))
    with pytest.raises(Unavailable, match=f"The policy {made['policyId']}:1 in the store cannot be read"):
        await policy_api.request("GET", "/policies")
