"""`/relay/v1/policy-groups`: policies in their order."""

from typing import Any

import pytest

from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from tests.relay.api.policy_api_client import PolicyApiClient
from tests.relay.policies.samples import build_regex_draft

pytestmark = pytest.mark.anyio


async def create_policies(policy_api: PolicyApiClient, *patterns: str) -> list[str]:
    return [
        (await policy_api.request("POST", "/policies", build_regex_draft(one)))["policyId"]
        for one in patterns
    ]


def build_group_draft(*entries: Any, **over: Any) -> dict[str, Any]:
    listed = [{"orderIndex": index, "policy": policy} for index, policy in entries]
    return {"name": "Secrets", "policies": listed, **over}


async def test_a_group_keeps_its_policies_in_order(policy_api: PolicyApiClient):
    one, other = await create_policies(policy_api, "a", "b")
    made = await policy_api.request(
        "POST",
        "/policy-groups",
        build_group_draft(
            (5, {"policyId": one}), (2, {"policyId": other, "version": "1"}), description="What leaks"
        ),
    )
    assert made == {
        "id": made["id"],
        "name": "Secrets",
        "description": "What leaks",
        "policies": [
            {"orderIndex": 2, "policy": {"policyId": other, "version": "1"}},
            {"orderIndex": 5, "policy": {"policyId": one, "version": None}},
        ],
        "createdAt": "2026-01-01T06:00:00Z",
        "rev": 1,
    }
    assert await policy_api.request("GET", f"/policy-groups/{made['id']}") == made


async def test_group_accepts_whole_policies_instead_of_ids(policy_api: PolicyApiClient):
    made = await policy_api.request("POST", "/policies", build_regex_draft("a"))
    group = await policy_api.request("POST", "/policy-groups", build_group_draft((0, made)))
    assert group["policies"][0]["policy"] == {"policyId": made["policyId"], "version": "1"}


REFUSED = [
    (
        ((0, {"policyId": "nobody"}),),
        "group.policies[0].policy.policyId names nobody, which does not exist",
    ),
    (((0, {"policyId": "ONE", "version": "9"}),), "which the policy does not have"),
    (((0, {"policyId": "ONE"}), (1, {"policyId": "ONE"})), "twice"),
    (((0, {"policyId": "ONE"}), (0, {"policyId": "TWO"})), "group.policies.orderIndex names 0 twice"),
    (((-1, {"policyId": "ONE"}),), "orderIndex"),
]


@pytest.mark.parametrize(("entries", "said"), REFUSED)
async def test_a_group_that_would_protect_less_than_it_says_is_refused(
    policy_api: PolicyApiClient, entries: Any, said: str
):
    named = dict(zip(("ONE", "TWO"), await create_policies(policy_api, "a", "b"), strict=True))
    filled = [
        (index, {**ref, "policyId": named.get(ref["policyId"], ref["policyId"])}) for index, ref in entries
    ]
    with pytest.raises(ValidationFailed) as refused:
        await policy_api.request("POST", "/policy-groups", build_group_draft(*filled))
    assert said in refused.value.message
    assert (await policy_api.request("GET", "/policy-groups"))["totalElements"] == 0


async def test_group_change_needs_the_current_revision(policy_api: PolicyApiClient):
    one, other = await create_policies(policy_api, "a", "b")
    draft = build_group_draft((0, {"policyId": one}))
    created = await policy_api.request("POST", "/policy-groups", draft)
    path = f"/policy-groups/{created['id']}"
    changed = await policy_api.request(
        "PUT", path, build_group_draft((0, {"policyId": other}), name="New"), if_match='"1"'
    )
    assert (changed["name"], changed["rev"], changed["policies"][0]["policy"]["policyId"]) == (
        "New",
        2,
        other,
    )
    with pytest.raises(RelayConflict, match="the current revision is 2"):
        await policy_api.request("PUT", path, build_group_draft(), if_match='"1"')
    with pytest.raises(RelayConflict):
        await policy_api.request("DELETE", path, if_match='"1"')
    assert await policy_api.request("GET", path) == changed


async def test_a_bound_group_is_not_deleted(policy_api: PolicyApiClient):
    group = await policy_api.request("POST", "/policy-groups", build_group_draft())
    binding = await policy_api.request(
        "POST", "/policy-bindings", {"groupId": group["id"], "bindingLevel": "TENANT"}
    )
    with pytest.raises(RelayConflict) as refused:
        await policy_api.request("DELETE", f"/policy-groups/{group['id']}")
    assert refused.value.details["bindings"] == [binding["id"]]
    await policy_api.request("DELETE", f"/policy-bindings/{binding['id']}")
    await policy_api.request("DELETE", f"/policy-groups/{group['id']}")
    with pytest.raises(CaseNotFound):
        await policy_api.request("GET", f"/policy-groups/{group['id']}")


async def test_groups_are_found_by_name_and_by_policy(policy_api: PolicyApiClient):
    one, other = await create_policies(policy_api, "a", "b")
    await policy_api.request(
        "POST", "/policy-groups", build_group_draft((0, {"policyId": one}), name="First")
    )
    await policy_api.request(
        "POST", "/policy-groups", build_group_draft((0, {"policyId": other}), name="Second")
    )
    asked: list[tuple[dict[str, Any], list[str]]] = [
        ({"name": "sec"}, ["Second"]),
        ({"policyId": one}, ["First"]),
    ]
    for query, names in asked:
        found = await policy_api.request("GET", "/policy-groups", **query)
        assert [group["name"] for group in found["content"]] == names


async def test_group_changes_are_audited(policy_api: PolicyApiClient):
    group = await policy_api.request("POST", "/policy-groups", build_group_draft())
    await policy_api.request("PUT", f"/policy-groups/{group['id']}", build_group_draft())
    await policy_api.request("DELETE", f"/policy-groups/{group['id']}")
    told = [
        (event["metadata"]["operation"], event["metadata"]["groupId"]) for event in await policy_api.events()
    ]
    assert told == [(what, group["id"]) for what in ("CREATED", "UPDATED", "DELETED")]
