"""Policy groups, and bindings of groups to a tenant, an agent, or a source and sink."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import ValidationFailed
from placet.protocol.conversion import convert_input, quote
from placet.protocol.timestamp import Timestamp
from placet.relay.policies.policy import (
    MAX_DESCRIPTION,
    MAX_NAME,
    check_single_line,
    check_window,
    is_in_window,
    raise_invalid,
)
from placet.text.characters import is_storable

MAX_GROUP = 10_000
MAX_ID = 200
MAX_PRIORITY = 1_000_000
BindingId = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
OrderIndex = Annotated[int, Meta(ge=0, le=MAX_PRIORITY)]


class BindingLevel(StrEnum):
    """How much a binding covers, from the widest to the narrowest; the wider is looked at first."""

    TENANT = "TENANT"
    AGENT = "AGENT"
    SUBSCRIPTION = "SUBSCRIPTION"


LEVEL_ORDER = {level: place for place, level in enumerate(BindingLevel)}


class PolicyRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """A policy by its id; its newest version, unless one is named. A whole policy will do too."""

    policy_id: BindingId
    version: str | None = None


class GroupEntry(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A policy and its place in a group; the lower index is looked at first."""

    order_index: OrderIndex
    policy: PolicyRef


class GroupDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A group as somebody asks for it."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION)] = ""
    policies: Annotated[tuple[GroupEntry, ...], Meta(max_length=MAX_GROUP)] = ()


class PolicyGroup(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Policies that are bound together, in their order."""

    id: str
    name: str
    description: str = ""
    policies: tuple[GroupEntry, ...] = ()
    created_at: Timestamp


class BindingDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A binding as somebody asks for it."""

    group_id: BindingId
    binding_level: BindingLevel
    agent_id: BindingId | None = None
    source_agent_id: BindingId | None = None
    sink_agent_id: BindingId | None = None
    priority: OrderIndex = 0
    valid_from: Timestamp | None = None
    valid_to: Timestamp | None = None


class Binding(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A group at work: on every message, on those of an agent, or on those from one source to one sink."""

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
        """Whether messages between these two are its business; an agent's are those it sends or receives."""
        if self.binding_level is BindingLevel.TENANT:
            return True
        if self.binding_level is BindingLevel.AGENT:
            return self.agent_id in (source, sink)
        return (self.source_agent_id, self.sink_agent_id) == (source, sink)

    def is_valid(self, at: datetime) -> bool:
        """Whether the binding is in force; the end of its window is outside."""
        return is_in_window(self.valid_from, self.valid_to, at)

    @property
    def scope(self) -> tuple[str | None, ...]:
        """Bindings of one scope are ordered among themselves."""
        return (self.binding_level, self.agent_id, self.source_agent_id, self.sink_agent_id)

    @property
    def order(self) -> tuple[int, int, datetime, str]:
        """What is lower is looked at first."""
        return (LEVEL_ORDER[self.binding_level], self.priority, self.created_at, self.id)


class BindingReorder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The order in which the bindings of one scope shall be looked at."""

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


def parse_group_draft(raw: object, name: str = "group") -> GroupDraft:
    """A group from outside; raises `ValidationFailed` for one that does not fit."""
    draft = convert_input(raw, GroupDraft, ValidationFailed, name)
    check_single_line(draft.name, f"{name}.name")
    if not is_storable(draft.description):
        raise_invalid(f"{name}.description", "must not hold control characters")
    _check_unique((entry.policy.policy_id for entry in draft.policies), f"{name}.policies")
    _check_unique((str(entry.order_index) for entry in draft.policies), f"{name}.policies.orderIndex")
    return draft


def parse_binding_draft(raw: object, name: str = "binding") -> BindingDraft:
    """A binding from outside; raises `ValidationFailed` unless it names just what its level needs."""
    draft = convert_input(raw, BindingDraft, ValidationFailed, name)
    _check_scope(draft, name)
    check_window(draft.valid_from, draft.valid_to, name)
    return draft


def parse_reorder(raw: object, name: str = "reorder") -> BindingReorder:
    """A new order from outside."""
    asked = convert_input(raw, BindingReorder, ValidationFailed, name)
    _check_scope(asked, name)
    _check_unique(asked.binding_ids, f"{name}.bindingIds")
    return asked


def create_group(draft: GroupDraft, *, group_id: str, now: datetime) -> PolicyGroup:
    """The draft as a group, its policies in order."""
    policies = tuple(sorted(draft.policies, key=lambda entry: entry.order_index))
    return PolicyGroup(
        id=group_id, name=draft.name, description=draft.description, policies=policies, created_at=now
    )


def create_binding(draft: BindingDraft, *, binding_id: str, now: datetime) -> Binding:
    """The draft as a binding."""
    fields = {name: getattr(draft, name) for name in draft.__struct_fields__}
    return Binding(id=binding_id, created_at=now, **fields)


def reorder_bindings(bindings: Sequence[Binding], asked: BindingReorder) -> tuple[Binding, ...]:
    """The bindings of the named scope with new priorities; it must name each of them, and no other."""
    scope = (asked.binding_level, asked.agent_id, asked.source_agent_id, asked.sink_agent_id)
    found = {binding.id: binding for binding in bindings if binding.scope == scope}
    if unknown := [one for one in asked.binding_ids if one not in found]:
        raise_invalid(
            "reorder.bindingIds", f"names {quote(unknown[0])}, which is not a binding of this scope"
        )
    if missing := [one for one in found if one not in asked.binding_ids]:
        raise_invalid("reorder.bindingIds", f"leaves out {quote(missing[0])}")
    return tuple(replace(found[one], priority=place) for place, one in enumerate(asked.binding_ids))


def _check_scope(draft: BindingDraft | BindingReorder, name: str) -> None:
    given = {
        "agentId": draft.agent_id,
        "sourceAgentId": draft.source_agent_id,
        "sinkAgentId": draft.sink_agent_id,
    }
    needed = _REQUIRED_AGENT_FIELDS[draft.binding_level]
    for member, value in given.items():
        if member in needed and value is None:
            raise_invalid(
                f"{name}.{member}", f"is missing; a binding at {draft.binding_level} level needs it"
            )
        if member not in needed and value is not None:
            raise_invalid(f"{name}.{member}", f"does not belong to a binding at {draft.binding_level} level")
        if value is not None:
            check_single_line(value, f"{name}.{member}")


def _check_unique(names: Iterable[str], path: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise_invalid(path, f"names {quote(name)} twice")
        seen.add(name)
