"""Policy groups, and bindings of groups to a tenant, an agent, or a source and sink."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from placet.errors import ValidationFailed
from placet.protocol.conversion import convert_input, quote
from placet.protocol.timestamp import Timestamp
from placet.relay.policy.policy import (
    MAX_DESCRIPTION_LENGTH,
    MAX_NAME_LENGTH,
    check_single_line,
    check_window,
    is_in_window,
    raise_invalid,
)
from placet.text.characters import is_storable

MAX_GROUP = 10_000
MAX_ID_LENGTH = 200
MAX_PRIORITY = 1_000_000
BindingId = Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH)]
OrderIndex = Annotated[int, Meta(ge=0, le=MAX_PRIORITY)]


class BindingLevel(StrEnum):
    """The scope of a binding, from the widest to the narrowest. Wider bindings are evaluated first."""

    TENANT = "TENANT"
    AGENT = "AGENT"
    SUBSCRIPTION = "SUBSCRIPTION"


LEVEL_ORDER = {level: position for position, level in enumerate(BindingLevel)}


class PolicyRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """A reference to a policy: its newest version unless `version` is set. Other fields are ignored."""

    policy_id: BindingId
    version: str | None = None


class GroupEntry(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A policy and its position in a group. Lower indexes are evaluated first."""

    order_index: OrderIndex
    policy: PolicyRef


class GroupDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request body that creates or replaces a policy group."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION_LENGTH)] = ""
    policies: Annotated[tuple[GroupEntry, ...], Meta(max_length=MAX_GROUP)] = ()


