"""`/relay/v1/policy-bindings`: where groups apply, and in which order."""

import asyncio
from typing import Any

import pytest

from placet.errors import CaseNotFound, PlacetError, RelayConflict, ValidationFailed
from placet.relay.policies.policy import Leg
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from tests.relay.api.policy_desk import PolicyDesk, policy_desk
from tests.relay.policies.samples import regex_draft

pytestmark = pytest.mark.anyio


async def group(desk: PolicyDesk, pattern: str = "secret") -> str:
    policy = await desk.ask("POST", "/policies", regex_draft(pattern))
    entries = [{"orderIndex": 0, "policy": {"policyId": policy["policyId"]}}]
    made = await desk.ask("POST", "/policy-groups", {"name": pattern, "policies": entries})
    return str(made["id"])


async def bound(desk: PolicyDesk, group_id: str, level: str = "TENANT", **over: Any) -> dict[str, Any]:
    made: dict[str, Any] = await desk.ask(
        "POST", "/policy-bindings", {"groupId": group_id, "bindingLevel": level, **over}
    )
    return made


async def test_a_binding_is_written_and_read(desk: PolicyDesk):
    group_id = await group(desk)
    made = await bound(
        desk,
        group_id,
        "SUBSCRIPTION",
        sourceAgentId="travel",
        sinkAgentId="hotel",
        priority=3,
        validFrom="2026-02-01T00:00:00Z",
    )
    assert made == {
        "id": made["id"],
        "groupId": group_id,
        "bindingLevel": "SUBSCRIPTION",
        "agentId": None,
        "sourceAgentId": "travel",
        "sinkAgentId": "hotel",
        "priority": 3,
        "validFrom": "2026-02-01T00:00:00Z",
        "validTo": None,
        "createdAt": "2026-01-01T06:00:00Z",
        "rev": 1,
        "unregistered": ["travel", "hotel"],
    }
    assert await desk.ask("GET", f"/policy-bindings/{made['id']}") == made
    assert (await desk.ask("GET", "/policy-bindings"))["content"] == [made]


REFUSED = [
    ({"groupId": "nobody", "bindingLevel": "TENANT"}, "binding.groupId names nobody: there is no such group"),
    ({"bindingLevel": "AGENT"}, "binding.agentId is missing"),
    ({"bindingLevel": "TENANT", "agentId": "x"}, "does not belong to a binding at TENANT level"),
    ({"bindingLevel": "SUBSCRIPTION", "sourceAgentId": "x"}, "binding.sinkAgentId is missing"),
    ({"bindingLevel": "PLANET"}, "bindingLevel"),
    ({"bindingLevel": "TENANT", "priority": -1}, "priority"),
    (
        {
            "bindingLevel": "TENANT",
            "validFrom": "2026-02-01T00:00:00Z",
            "validTo": "2026-02-01T00:00:00Z",
        },
        "validTo is not after validFrom",
    ),
]


@pytest.mark.parametrize(("body", "said"), REFUSED)
async def test_a_binding_that_could_not_work_is_refused(desk: PolicyDesk, body: Any, said: str):
    with pytest.raises(ValidationFailed) as refused:
        await desk.ask("POST", "/policy-bindings", {"groupId": await group(desk), **body})
    assert said in refused.value.message


async def test_what_is_bound_applies_at_once_and_what_is_unbound_does_not(desk: PolicyDesk):
    async def names() -> list[str]:
        inspector = await desk.policy_cache.inspector("default")
        assert inspector is not None
        applied = inspector.applies(source="a", sink="b", leg=Leg.REQUEST_TO_SINK, at=desk.clock())
        return [one.policy.name for one in applied]

    group_id = await group(desk)
    assert await names() == []
    binding = await bound(desk, group_id, "AGENT", agentId="b")
    assert await names() == ["No secret"]
    path = f"/policy-bindings/{binding['id']}"
    await desk.ask("PUT", path, {"groupId": group_id, "bindingLevel": "AGENT", "agentId": "c"})
    assert await names() == []
    await desk.ask("PUT", path, {"groupId": group_id, "bindingLevel": "TENANT"})
    assert await names() == ["No secret"]
    await desk.ask("DELETE", path)
    assert await names() == []
    with pytest.raises(CaseNotFound):
        await desk.ask("GET", path)


async def test_a_list_stands_in_the_order_in_which_bindings_are_looked_at(desk: PolicyDesk):
    group_id = await group(desk)
    await bound(desk, group_id, "AGENT", agentId="b", priority=1)
    await bound(desk, group_id, priority=9)
    await bound(desk, group_id, priority=4)
    listed = (await desk.ask("GET", "/policy-bindings"))["content"]
    assert [(one["bindingLevel"], one["priority"]) for one in listed] == [
        ("TENANT", 4),
        ("TENANT", 9),
        ("AGENT", 1),
    ]
    found = await desk.ask("GET", "/policy-bindings", bindingLevel="AGENT", agentId="b", groupId=group_id)
    assert found["totalElements"] == 1
    with pytest.raises(ValidationFailed):
        await desk.ask("GET", "/policy-bindings", bindingLevel="PLANET")


