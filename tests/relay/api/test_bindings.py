"""`/relay/v1/policy-bindings`: where groups apply, and in which order."""

import asyncio
from typing import Any

import pytest

from placet.errors import CaseNotFound, PlacetError, RelayConflict, ValidationFailed
from placet.relay.policy.policy import Leg
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from tests.relay.api.policy_api_client import PolicyApiClient, open_policy_api
from tests.relay.policies.samples import build_regex_draft

pytestmark = pytest.mark.anyio


async def create_group(policy_api: PolicyApiClient, pattern: str = "secret") -> str:
    policy = await policy_api.request("POST", "/policies", build_regex_draft(pattern))
    entries = [{"orderIndex": 0, "policy": {"policyId": policy["policyId"]}}]
    made = await policy_api.request("POST", "/policy-groups", {"name": pattern, "policies": entries})
    return str(made["id"])


async def create_binding(
    policy_api: PolicyApiClient, group_id: str, level: str = "TENANT", **over: Any
) -> dict[str, Any]:
    made: dict[str, Any] = await policy_api.request(
        "POST", "/policy-bindings", {"groupId": group_id, "bindingLevel": level, **over}
    )
    return made


async def test_a_binding_is_written_and_read(policy_api: PolicyApiClient):
    group_id = await create_group(policy_api)
    made = await create_binding(
        policy_api,
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
    assert await policy_api.request("GET", f"/policy-bindings/{made['id']}") == made
    assert (await policy_api.request("GET", "/policy-bindings"))["content"] == [made]


REFUSED = [
    ({"groupId": "nobody", "bindingLevel": "TENANT"}, "binding.groupId names nobody, which does not exist"),
    ({"bindingLevel": "AGENT"}, "binding.agentId is missing"),
    ({"bindingLevel": "TENANT", "agentId": "x"}, "is not allowed in a binding at TENANT level"),
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
async def test_a_binding_that_could_not_work_is_refused(policy_api: PolicyApiClient, body: Any, said: str):
    with pytest.raises(ValidationFailed) as refused:
        await policy_api.request(
            "POST", "/policy-bindings", {"groupId": await create_group(policy_api), **body}
        )
    assert said in refused.value.message


async def test_what_is_bound_applies_at_once_and_what_is_unbound_does_not(policy_api: PolicyApiClient):
    async def names() -> list[str]:
        inspector = await policy_api.policy_cache.load_evaluator("default")
        assert inspector is not None
        applied = inspector.applies(source="a", sink="b", leg=Leg.REQUEST_TO_SINK, at=policy_api.clock())
        return [one.policy.name for one in applied]

    group_id = await create_group(policy_api)
    assert await names() == []
    binding = await create_binding(policy_api, group_id, "AGENT", agentId="b")
    assert await names() == ["No secret"]
    path = f"/policy-bindings/{binding['id']}"
    await policy_api.request("PUT", path, {"groupId": group_id, "bindingLevel": "AGENT", "agentId": "c"})
    assert await names() == []
    await policy_api.request("PUT", path, {"groupId": group_id, "bindingLevel": "TENANT"})
    assert await names() == ["No secret"]
    await policy_api.request("DELETE", path)
    assert await names() == []
    with pytest.raises(CaseNotFound):
        await policy_api.request("GET", path)


async def test_list_has_the_order_of_evaluation(policy_api: PolicyApiClient):
    group_id = await create_group(policy_api)
    await create_binding(policy_api, group_id, "AGENT", agentId="b", priority=1)
    await create_binding(policy_api, group_id, priority=9)
    await create_binding(policy_api, group_id, priority=4)
    listed = (await policy_api.request("GET", "/policy-bindings"))["content"]
    assert [(one["bindingLevel"], one["priority"]) for one in listed] == [
        ("TENANT", 4),
        ("TENANT", 9),
        ("AGENT", 1),
    ]
    found = await policy_api.request(
        "GET", "/policy-bindings", bindingLevel="AGENT", agentId="b", groupId=group_id
    )
    assert found["totalElements"] == 1
    with pytest.raises(ValidationFailed):
        await policy_api.request("GET", "/policy-bindings", bindingLevel="PLANET")


async def test_bindings_of_a_scope_are_reordered_in_one_change(policy_api: PolicyApiClient):
    group_id = await create_group(policy_api)
    ids = [(await create_binding(policy_api, group_id))["id"] for _ in range(3)]
    apart = await create_binding(policy_api, group_id, "AGENT", agentId="b", priority=7)
    wanted = [ids[2], ids[0], ids[1]]
    asked = {"bindingLevel": "TENANT", "bindingIds": wanted}
    moved = await policy_api.request("PUT", "/policy-bindings/reorder", asked)
    assert [(one["id"], one["priority"], one["rev"]) for one in moved["content"]] == [
        (one, place, 2) for place, one in enumerate(wanted)
    ]
    assert [one["id"] for one in (await policy_api.request("GET", "/policy-bindings"))["content"]] == [
        *wanted,
        apart["id"],
    ]
    for wrong in (wanted[:2], [*wanted, apart["id"]], [*wanted, wanted[0]]):
        with pytest.raises(ValidationFailed):
            await policy_api.request("PUT", "/policy-bindings/reorder", {**asked, "bindingIds": wrong})


async def test_a_change_of_what_someone_else_changed_is_refused(policy_api: PolicyApiClient):
    group_id = await create_group(policy_api)
    path = f"/policy-bindings/{(await create_binding(policy_api, group_id))['id']}"
    body = {"groupId": group_id, "bindingLevel": "TENANT", "priority": 1}
    assert (await policy_api.request("PUT", path, body, if_match='"1"'))["rev"] == 2
    for method in ("PUT", "DELETE"):
        with pytest.raises(RelayConflict):
            await policy_api.request(method, path, body, if_match='"1"')


async def test_two_servers_never_leave_a_binding_without_its_group(policy_api: PolicyApiClient):
    """Whichever of them is first, the other one looks again."""
    async with open_policy_api(policy_api.store) as other:
        for number in range(20):
            group_id = await create_group(policy_api, f"p{number}")
            await asyncio.gather(
                create_binding(policy_api, group_id),
                other.request("DELETE", f"/policy-groups/{group_id}"),
                return_exceptions=True,
            )
            (await policy_api.policy_repository.get_snapshot("default")).build_policy_set()
            (await other.policy_repository.get_snapshot("default")).build_policy_set()


async def test_failed_store_write_changes_nothing():
    class Failing(InMemorySqliteStore):
        broken = False

        async def change_records(self, **what: Any) -> None:
            if self.broken:
                raise PlacetError("The disk is full.")
            await super().change_records(**what)

    store = Failing()
    async with open_policy_api(store) as policy_api:
        group_id = await create_group(policy_api)
        store.broken = True
        with pytest.raises(PlacetError, match="full"):
            await create_binding(policy_api, group_id)
        assert (await policy_api.request("GET", "/policy-bindings"))["content"] == []
        store.broken = False
        assert (await create_binding(policy_api, group_id))["rev"] == 1


async def test_binding_changes_are_audited(policy_api: PolicyApiClient):
    binding = await create_binding(policy_api, await create_group(policy_api), "AGENT", agentId="b")
    asked = {"bindingLevel": "AGENT", "agentId": "b", "bindingIds": [binding["id"]]}
    await policy_api.request("PUT", "/policy-bindings/reorder", asked)
    await policy_api.request("DELETE", f"/policy-bindings/{binding['id']}")
    told = (await policy_api.events())[2:]
    assert [event["metadata"]["operation"] for event in told] == ["CREATED", "REORDERED", "DELETED"]
    assert told[0]["metadata"]["agentId"] == "b"
    assert told[0]["message"] == "olga bound the policy group secret at AGENT level."


async def test_change_of_unbound_groups_keeps_the_policies_in_force(policy_api: PolicyApiClient):
    bound_group = await create_group(policy_api, "secret")
    await create_binding(policy_api, bound_group)
    before = policy_api.policy_cache.find("default")
    await create_group(policy_api, "unbound")
    assert policy_api.policy_cache.find("default") is before
    policy = (await policy_api.request("GET", f"/policy-groups/{bound_group}"))["policies"][0]["policy"][
        "policyId"
    ]
    await policy_api.request("PUT", f"/policies/{policy}", build_regex_draft("other"))
    assert policy_api.policy_cache.find("default") is not before


async def test_binding_reports_unregistered_agents(policy_api: PolicyApiClient):
    group_id = await create_group(policy_api)
    assert (await create_binding(policy_api, group_id, "AGENT", agentId="b"))["unregistered"] == []
    wrong = await create_binding(policy_api, group_id, "AGENT", agentId="bb")
    assert wrong["unregistered"] == ["bb"]
    assert (await create_binding(policy_api, group_id))["unregistered"] == []
    body = {"groupId": group_id, "bindingLevel": "AGENT", "agentId": "b"}
    assert (await policy_api.request("PUT", f"/policy-bindings/{wrong['id']}", body))["unregistered"] == []