class PolicyGroup(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An ordered list of policies that are bound together."""

    id: str
    name: str
    description: str = ""
    policies: tuple[GroupEntry, ...] = ()
    created_at: Timestamp


class BindingDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request body that creates or replaces a binding."""

    group_id: BindingId
    binding_level: BindingLevel
    agent_id: BindingId | None = None
    source_agent_id: BindingId | None = None
    sink_agent_id: BindingId | None = None
    priority: OrderIndex = 0
    valid_from: Timestamp | None = None
    valid_to: Timestamp | None = None


class Binding(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Applies a policy group to all messages, to an agent's messages, or to those from a source to a sink."""

    id: str
    group_id: str
    binding_level: BindingLevel
    agent_id: str | None = None
    source_agent_id: str | None = None
    sink_agent_id: str | None = None
    priority: int = 0
    valid_from: Timestamp | None = None
    valid_to: Timestamp | None = None
    created_at: Timestamp

    def covers(self, source: str, sink: str) -> bool:
        """Return whether the binding applies from `source` to `sink`; AGENT level matches either of them."""
        if self.binding_level is BindingLevel.TENANT:
            return True
        if self.binding_level is BindingLevel.AGENT:
            return self.agent_id in (source, sink)
        return (self.source_agent_id, self.sink_agent_id) == (source, sink)

    def is_valid(self, at: datetime) -> bool:
        """Return whether the binding is in force at this time. `valid_to` is exclusive."""
        return is_in_window(self.valid_from, self.valid_to, at)

    @property
    def scope(self) -> tuple[str | None, ...]:
        """Return the key of the bindings that are ordered together by priority."""
        return (self.binding_level, self.agent_id, self.source_agent_id, self.sink_agent_id)

    @property
    def order(self) -> tuple[int, int, datetime, str]:
        """Return the sort key of evaluation: lower keys are evaluated first."""
        return (LEVEL_ORDER[self.binding_level], self.priority, self.created_at, self.id)


class BindingReorder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request body that sets the evaluation order of the bindings of one scope."""

    binding_level: BindingLevel
    binding_ids: Annotated[tuple[BindingId, ...], Meta(max_length=MAX_GROUP)]
    agent_id: BindingId | None = None
    source_agent_id: BindingId | None = None
    sink_agent_id: BindingId | None = None


_REQUIRED_AGENT_FIELDS = {
    BindingLevel.TENANT: (),
    BindingLevel.AGENT: ("agentId",),
    BindingLevel.SUBSCRIPTION: ("sourceAgentId", "sinkAgentId"),
}


def parse_group_draft(raw: object) -> GroupDraft:
    """Validate and return a policy group draft; raise `ValidationFailed` if it is invalid."""
    draft = convert_input(raw, GroupDraft, ValidationFailed, "group")
    check_single_line(draft.name, "group.name")
    if not is_storable(draft.description):
        raise_invalid("group.description", "must not contain control characters")
    _check_unique((entry.policy.policy_id for entry in draft.policies), "group.policies")
    _check_unique((str(entry.order_index) for entry in draft.policies), "group.policies.orderIndex")
    return draft


def parse_binding_draft(raw: object) -> BindingDraft:
    """Validate and return a binding draft; raise `ValidationFailed` if its fields do not fit its level."""
    draft = convert_input(raw, BindingDraft, ValidationFailed, "binding")
    _check_scope(draft, "binding")
    check_window(draft.valid_from, draft.valid_to, "binding")
    return draft


def parse_reorder(raw: object) -> BindingReorder:
    """Validate and return a reorder request; raise `ValidationFailed` if it is invalid."""
    reorder = convert_input(raw, BindingReorder, ValidationFailed, "reorder")
    _check_scope(reorder, "reorder")
    _check_unique(reorder.binding_ids, "reorder.bindingIds")
    return reorder


def create_group(draft: GroupDraft, *, group_id: str, now: datetime) -> PolicyGroup:
    """Return a new policy group with its policies sorted by `order_index`."""
    policies = tuple(sorted(draft.policies, key=lambda entry: entry.order_index))
    return PolicyGroup(
        id=group_id, name=draft.name, description=draft.description, policies=policies, created_at=now
    )


def create_binding(draft: BindingDraft, *, binding_id: str, now: datetime) -> Binding:
    """Return a new binding."""
    return Binding(id=binding_id, created_at=now, **asdict(draft))


def reorder_bindings(bindings: Sequence[Binding], reorder: BindingReorder) -> tuple[Binding, ...]:
    """Return the bindings of the scope with their new priorities.

    Raises `ValidationFailed` unless the request names exactly the bindings of the scope.
    """
    scope = (reorder.binding_level, reorder.agent_id, reorder.source_agent_id, reorder.sink_agent_id)
    in_scope = {binding.id: binding for binding in bindings if binding.scope == scope}
    if unknown := [one for one in reorder.binding_ids if one not in in_scope]:
        raise_invalid(
            "reorder.bindingIds", f"names {quote(unknown[0])}, which is not a binding of this scope"
        )
    if missing := [one for one in in_scope if one not in reorder.binding_ids]:
        raise_invalid(
            "reorder.bindingIds", f"does not name {quote(missing[0])}; name every binding of the scope"
        )
    return tuple(
        replace(in_scope[one], priority=position) for position, one in enumerate(reorder.binding_ids)
    )


def _check_scope(draft: BindingDraft | BindingReorder, name: str) -> None:
    given = {
        "agentId": draft.agent_id,
        "sourceAgentId": draft.source_agent_id,
        "sinkAgentId": draft.sink_agent_id,
    }
    required = _REQUIRED_AGENT_FIELDS[draft.binding_level]
    for field, value in given.items():
        if field in required and value is None:
            raise_invalid(f"{name}.{field}", f"is missing; a binding at {draft.binding_level} level needs it")
        if field not in required and value is not None:
            raise_invalid(
                f"{name}.{field}", f"is not allowed in a binding at {draft.binding_level} level; remove it"
            )
        if value is not None:
            check_single_line(value, f"{name}.{field}")


def _check_unique(names: Iterable[str], path: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise_invalid(path, f"names {quote(name)} twice")
        seen.add(name)
