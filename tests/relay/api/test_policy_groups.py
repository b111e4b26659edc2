"""`/relay/v1/policy-groups`: policies in their order."""

from typing import Any

import pytest

from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from tests.relay.api.policy_desk import PolicyDesk
from tests.relay.policies.samples import regex_draft

pytestmark = pytest.mark.anyio


async def policies(desk: PolicyDesk, *patterns: str) -> list[str]:
    return [(await desk.ask("POST", "/policies", regex_draft(one)))["policyId"] for one in patterns]


def group_of(*entries: Any, **over: Any) -> dict[str, Any]:
    listed = [{"orderIndex": index, "policy": policy} for index, policy in entries]
    return {"name": "Secrets", "policies": listed, **over}


async def test_a_group_keeps_its_policies_in_order(desk: PolicyDesk):
    one, other = await policies(desk, "a", "b")
    made = await desk.ask(
        "POST",
        "/policy-groups",
        group_of((5, {"policyId": one}), (2, {"policyId": other, "version": "1"}), description="What leaks"),
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
    assert await desk.ask("GET", f"/policy-groups/{made['id']}") == made


async def test_a_whole_policy_will_do_where_one_is_named(desk: PolicyDesk):
    made = await desk.ask("POST", "/policies", regex_draft("a"))
    group = await desk.ask("POST", "/policy-groups", group_of((0, made)))
    assert group["policies"][0]["policy"] == {"policyId": made["policyId"], "version": "1"}


REFUSED = [
    (
        ((0, {"policyId": "nobody"}),),
        "group.policies[0].policy.policyId names nobody: there is no such policy",
    ),
    (((0, {"policyId": "ONE", "version": "9"}),), "the policy has no such version"),
    (((0, {"policyId": "ONE"}), (1, {"policyId": "ONE"})), "twice"),
    (((0, {"policyId": "ONE"}), (0, {"policyId": "TWO"})), "group.policies.orderIndex names 0 twice"),
    (((-1, {"policyId": "ONE"}),), "orderIndex"),
]


@pytest.mark.parametrize(("entries", "said"), REFUSED)
async def test_a_group_that_would_protect_less_than_it_says_is_refused(
    desk: PolicyDesk, entries: Any, said: str
):
    named = dict(zip(("ONE", "TWO"), await policies(desk, "a", "b"), strict=True))
    filled = [
        (index, {**ref, "policyId": named.get(ref["policyId"], ref["policyId"])}) for index, ref in entries
    ]
    with pytest.raises(ValidationFailed) as refused:
        await desk.ask("POST", "/policy-groups", group_of(*filled))
    assert said in refused.value.message
    assert (await desk.ask("GET", "/policy-groups"))["totalElements"] == 0


async def test_a_group_is_changed_as_a_whole_by_whoever_saw_it_last(desk: PolicyDesk):
    one, other = await policies(desk, "a", "b")
    path = (
        f"/policy-groups/{(await desk.ask('POST', '/policy-groups', group_of((0, {'policyId': one}))))['id']}"
    )
    changed = await desk.ask("PUT", path, group_of((0, {"policyId": other}), name="New"), if_match='"1"')
    assert (changed["name"], changed["rev"], changed["policies"][0]["policy"]["policyId"]) == (
        "New",
        2,
        other,
    )
    with pytest.raises(RelayConflict, match="this is 2 by now"):
        await desk.ask("PUT", path, group_of(), if_match='"1"')
    with pytest.raises(RelayConflict):
        await desk.ask("DELETE", path, if_match='"1"')
    assert await desk.ask("GET", path) == changed


async def test_a_bound_group_is_not_deleted(desk: PolicyDesk):
    group = await desk.ask("POST", "/policy-groups", group_of())
    binding = await desk.ask("POST", "/policy-bindings", {"groupId": group["id"], "bindingLevel": "TENANT"})
    with pytest.raises(RelayConflict) as refused:
        await desk.ask("DELETE", f"/policy-groups/{group['id']}")
    assert refused.value.details["bindings"] == [binding["id"]]
    await desk.ask("DELETE", f"/policy-bindings/{binding['id']}")
    await desk.ask("DELETE", f"/policy-groups/{group['id']}")
    with pytest.raises(CaseNotFound):
        await desk.ask("GET", f"/policy-groups/{group['id']}")


async def test_groups_are_found_by_name_and_by_policy(desk: PolicyDesk):
    one, other = await policies(desk, "a", "b")
    await desk.ask("POST", "/policy-groups", group_of((0, {"policyId": one}), name="First"))
    await desk.ask("POST", "/policy-groups", group_of((0, {"policyId": other}), name="Second"))
    asked: list[tuple[dict[str, Any], list[str]]] = [
        ({"name": "sec"}, ["Second"]),
        ({"policyId": one}, ["First"]),
    ]
    for query, names in asked:
        found = await desk.ask("GET", "/policy-groups", **query)
        assert [group["name"] for group in found["content"]] == names


async def test_the_audit_tells_of_groups(desk: PolicyDesk):
    group = await desk.ask("POST", "/policy-groups", group_of())
    await desk.ask("PUT", f"/policy-groups/{group['id']}", group_of())
    await desk.ask("DELETE", f"/policy-groups/{group['id']}")
    told = [(event["metadata"]["operation"], event["metadata"]["groupId"]) for event in await desk.events()]
    assert told == [(what, group["id"]) for what in ("CREATED", "UPDATED", "DELETED")]
