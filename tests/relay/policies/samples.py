"""Policies, groups and bindings for tests."""

from datetime import UTC, datetime
from typing import Any

from placet.relay.policy.binding import (
    Binding,
    PolicyGroup,
    create_binding,
    create_group,
    parse_binding_draft,
    parse_group_draft,
)
from placet.relay.policy.policy import Policy, create_policy, parse_policy_draft

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ALL_LEGS = {
    "requestFromSource": True,
    "requestToSink": True,
    "responseFromSink": True,
    "responseToSource": True,
}


def build_regex_draft(regex: str, action: str = "BLOCK", **over: Any) -> dict[str, Any]:
    """A policy as a client sends it."""
    config = {
        "type": "REGEX_DETECTION",
        "enabledLegs": over.pop("legs", ALL_LEGS),
        "pattern": {"regex": regex, "action": action},
    }
    return {"name": over.pop("name", f"No {regex}"[:100]), "config": config, **over}


def build_entity_draft(
    entity: str, threshold: float = 0.7, action: str = "HUMAN_REVIEW_REQUIRED", *, engine: str = "PRESIDIO"
) -> dict[str, Any]:
    """A policy for an entity type."""
    config = {
        "type": f"{engine}_DETECTION",
        "enabledLegs": ALL_LEGS,
        "entity": {"type": entity, "scoreThreshold": threshold, "action": action},
    }
    return {"name": f"Review {entity}", "config": config}


def build_plugin_draft(kind: str, action: str = "BLOCK", **options: Any) -> dict[str, Any]:
    """A policy for a plug-in."""
    config = {"type": kind, "enabledLegs": ALL_LEGS, "action": action, "options": options}
    return {"name": "Ask a plug-in", "config": config}


def build_policy(draft: dict[str, Any], policy_id: str = "p1", *, now: datetime = NOW) -> Policy:
    return create_policy(parse_policy_draft(draft), policy_id=policy_id, now=now)


def build_regex_policy(regex: str, action: str = "BLOCK", policy_id: str = "p1", **over: Any) -> Policy:
    return build_policy(build_regex_draft(regex, action, **over), policy_id)


def build_group(group_id: str, *policy_ids: str) -> PolicyGroup:
    entries = [{"orderIndex": place, "policy": {"policyId": one}} for place, one in enumerate(policy_ids)]
    return create_group(
        parse_group_draft({"name": group_id, "policies": entries}), group_id=group_id, now=NOW
    )


def build_binding(binding_id: str, group_id: str, level: str = "TENANT", **over: Any) -> Binding:
    raw = {"groupId": group_id, "bindingLevel": level, **over}
    return create_binding(parse_binding_draft(raw), binding_id=binding_id, now=NOW)
