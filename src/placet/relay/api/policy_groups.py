"""`/relay/v1/policy-groups`: policies in their order, to be bound together."""

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
from placet.relay.policies.binding import GroupDraft, GroupEntry, PolicyGroup, create_group, parse_group_draft
from placet.relay.policies.policy import raise_invalid
from placet.relay.policies.records import PolicySnapshot, build_group_record
from placet.relay.policies.repository import PolicyRepository
from placet.relay.record_changes import Versioned

PATH = "/relay/v1/policy-groups"
ONE = f"{PATH}/{{id}}"
MAX_GROUPS = 10_000

groups = RelayRouteGroup(
    tag="Policy groups",
    description="Policies in their order, to be bound together.",
    read="POLICIES:READ",
    write="POLICIES:WRITE",
)


class GroupView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A group, and how often it changed."""

    id: str
    name: str
    description: str
    policies: tuple[GroupEntry, ...]
    created_at: Timestamp
    rev: int


class GroupQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which groups are listed."""

    name: Annotated[str | None, Meta(description="Only those with this in their name.")] = None
    policy_id: Annotated[str | None, Meta(description="Only those that name this policy.")] = None


class _Groups:
    """A `Kind`."""

    noun = "policy group"

    def find(self, present: PolicySnapshot, tenant: str, name: str) -> Versioned[PolicyGroup] | None:
        return present.groups.get(name)

    def record(self, tenant: str, name: str, held: Versioned[PolicyGroup], now: datetime) -> ConfigRecord:
        return build_group_record(tenant, held.value, rev=held.rev, now=now)

    def describe_save(self, present: PolicySnapshot, name: str, value: PolicyGroup) -> AuditNote:
        _check_policies(present, value)
        return AuditNote(deed=f"wrote the policy group {value.name}", metadata=_metadata(value))

    def describe_removal(self, present: PolicySnapshot, name: str, value: PolicyGroup) -> AuditNote:
        _check_unbound(present, value)
        return AuditNote(deed=f"deleted the policy group {value.name}", metadata=_metadata(value))


class PolicyGroupApi(HttpApi):
    """Handles these routes."""

    def __init__(self, policy_repository: PolicyRepository) -> None:
        self._books = policy_repository
        self._records = Records(policy_repository, _Groups())

    @groups.create(PATH, "createPolicyGroup", body=GroupDraft, reply=GroupView, errors=(RelayConflict,))
    async def create(self, request: RelayRequest) -> GroupView:
        """Put policies into a group; it applies as soon as it is bound."""
        draft, now = self._draft(request), self._books.now()
        group = create_group(draft, group_id=random_values.generate_record_id("group", now), now=now)

        def plan(library: PolicySnapshot) -> PolicyGroup:
            if len(library.groups) >= MAX_GROUPS:
                raise ValidationFailed(f"There are {MAX_GROUPS} groups already; delete some first.")
            return group

        return view_of(await self._records.create(request, group.id, plan))

    @groups.get(PATH, "listPolicyGroups", query=GroupQuery, reply=Page[GroupView])
    async def list_policy_groups(self, request: RelayRequest) -> Page[GroupView]:
        """List groups, the newest first."""
        asked = request.read_query(GroupQuery)
        library = await self._books.library(request.member.tenant)
        found = [held for held in library.groups.values() if _fits(held.value, asked)]
        newest_first = sorted(found, key=lambda held: held.value.id, reverse=True)
        return asked.cut_page(newest_first).map(view_of)

    @groups.get(ONE, "getPolicyGroup", reply=GroupView, errors=(CaseNotFound,))
    async def one(self, request: RelayRequest) -> GroupView:
        """Look at a group."""
        library = await self._books.library(request.member.tenant)
        return view_of(self._records.get(library, request, request.path["id"]))

    @groups.put(
        ONE, "updatePolicyGroup", body=GroupDraft, reply=GroupView, errors=(CaseNotFound, RelayConflict)
    )
    async def update(self, request: RelayRequest) -> GroupView:
        """Put another group in the place of this one; where it is bound, it applies at once."""
        draft = self._draft(request)

        def plan(library: PolicySnapshot, before: PolicyGroup) -> PolicyGroup:
            return create_group(draft, group_id=before.id, now=before.created_at)

        return view_of(await self._records.update(request, request.path["id"], plan))

    @groups.delete(ONE, "deletePolicyGroup", errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Delete a group; refused while a binding names it."""
        await self._records.remove(request, request.path["id"])

    def _draft(self, request: RelayRequest) -> GroupDraft:
        draft = parse_group_draft(request.read_body(dict[str, Any]))
        settled = self._books.list_settings_policies(request.member.tenant)
        for place, entry in enumerate(draft.policies):
            if entry.policy.policy_id in settled:
                path = f"group.policies[{place}].policy.policyId"
                raise_invalid(
                    path, "names a policy of the server's settings, which applies to every message already"
                )
        return draft


def view_of(held: Versioned[PolicyGroup]) -> GroupView:
    """A group as the API shows it."""
    group = held.value
    return GroupView(
        id=group.id,
        name=group.name,
        description=group.description,
        policies=group.policies,
        created_at=group.created_at,
        rev=held.rev,
    )


def _check_policies(library: PolicySnapshot, group: PolicyGroup) -> None:
    """Say more than that a policy is not in force, which is all that a book knows."""
    for place, entry in enumerate(group.policies):
        path, ref = f"group.policies[{place}].policy", entry.policy
        versions = library.policies.get(ref.policy_id)
        if versions is None:
            raise_invalid(f"{path}.policyId", f"names {quote(ref.policy_id)}: there is no such policy")
        if versions[-1].value.retired_at is not None:
            raise_invalid(f"{path}.policyId", f"names {quote(ref.policy_id)}, which was retired")
        if ref.version is not None and all(one.value.policy.version != ref.version for one in versions):
            raise_invalid(f"{path}.version", f"names {quote(ref.version)}: the policy has no such version")


def _check_unbound(library: PolicySnapshot, group: PolicyGroup) -> None:
    users = [held.value.id for held in library.bindings.values() if held.value.group_id == group.id]
    if users:
        raise RelayConflict(f"The binding {users[0]} names this group; delete it first.", bindings=users[:20])


def _fits(group: PolicyGroup, asked: GroupQuery) -> bool:
    return (asked.name is None or asked.name.casefold() in group.name.casefold()) and (
        asked.policy_id is None or any(one.policy.policy_id == asked.policy_id for one in group.policies)
    )


def _metadata(group: PolicyGroup) -> dict[str, Any]:
    named = [
        {"policyId": one.policy.policy_id, "version": one.policy.version} for one in group.policies[:100]
    ]
    return {"groupId": group.id, "groupName": group.name, "policies": named}
