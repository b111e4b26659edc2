"""`/relay/v1/policy-groups`: group policies in an order, to bind them together."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from placet.desk import random_values
from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.ports.config_store import ConfigRecord
from placet.protocol.conversion import quote
from placet.protocol.timestamp import Timestamp
from placet.relay.api.access import RelayRequest, RelayRouteGroup
from placet.relay.api.records import AuditNote, Records
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.policy.binding import GroupDraft, GroupEntry, PolicyGroup, create_group, parse_group_draft
from placet.relay.policy.policy import raise_invalid
from placet.relay.policy.policy_set import PolicySnapshot, build_group_record
from placet.relay.record_changes import Versioned
from placet.relay.route_addresses import OPERATIONS

MAX_GROUPS = 10_000

groups = RelayRouteGroup(
    tag="Policy groups",
    description="Policy groups are ordered lists of policies that are bound together.",
    read="POLICIES:READ",
    write="POLICIES:WRITE",
)


class GroupView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A policy group and its revision."""

    id: str
    name: str
    description: str
    policies: tuple[GroupEntry, ...]
    created_at: Timestamp
    rev: int


class GroupQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The filter and page of a list of policy groups."""

    name: Annotated[str | None, Meta(description="Only groups whose name contains this text.")] = None
    policy_id: Annotated[str | None, Meta(description="Only groups that contain this policy.")] = None


class _Groups:
    """The `RecordKind` of policy groups."""

    noun = "policy group"

    def find(self, present: PolicySnapshot, tenant: str, name: str) -> Versioned[PolicyGroup] | None:
        return present.groups.get(name)

    def record(self, tenant: str, name: str, held: Versioned[PolicyGroup], now: datetime) -> ConfigRecord:
        return build_group_record(tenant, held.value, rev=held.rev, now=now)

    def describe_save(self, present: PolicySnapshot, name: str, value: PolicyGroup) -> AuditNote:
        _check_policies(present, value)
        return AuditNote(summary=f"saved the policy group {value.name}", metadata=_build_metadata(value))

    def describe_removal(self, present: PolicySnapshot, name: str, value: PolicyGroup) -> AuditNote:
        _check_unbound(present, value)
        return AuditNote(summary=f"deleted the policy group {value.name}", metadata=_build_metadata(value))


class PolicyGroupApi(HttpApi):
    """Handles the routes of policy groups."""

    def __init__(self, policy_repository: PolicyRepository) -> None:
        self._policy_repository = policy_repository
        self._records = Records(policy_repository, _Groups())

    @groups.declare(
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

    @groups.declare(OPERATIONS["listPolicyGroups"], query=GroupQuery, reply=Page[GroupView])
    async def list_policy_groups(self, request: RelayRequest) -> Page[GroupView]:
        """List policy groups, the newest first."""
        query = request.read_query(GroupQuery)
        snapshot = await self._policy_repository.get_snapshot(request.member.tenant)
        found = [held for held in snapshot.groups.values() if _matches(held.value, query)]
        newest_first = sorted(found, key=lambda held: held.value.id, reverse=True)
        return query.cut_page(newest_first).map(view_group)

    @groups.declare(OPERATIONS["getPolicyGroup"], reply=GroupView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> GroupView:
        """Get a policy group."""
        snapshot = await self._policy_repository.get_snapshot(request.member.tenant)
        return view_group(self._records.get(snapshot, request, request.path["id"]))

    @groups.declare(
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

    @groups.declare(OPERATIONS["deletePolicyGroup"], errors=(CaseNotFound, RelayConflict))
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
    group = held.value
    return GroupView(
        id=group.id,
        name=group.name,
        description=group.description,
        policies=group.policies,
        created_at=group.created_at,
        rev=held.rev,
    )


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


def _matches(group: PolicyGroup, query: GroupQuery) -> bool:
    return (query.name is None or query.name.casefold() in group.name.casefold()) and (
        query.policy_id is None or any(entry.policy.policy_id == query.policy_id for entry in group.policies)
    )


def _build_metadata(group: PolicyGroup) -> dict[str, Any]:
    policies = [
        {"policyId": entry.policy.policy_id, "version": entry.policy.version}
        for entry in group.policies[:100]
    ]
    return {"groupId": group.id, "groupName": group.name, "policies": policies}
