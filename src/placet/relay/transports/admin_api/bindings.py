"""`/relay/v1/policy-groups` and `/relay/v1/policy-bindings`: order policies, and apply them."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from placet.desk import random_values
from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.ports.config_store import ConfigRecord
from placet.protocol.conversion import quote
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.policy.binding import (
    Binding,
    BindingDraft,
    BindingLevel,
    BindingReorder,
    GroupDraft,
    PolicyGroup,
    create_binding,
    create_group,
    parse_binding_draft,
    parse_group_draft,
    parse_reorder,
    reorder_bindings,
)
from placet.relay.policy.policy import raise_invalid
from placet.relay.policy.policy_set import PolicySnapshot, build_binding_record, build_group_record
from placet.relay.record_changes import RecordChange, Versioned
from placet.relay.registry import LiveRegistry
from placet.relay.route_addresses import OPERATIONS
from placet.relay.transports.admin_api.access import RelayRequest, RelayRouteGroup
from placet.relay.transports.admin_api.records import AuditNote, Records

MAX_GROUPS = 10_000

policy_groups = RelayRouteGroup(
    tag="Policy groups",
    description="Policy groups are ordered lists of policies that are bound together.",
    read="POLICIES:READ",
    write="POLICIES:WRITE",
)

MAX_BINDINGS = 10_000


class GroupView(PolicyGroup, frozen=True, kw_only=True, rename="camel"):
    """A policy group and its revision."""

    rev: int


class GroupQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The filter and page of a list of policy groups."""

    name: Annotated[str | None, Meta(description="Only groups whose name contains this text.")] = None
    policy_id: Annotated[str | None, Meta(description="Only groups that contain this policy.")] = None


class _GroupRecords(Records[PolicySnapshot, PolicyGroup]):
    noun = "policy group"

    def find(self, present: PolicySnapshot, tenant: str, name: str) -> Versioned[PolicyGroup] | None:
        return present.groups.get(name)

    def build_record(
        self, tenant: str, name: str, held: Versioned[PolicyGroup], now: datetime
    ) -> ConfigRecord:
        return build_group_record(tenant, held.value, rev=held.rev, now=now)

    def describe_save(self, present: PolicySnapshot, name: str, value: PolicyGroup) -> AuditNote:
        _check_policies(present, value)
        return f"saved the policy group {value.name}", _build_group_metadata(value)

    def describe_removal(self, present: PolicySnapshot, name: str, value: PolicyGroup) -> AuditNote:
        _check_unbound(present, value)
        return f"deleted the policy group {value.name}", _build_group_metadata(value)