async def test_bindings_of_a_scope_are_put_into_another_order_at_once(desk: PolicyDesk):
    group_id = await group(desk)
    ids = [(await bound(desk, group_id))["id"] for _ in range(3)]
    apart = await bound(desk, group_id, "AGENT", agentId="b", priority=7)
    wanted = [ids[2], ids[0], ids[1]]
    asked = {"bindingLevel": "TENANT", "bindingIds": wanted}
    moved = await desk.ask("PUT", "/policy-bindings/reorder", asked)
    assert [(one["id"], one["priority"], one["rev"]) for one in moved["content"]] == [
        (one, place, 2) for place, one in enumerate(wanted)
    ]
    assert [one["id"] for one in (await desk.ask("GET", "/policy-bindings"))["content"]] == [
        *wanted,
        apart["id"],
    ]
    for wrong in (wanted[:2], [*wanted, apart["id"]], [*wanted, wanted[0]]):
        with pytest.raises(ValidationFailed):
            await desk.ask("PUT", "/policy-bindings/reorder", {**asked, "bindingIds": wrong})


async def test_a_change_of_what_someone_else_changed_is_refused(desk: PolicyDesk):
    group_id = await group(desk)
    path = f"/policy-bindings/{(await bound(desk, group_id))['id']}"
    body = {"groupId": group_id, "bindingLevel": "TENANT", "priority": 1}
    assert (await desk.ask("PUT", path, body, if_match='"1"'))["rev"] == 2
    for method in ("PUT", "DELETE"):
        with pytest.raises(RelayConflict):
            await desk.ask(method, path, body, if_match='"1"')


async def test_two_servers_never_leave_a_binding_without_its_group(desk: PolicyDesk):
    """Whichever of them is first, the other one looks again."""
    async with policy_desk(desk.store) as other:
        for number in range(20):
            group_id = await group(desk, f"p{number}")
            await asyncio.gather(
                bound(desk, group_id),
                other.ask("DELETE", f"/policy-groups/{group_id}"),
                return_exceptions=True,
            )
            (await desk.policy_repository.library("default")).book()
            (await other.policy_repository.library("default")).book()


async def test_what_the_store_does_not_take_changes_nothing():
    class Failing(InMemorySqliteStore):
        broken = False

        async def change_records(self, **what: Any) -> None:
            if self.broken:
                raise PlacetError("The disk is full.")
            await super().change_records(**what)

    store = Failing()
    async with policy_desk(store) as desk:
        group_id = await group(desk)
        store.broken = True
        with pytest.raises(PlacetError, match="full"):
            await bound(desk, group_id)
        assert (await desk.ask("GET", "/policy-bindings"))["content"] == []
        store.broken = False
        assert (await bound(desk, group_id))["rev"] == 1


async def test_the_audit_tells_of_bindings(desk: PolicyDesk):
    binding = await bound(desk, await group(desk), "AGENT", agentId="b")
    asked = {"bindingLevel": "AGENT", "agentId": "b", "bindingIds": [binding["id"]]}
    await desk.ask("PUT", "/policy-bindings/reorder", asked)
    await desk.ask("DELETE", f"/policy-bindings/{binding['id']}")
    told = (await desk.events())[2:]
    assert [event["metadata"]["operation"] for event in told] == ["CREATED", "REORDERED", "DELETED"]
    assert told[0]["metadata"]["agentId"] == "b"
    assert told[0]["message"] == "olga bound the policy group secret at AGENT level."


async def test_what_is_bound_to_nothing_leaves_what_is_in_force_as_it_is(desk: PolicyDesk):
    bound_group = await group(desk, "secret")
    await bound(desk, bound_group)
    before = desk.policy_cache.find("default")
    await group(desk, "unbound")
    assert desk.policy_cache.find("default") is before
    policy = (await desk.ask("GET", f"/policy-groups/{bound_group}"))["policies"][0]["policy"]["policyId"]
    await desk.ask("PUT", f"/policies/{policy}", regex_draft("other"))
    assert desk.policy_cache.find("default") is not before


async def test_a_name_that_nobody_has_is_told(desk: PolicyDesk):
    group_id = await group(desk)
    assert (await bound(desk, group_id, "AGENT", agentId="b"))["unregistered"] == []
    wrong = await bound(desk, group_id, "AGENT", agentId="bb")
    assert wrong["unregistered"] == ["bb"]
    assert (await bound(desk, group_id))["unregistered"] == []
    body = {"groupId": group_id, "bindingLevel": "AGENT", "agentId": "b"}
    assert (await desk.ask("PUT", f"/policy-bindings/{wrong['id']}", body))["unregistered"] == []
