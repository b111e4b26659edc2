"""Which policies apply to a message, in which order, and for how long that answer holds."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.errors import ValidationFailed
from placet.relay.policy.binding import (
    parse_binding_draft,
    parse_group_draft,
    parse_reorder,
    reorder_bindings,
)
from placet.relay.policy.policy import Leg, create_next_version, parse_policy_draft
from placet.relay.policy.policy_set import PolicySet
from tests.relay.policies.samples import (
    NOW,
    build_binding,
    build_group,
    build_regex_draft,
    build_regex_policy,
)

LEG = Leg.REQUEST_FROM_SOURCE


def find_applicable(bound: PolicySet, source: str = "alice", sink: str = "bank", **over: Any) -> list[str]:
    found = bound.find_applicable(source=source, sink=sink, leg=over.get("leg", LEG), at=over.get("at", NOW))
    return [f"{one.level}:{one.policy.policy_id}" for one in found.policies]


def build_policy_set(*bindings: Any, groups: int = 3) -> PolicySet:
    policies = [build_regex_policy("x", policy_id=f"p{number}") for number in range(groups)]
    return PolicySet(
        policies=policies,
        groups=[build_group(f"g{number}", f"p{number}") for number in range(groups)],
        bindings=bindings,
    )


def test_a_tenant_wide_binding_applies_to_everyone_and_an_unbound_group_to_nobody():
    assert find_applicable(build_policy_set(build_binding("b", "g1"))) == ["TENANT:p1"]


def test_an_agents_binding_applies_to_what_it_sends_and_to_what_it_receives():
    bound = build_policy_set(build_binding("b", "g0", "AGENT", agentId="bank"))
    assert find_applicable(bound) == find_applicable(bound, "bank", "alice") == ["AGENT:p0"]
    assert find_applicable(bound, "alice", "shop") == []


def test_a_subscriptions_binding_applies_to_its_pair_in_its_direction_only():
    bound = build_policy_set(
        build_binding("b", "g0", "SUBSCRIPTION", sourceAgentId="alice", sinkAgentId="bank")
    )
    assert find_applicable(bound) == ["SUBSCRIPTION:p0"]
    assert find_applicable(bound, "bank", "alice") == find_applicable(bound, "alice", "shop") == []


def test_wide_levels_come_first_then_low_priorities_then_the_older_binding():
    bound = build_policy_set(
        build_binding("c", "g0", "SUBSCRIPTION", sourceAgentId="alice", sinkAgentId="bank", priority=0),
        build_binding("b", "g1", "TENANT", priority=9),
        build_binding("a", "g2", "AGENT", agentId="alice", priority=1),
    )
    assert find_applicable(bound) == ["TENANT:p1", "AGENT:p2", "SUBSCRIPTION:p0"]
    older = replace(build_binding("z", "g0", priority=5), created_at=NOW - timedelta(days=1))
    bound = build_policy_set(
        build_binding("a", "g1", priority=5), older, build_binding("m", "g2", priority=4)
    )
    assert find_applicable(bound) == ["TENANT:p2", "TENANT:p0", "TENANT:p1"]


def test_within_a_group_the_order_index_decides():
    shuffled = parse_group_draft(
        {
            "name": "g",
            "policies": [
                {"orderIndex": 7, "policy": {"policyId": "p0"}},
                {"orderIndex": 2, "policy": {"policyId": "p1"}},
            ],
        }
    )
    listed = replace(build_group("g"), policies=shuffled.policies)
    policies = [build_regex_policy("x", policy_id=one) for one in ("p0", "p1")]
    found = PolicySet(policies=policies, groups=[listed], bindings=[build_binding("b", "g")])
    assert find_applicable(found) == ["TENANT:p1", "TENANT:p0"]


def test_a_policy_brought_twice_applies_once_where_it_comes_first():
    bound = build_policy_set(build_binding("a", "g0", "AGENT", agentId="bank"), build_binding("b", "g0"))
    assert find_applicable(bound) == ["TENANT:p0"]


def test_agent_that_calls_itself_is_inspected_once():
    bound = build_policy_set(build_binding("a", "g0", "AGENT", agentId="bank"))
    assert find_applicable(bound, "bank", "bank") == ["AGENT:p0"]


def test_only_policies_of_the_leg_apply():
    policies = [build_regex_policy("x", policy_id="p0", legs={"responseToSource": True})]
    found = PolicySet.for_everyone(policies, now=NOW)
    assert find_applicable(found) == []
    assert find_applicable(found, leg=Leg.RESPONSE_TO_SOURCE) == ["TENANT:p0"]
    assert [one.policy_id for one in found.list_bound(Leg.RESPONSE_TO_SOURCE)] == ["p0"]
    assert found.list_bound(LEG) == ()


def test_the_newest_version_applies_unless_the_group_names_another():
    first = build_regex_policy("one")
    second = create_next_version(first, parse_policy_draft(build_regex_draft("two")), now=NOW)
    tenth = replace(second, version="10")
    newest = PolicySet.for_everyone([tenth, first, second], now=NOW)
    assert newest.find_applicable(source="a", sink="b", leg=LEG, at=NOW).policies[0].policy.version == "10"
    pinned = parse_group_draft(
        {"name": "g", "policies": [{"orderIndex": 0, "policy": {"policyId": "p1", "version": "1"}}]}
    )
    bound = PolicySet(
        policies=[tenth, first, second],
        groups=[replace(build_group("g"), policies=pinned.policies)],
        bindings=[build_binding("b", "g")],
    )
    assert bound.find_applicable(source="a", sink="b", leg=LEG, at=NOW).policies[0].policy.version == "1"


def test_validity_windows_limit_policies_and_the_cached_result():
    later, end = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
    bound = build_policy_set(
        build_binding("a", "g0", validFrom=later.isoformat(), validTo=end.isoformat()),
        build_binding("b", "g1"),
    )
    before = bound.find_applicable(source="a", sink="b", leg=LEG, at=NOW)
    assert [one.policy.policy_id for one in before.policies] == ["p1"]
    assert (before.since, before.until) == (None, later)
    within = bound.find_applicable(source="a", sink="b", leg=LEG, at=later)
    assert len(within.policies) == 2
    assert (within.since, within.until) == (later, end)
    assert [within.is_current(at) for at in (NOW, later, end)] == [False, True, False]
    assert find_applicable(bound, at=end) == ["TENANT:p1"]


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"groups": [build_group("g", "nobody")]}, "group.policies"),
        ({"bindings": [build_binding("b", "nowhere")]}, "binding.groupId"),
    ],
)
def test_unknown_reference_is_refused(parts: Any, path: str):
    with pytest.raises(ValidationFailed) as refused:
        PolicySet(**parts)
    assert refused.value.details["path"] == path


TENANT = {"groupId": "g", "bindingLevel": "TENANT"}
AGENT = {"groupId": "g", "bindingLevel": "AGENT", "agentId": "a"}
PAIR = {"groupId": "g", "bindingLevel": "SUBSCRIPTION", "sourceAgentId": "a", "sinkAgentId": "b"}


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"bindingLevel": "TENANT"}, "binding"),
        ({**TENANT, "bindingLevel": "WORLD"}, "binding.bindingLevel"),
        ({**TENANT, "agentId": "a"}, "binding.agentId"),
        ({**TENANT, "priority": -1}, "binding.priority"),
        ({**TENANT, "priority": "first"}, "binding.priority"),
        (
            {**TENANT, "validFrom": "2026-01-02T00:00:00Z", "validTo": "2026-01-01T00:00:00Z"},
            "binding.validTo",
        ),
        ({**AGENT, "agentId": None}, "binding.agentId"),
        ({**AGENT, "agentId": "\n"}, "binding.agentId"),
        ({**AGENT, "sinkAgentId": "b"}, "binding.sinkAgentId"),
        ({**PAIR, "sinkAgentId": None}, "binding.sinkAgentId"),
        ({**PAIR, "agentId": "c"}, "binding.agentId"),
    ],
)
def test_a_binding_names_just_what_its_level_needs(raw: Any, path: str):
    with pytest.raises(ValidationFailed) as refused:
        parse_binding_draft(raw)
    assert refused.value.details["path"] == path


@pytest.mark.parametrize("raw", [TENANT, AGENT, PAIR])
def test_a_binding_of_each_level_is_taken(raw: Any):
    assert parse_binding_draft(raw).group_id == "g"


def test_a_group_that_names_a_policy_or_a_place_twice_is_refused():
    entry = {"orderIndex": 0, "policy": {"policyId": "p"}}
    for second in ({**entry, "orderIndex": 1}, {**entry, "policy": {"policyId": "q"}}):
        with pytest.raises(ValidationFailed, match="twice"):
            parse_group_draft({"name": "g", "policies": [entry, second]})


def test_a_group_takes_whole_policies_where_only_their_ids_are_needed():
    whole = {"policyId": "p", "version": "3", "name": "n", "config": {}}
    (entry,) = parse_group_draft({"name": "g", "policies": [{"orderIndex": 0, "policy": whole}]}).policies
    assert (entry.policy.policy_id, entry.policy.version) == ("p", "3")


def test_bindings_of_one_scope_are_put_in_a_new_order():
    bindings = [
        build_binding("a", "g"),
        build_binding("b", "g"),
        build_binding("c", "g", "AGENT", agentId="x"),
    ]
    asked = parse_reorder({"bindingLevel": "TENANT", "bindingIds": ["b", "a"]})
    assert [(one.id, one.priority) for one in reorder_bindings(bindings, asked)] == [("b", 0), ("a", 1)]
    for ids in (["a"], ["a", "b", "c"], ["a", "b", "nobody"]):
        with pytest.raises(ValidationFailed):
            reorder_bindings(bindings, parse_reorder({"bindingLevel": "TENANT", "bindingIds": ids}))
    with pytest.raises(ValidationFailed, match="twice"):
        parse_reorder({"bindingLevel": "TENANT", "bindingIds": ["a", "a"]})