class PolicyGroupApi(HttpApi):
    """Handles the routes of policy groups."""

    def __init__(self, policy_repository: PolicyRepository) -> None:
        self._policy_repository = policy_repository
        self._records = _GroupRecords(policy_repository)

    @policy_groups.declare(
        OPERATIONS["createPolicyGroup"],
        created=True,
        body=GroupDraft,
        reply=GroupView,
        errors=(RelayConflict,),
    )
    async def create(self, request: RelayRequest) -> GroupView:
        """Create a policy group. It applies when it is bound."""
        draft, now = self._parse_draft(request), self._policy_repository.now()
        group = create_group(draft, group_id=random_values.generate_record_id("group", now), now=now)

        def plan(snapshot: PolicySnapshot) -> PolicyGroup:
            if len(snapshot.groups) >= MAX_GROUPS:
                raise ValidationFailed(
                    f"The tenant has {MAX_GROUPS} policy groups, which is the limit. Delete one first."
                )
            return group

        return view_group(await self._records.create(request, group.id, plan))

    @policy_groups.declare(OPERATIONS["listPolicyGroups"], query=GroupQuery, reply=Page[GroupView])
    async def list_policy_groups(self, request: RelayRequest) -> Page[GroupView]:
        """List policy groups, the newest first."""
        query = request.read_query(GroupQuery)
        snapshot = await self._policy_repository.get_snapshot(request.member.tenant)
        found = [held for held in snapshot.groups.values() if _matches_group(held.value, query)]
        newest_first = sorted(found, key=lambda held: held.value.id, reverse=True)
        return query.cut_page(newest_first).map(view_group)

    @policy_groups.declare(OPERATIONS["getPolicyGroup"], reply=GroupView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> GroupView:
        """Get a policy group."""
        snapshot = await self._policy_repository.get_snapshot(request.member.tenant)
        return view_group(self._records.get(snapshot, request, request.path["id"]))

    @policy_groups.declare(
        OPERATIONS["updatePolicyGroup"],
        body=GroupDraft,
        reply=GroupView,
        errors=(CaseNotFound, RelayConflict),
    )
    async def update(self, request: RelayRequest) -> GroupView:
        """Replace a policy group. If it is bound, the change applies at once."""
        draft = self._parse_draft(request)

        def plan(snapshot: PolicySnapshot, before: PolicyGroup) -> PolicyGroup:
            return create_group(draft, group_id=before.id, now=before.created_at)

        return view_group(await self._records.update(request, request.path["id"], plan))

    @policy_groups.declare(OPERATIONS["deletePolicyGroup"], errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Delete a policy group. Fails while a binding refers to it."""
        await self._records.remove(request, request.path["id"])

    def _parse_draft(self, request: RelayRequest) -> GroupDraft:
        draft = parse_group_draft(request.read_body(dict[str, Any]))
        from_settings = self._policy_repository.list_settings_policies(request.member.tenant)
        for index, entry in enumerate(draft.policies):
            if entry.policy.policy_id in from_settings:
                path = f"group.policies[{index}].policy.policyId"
                raise_invalid(
                    path, "names a policy of the server's settings, which already applies to every message"
                )
        return draft


def view_group(held: Versioned[PolicyGroup]) -> GroupView:
    """Return the policy group as the API shows it."""
    return GroupView(**asdict(held.value), rev=held.rev)


def _check_policies(snapshot: PolicySnapshot, group: PolicyGroup) -> None:
    """Raise ValidationFailed for a policy that does not exist or is retired.

    A `PolicySet` rejects it too, but only says that the policy is not in force.
    """
    for index, entry in enumerate(group.policies):
        path, ref = f"group.policies[{index}].policy", entry.policy
        versions = snapshot.policies.get(ref.policy_id)
        if versions is None:
            raise_invalid(f"{path}.policyId", f"names {quote(ref.policy_id)}, which does not exist")
        if versions[-1].value.retired_at is not None:
            raise_invalid(f"{path}.policyId", f"names {quote(ref.policy_id)}, which is retired")
        if ref.version is not None and all(stored.value.policy.version != ref.version for stored in versions):
            raise_invalid(f"{path}.version", f"names {quote(ref.version)}, which the policy does not have")


def _check_unbound(snapshot: PolicySnapshot, group: PolicyGroup) -> None:
    users = [held.value.id for held in snapshot.bindings.values() if held.value.group_id == group.id]
    if users:
        raise RelayConflict(
            f"The binding {users[0]} refers to this policy group. Delete the binding first.",
            bindings=users[:20],
        )


def _matches_group(group: PolicyGroup, query: GroupQuery) -> bool:
    return (query.name is None or query.name.casefold() in group.name.casefold()) and (
        query.policy_id is None or any(entry.policy.policy_id == query.policy_id for entry in group.policies)
    )


def _build_group_metadata(group: PolicyGroup) -> dict[str, Any]:
    policies = [
        {"policyId": entry.policy.policy_id, "version": entry.policy.version}
        for entry in group.policies[:100]
    ]
    return {"groupId": group.id, "groupName": group.name, "policies": policies}


bindings = RelayRouteGroup(
    tag="Policy bindings",
    description="Bindings apply policy groups to a whole tenant, to one agent, or to one caller and agent.",
    read="POLICIES:READ",
    write="POLICIES:WRITE",
)


class BindingView(Binding, frozen=True, kw_only=True, rename="camel"):
    """A binding and its revision."""

    rev: int
    unregistered: Annotated[
        tuple[str, ...],
        Meta(description="The agents or callers in it that do not exist. Until they do, it has no effect."),
    ] = ()


class BindingList(Struct, frozen=True, kw_only=True, rename="camel"):
    """The bindings of one scope, in order."""

    content: tuple[BindingView, ...]


class BindingQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The filter and page of a list of bindings."""

    binding_level: Annotated[BindingLevel | None, Meta(description="Only bindings of this level.")] = None
    group_id: Annotated[str | None, Meta(description="Only bindings of this policy group.")] = None
    agent_id: Annotated[str | None, Meta(description="Only bindings of this agent.")] = None
    source_agent_id: Annotated[str | None, Meta(description="Only bindings of this source.")] = None
    sink_agent_id: Annotated[str | None, Meta(description="Only bindings of this sink.")] = None


class _BindingRecords(Records[PolicySnapshot, Binding]):
    noun = "policy binding"

    def find(self, present: PolicySnapshot, tenant: str, name: str) -> Versioned[Binding] | None:
        return present.bindings.get(name)

    def build_record(self, tenant: str, name: str, held: Versioned[Binding], now: datetime) -> ConfigRecord:
        return build_binding_record(tenant, held.value, rev=held.rev, now=now)

    def describe_save(self, present: PolicySnapshot, name: str, value: Binding) -> AuditNote:
        group = present.groups.get(value.group_id)
        if group is None:
            raise_invalid("binding.groupId", f"names {quote(value.group_id)}, which does not exist")
        summary = f"bound the policy group {group.value.name} at {value.binding_level} level"
        return summary, _build_binding_metadata(value)

    def describe_removal(self, present: PolicySnapshot, name: str, value: Binding) -> AuditNote:
        return "deleted a policy binding", _build_binding_metadata(value)


class BindingApi(HttpApi):
    """Handles the routes of policy bindings."""

    def __init__(self, policy_repository: PolicyRepository, registry: LiveRegistry) -> None:
        self._policy_repository = policy_repository
        self._records = _BindingRecords(policy_repository)
        self._registry = registry

    @bindings.declare(
        OPERATIONS["createPolicyBinding"],
        created=True,
        body=BindingDraft,
        reply=BindingView,
        errors=(RelayConflict,),
    )
    async def create(self, request: RelayRequest) -> BindingView:
        """Bind a policy group. Its policies apply at once, or when the binding becomes valid."""
        draft = parse_binding_draft(request.read_body(dict[str, Any]))
        now = self._policy_repository.now()
        binding = create_binding(draft, binding_id=random_values.generate_record_id("binding", now), now=now)

        def plan(snapshot: PolicySnapshot) -> Binding:
            if len(snapshot.bindings) >= MAX_BINDINGS:
                raise ValidationFailed(
                    f"The tenant has {MAX_BINDINGS} bindings, which is the limit. Delete one first."
                )
            return binding

        return await self._build_view(request, await self._records.create(request, binding.id, plan))

    @bindings.declare(OPERATIONS["listPolicyBindings"], query=BindingQuery, reply=Page[BindingView])
    async def list_bindings(self, request: RelayRequest) -> Page[BindingView]:
        """List bindings in the order of evaluation: by level, the widest first, then by priority."""
        query = request.read_query(BindingQuery)
        snapshot = await self._policy_repository.get_snapshot(request.member.tenant)
        found = [held for held in snapshot.bindings.values() if _matches_binding(held.value, query)]
        page = query.cut_page(sorted(found, key=lambda held: held.value.order))
        views = [await self._build_view(request, held) for held in page.content]
        return query.make_page(views, page.total_elements)

    @bindings.declare(
        OPERATIONS["reorderPolicyBindings"],
        body=BindingReorder,
        reply=BindingList,
        errors=(RelayConflict,),
    )
    async def reorder(self, request: RelayRequest) -> BindingList:
        """Reorder all bindings of one scope in one change."""
        reorder = parse_reorder(request.read_body(dict[str, Any]))
        member, now = request.member, self._policy_repository.now()

        def plan(snapshot: PolicySnapshot) -> RecordChange[BindingList]:
            known = snapshot.bindings
            moved = reorder_bindings([held.value for held in known.values()], reorder)
            saved = [Versioned(value=binding, rev=known[binding.id].rev + 1) for binding in moved]
            return RecordChange(
                save=tuple(
                    build_binding_record(member.tenant, held.value, rev=held.rev, now=now) for held in saved
                ),
                message=f"{member.name} reordered policy bindings.",
                metadata={"operation": "REORDERED", **msgspec.to_builtins(reorder)},
                result=BindingList(content=tuple(view_binding(held) for held in saved)),
            )

        return await self._policy_repository.change(member, plan)

    @bindings.declare(OPERATIONS["getPolicyBinding"], reply=BindingView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> BindingView:
        """Get a binding."""
        snapshot = await self._policy_repository.get_snapshot(request.member.tenant)
        return await self._build_view(request, self._records.get(snapshot, request, request.path["id"]))

    @bindings.declare(
        OPERATIONS["updatePolicyBinding"],
        body=BindingDraft,
        reply=BindingView,
        errors=(CaseNotFound, RelayConflict),
    )
    async def update(self, request: RelayRequest) -> BindingView:
        """Replace a binding."""
        draft = parse_binding_draft(request.read_body(dict[str, Any]))

        def plan(snapshot: PolicySnapshot, before: Binding) -> Binding:
            return create_binding(draft, binding_id=before.id, now=before.created_at)

        return await self._build_view(request, await self._records.update(request, request.path["id"], plan))

    @bindings.declare(OPERATIONS["deletePolicyBinding"], errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Delete a binding. Its policies no longer apply."""
        await self._records.remove(request, request.path["id"])

    async def _build_view(self, request: RelayRequest, held: Versioned[Binding]) -> BindingView:
        """Return the binding with the agents and callers in it that do not exist.

        They are reported and not rejected, because they may be registered later.
        """
        view = view_binding(held)
        names = dict.fromkeys((view.agent_id, view.source_agent_id, view.sink_agent_id))
        if view.binding_level is BindingLevel.TENANT:
            return view
        known, tenant = await self._registry.get_snapshot(), request.member.tenant
        missing = [
            name
            for name in names
            if name is not None and (tenant, name) not in known.agents and (tenant, name) not in known.callers
        ]
        return replace(view, unregistered=tuple(missing))


def view_binding(held: Versioned[Binding]) -> BindingView:
    """Return the binding as the API shows it, without `unregistered`."""
    return BindingView(**asdict(held.value), rev=held.rev)


def _matches_binding(binding: Binding, query: BindingQuery) -> bool:
    return all(
        wanted is None or wanted == actual
        for wanted, actual in (
            (query.binding_level, binding.binding_level),
            (query.group_id, binding.group_id),
            (query.agent_id, binding.agent_id),
            (query.source_agent_id, binding.source_agent_id),
            (query.sink_agent_id, binding.sink_agent_id),
        )
    )


def _build_binding_metadata(binding: Binding) -> dict[str, Any]:
    metadata: dict[str, Any] = msgspec.to_builtins(binding)
    metadata["bindingId"] = metadata.pop("id")
    return metadata
