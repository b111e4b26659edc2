"""`/relay/v1/policy-bindings`: where groups of policies apply, from when to when, and in which order."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.desk import random_values
from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.ports.config_store import ConfigRecord
from placet.protocol.conversion import quote
from placet.protocol.timestamp import Timestamp
from placet.relay.api.access import RelayRequest, RelayRouteGroup
from placet.relay.api.records import AuditNote, Records
from placet.relay.policies.binding import (
    Binding,
    BindingDraft,
    BindingLevel,
    BindingReorder,
    create_binding,
    parse_binding_draft,
    parse_reorder,
    reorder_bindings,
)
from placet.relay.policies.policy import raise_invalid
from placet.relay.policies.records import PolicySnapshot, build_binding_record
from placet.relay.policies.repository import PolicyRepository
from placet.relay.record_changes import RecordChange, Versioned
from placet.relay.registry.live_registry import LiveRegistry

PATH = "/relay/v1/policy-bindings"
ONE = f"{PATH}/{{id}}"
MAX_BINDINGS = 10_000

bindings = RelayRouteGroup(
    tag="Policy bindings",
    description="Where groups of policies apply: everywhere, for one agent, between two.",
    read="POLICIES:READ",
    write="POLICIES:WRITE",
)


class BindingView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A binding, and how often it changed."""

    id: str
    group_id: str
    binding_level: BindingLevel
    agent_id: str | None
    source_agent_id: str | None
    sink_agent_id: str | None
    priority: int
    valid_from: Timestamp | None
    valid_to: Timestamp | None
    created_at: Timestamp
    rev: int
    unregistered: Annotated[
        tuple[str, ...],
        Meta(description="Those of its names that nobody has: until somebody does, it applies to nothing."),
    ] = ()


class BindingList(Struct, frozen=True, kw_only=True, rename="camel"):
    """The bindings of one scope, in their order."""

    content: tuple[BindingView, ...]


class BindingQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which bindings are listed."""

    binding_level: Annotated[BindingLevel | None, Meta(description="Only those of this level.")] = None
    group_id: Annotated[str | None, Meta(description="Only those of this group.")] = None
    agent_id: Annotated[str | None, Meta(description="Only those that name this agent.")] = None
    source_agent_id: Annotated[str | None, Meta(description="Only those of this source.")] = None
    sink_agent_id: Annotated[str | None, Meta(description="Only those of this sink.")] = None


class _Bindings:
    """A `Kind`."""

    noun = "policy binding"

    def find(self, present: PolicySnapshot, tenant: str, name: str) -> Versioned[Binding] | None:
        return present.bindings.get(name)

    def record(self, tenant: str, name: str, held: Versioned[Binding], now: datetime) -> ConfigRecord:
        return build_binding_record(tenant, held.value, rev=held.rev, now=now)

    def describe_save(self, present: PolicySnapshot, name: str, value: Binding) -> AuditNote:
        group = present.groups.get(value.group_id)
        if group is None:
            raise_invalid("binding.groupId", f"names {quote(value.group_id)}: there is no such group")
        deed = f"bound the policy group {group.value.name} at {value.binding_level} level"
        return AuditNote(deed=deed, metadata=_metadata(value))

    def describe_removal(self, present: PolicySnapshot, name: str, value: Binding) -> AuditNote:
        return AuditNote(deed="deleted a policy binding", metadata=_metadata(value))


class BindingApi(HttpApi):
    """Handles these routes."""

    def __init__(self, policy_repository: PolicyRepository, members: LiveRegistry | None = None) -> None:
        self._books = policy_repository
        self._records = Records(policy_repository, _Bindings())
        self._members = members

    @bindings.create(
        PATH, "createPolicyBinding", body=BindingDraft, reply=BindingView, errors=(RelayConflict,)
    )
    async def create(self, request: RelayRequest) -> BindingView:
        """Bind a group: its policies apply from now on, or as soon as the binding's window opens."""
        draft = parse_binding_draft(request.read_body(dict[str, Any]))
        now = self._books.now()
        binding = create_binding(draft, binding_id=random_values.generate_record_id("binding", now), now=now)

        def plan(library: PolicySnapshot) -> Binding:
            if len(library.bindings) >= MAX_BINDINGS:
                raise ValidationFailed(f"There are {MAX_BINDINGS} bindings already; delete some first.")
            return binding

        return await self._view(request, await self._records.create(request, binding.id, plan))

    @bindings.get(PATH, "listPolicyBindings", query=BindingQuery, reply=Page[BindingView])
    async def list_bindings(self, request: RelayRequest) -> Page[BindingView]:
        """List bindings in the order in which they are looked at: wide levels first, then low priority."""
        asked = request.read_query(BindingQuery)
        library = await self._books.library(request.member.tenant)
        found = [held for held in library.bindings.values() if _fits(held.value, asked)]
        page = asked.cut_page(sorted(found, key=lambda held: held.value.order))
        checked = [await self._view(request, held) for held in page.content]
        return asked.make_page(checked, page.total_elements)

    @bindings.put(
        f"{PATH}/reorder",
        "reorderPolicyBindings",
        body=BindingReorder,
        reply=BindingList,
        errors=(RelayConflict,),
    )
    async def reorder(self, request: RelayRequest) -> BindingList:
        """Put all bindings of one scope into this order, at once."""
        asked = parse_reorder(request.read_body(dict[str, Any]))
        member, now = request.member, self._books.now()

        def plan(library: PolicySnapshot) -> RecordChange[BindingList]:
            known = library.bindings
            moved = reorder_bindings([held.value for held in known.values()], asked)
            saved = [Versioned(value=one, rev=known[one.id].rev + 1) for one in moved]
            return RecordChange(
                save=tuple(
                    build_binding_record(member.tenant, one.value, rev=one.rev, now=now) for one in saved
                ),
                message=f"{member.name} put policy bindings into another order.",
                metadata={"operation": "REORDERED", **msgspec.to_builtins(asked)},
                result=BindingList(content=tuple(view_of(one) for one in saved)),
            )

        return await self._books.change(member, plan)

    @bindings.get(ONE, "getPolicyBinding", reply=BindingView, errors=(CaseNotFound,))
    async def one(self, request: RelayRequest) -> BindingView:
        """Look at a binding."""
        library = await self._books.library(request.member.tenant)
        return await self._view(request, self._records.get(library, request, request.path["id"]))

    @bindings.put(
        ONE,
        "updatePolicyBinding",
        body=BindingDraft,
        reply=BindingView,
        errors=(CaseNotFound, RelayConflict),
    )
    async def update(self, request: RelayRequest) -> BindingView:
        """Put another binding in the place of this one, at once."""
        draft = parse_binding_draft(request.read_body(dict[str, Any]))

        def plan(library: PolicySnapshot, before: Binding) -> Binding:
            return create_binding(draft, binding_id=before.id, now=before.created_at)

        return await self._view(request, await self._records.update(request, request.path["id"], plan))

    @bindings.delete(ONE, "deletePolicyBinding", errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Delete a binding: what it brought does not apply any more."""
        await self._records.remove(request, request.path["id"])

    async def _view(self, request: RelayRequest, held: Versioned[Binding]) -> BindingView:
        """A slip of the pen protects nothing, and is told. It is not refused: agents may come later."""
        view = view_of(held)
        named = dict.fromkeys((view.agent_id, view.source_agent_id, view.sink_agent_id))
        if self._members is None or view.binding_level is BindingLevel.TENANT:
            return view
        known, tenant = await self._members.current(), request.member.tenant
        missing = [
            one
            for one in named
            if one is not None and (tenant, one) not in known.agents and (tenant, one) not in known.callers
        ]
        return replace(view, unregistered=tuple(missing))


def view_of(held: Versioned[Binding]) -> BindingView:
    """A binding as the API shows it."""
    fields = {name: getattr(held.value, name) for name in held.value.__struct_fields__}
    return BindingView(**fields, rev=held.rev)


def _fits(binding: Binding, asked: BindingQuery) -> bool:
    return all(
        wanted is None or wanted == found
        for wanted, found in (
            (asked.binding_level, binding.binding_level),
            (asked.group_id, binding.group_id),
            (asked.agent_id, binding.agent_id),
            (asked.source_agent_id, binding.source_agent_id),
            (asked.sink_agent_id, binding.sink_agent_id),
        )
    )


def _metadata(binding: Binding) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(binding)
    told["bindingId"] = told.pop("id")
    return told
