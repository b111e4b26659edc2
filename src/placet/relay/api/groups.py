"""`/relay/v1/groups`: give permissions to the members of a tenant."""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from placet.errors import CaseNotFound, RelayConflict
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.relay.api.access import RelayRequest, RelayRouteGroup
from placet.relay.api.agents import AgentId
from placet.relay.api.callers import CallerName
from placet.relay.api.registry_records import (
    KEY_RULE,
    RecordOrigin,
    RegistryKind,
    RegistryRecords,
    Rev,
    view_entry,
)
from placet.relay.registry import RegistryEditor, RegistrySnapshot, check_principals
from placet.relay.route_addresses import OPERATIONS
from placet.relay.settings import GroupSettings
from placet.relay.tenants import PERMISSIONS

MAX_MEMBERS = 10_000
Permission = Annotated[str, Meta(extra_json_schema={"enum": sorted(PERMISSIONS)})]

groups = RelayRouteGroup(
    tag="Groups",
    description="Groups give permissions to the API keys of a tenant.",
    read="GROUPS:READ",
    write="GROUPS:WRITE",
)
GROUPS = RegistryKind[GroupSettings](
    kind="group",
    conflict_message="A group with this name already exists. Choose another name.",
    verb="saved",
    name_field="group",
    get_audit_details=lambda group: {
        "members": list(group.members[:100]),
        "permissions": list(group.permissions),
    },
    get_all=lambda registry: registry.groups,
    get_stored=lambda stored: stored.groups,
)


class MemberGroupDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of a group."""

    members: Annotated[
        tuple[CallerName, ...],
        Meta(max_length=MAX_MEMBERS, description="The names of the members' API keys."),
    ] = ()
    permissions: Annotated[
        tuple[Permission, ...],
        Meta(max_length=len(PERMISSIONS), description="The permissions of each member."),
    ] = ()

    def settings(self, tenant: str) -> GroupSettings:
        """Return the settings of the group in a tenant."""
        return GroupSettings(
            members=tuple(dict.fromkeys(self.members)),
            permissions=tuple(sorted(set(self.permissions))),
            tenant=tenant,
        )


class MemberGroupRequest(
    MemberGroupDraft, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A new group."""

    name: AgentId


class MemberGroupView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A group: members of a tenant and their permissions."""

    name: str
    tenant_id: str
    members: tuple[str, ...]
    permissions: tuple[str, ...]
    origin: RecordOrigin
    rev: Rev = None


class GroupsApi(HttpApi):
    """Handles the routes of groups."""

    def __init__(self, editor: RegistryEditor) -> None:
        self._records = RegistryRecords(editor, GROUPS)

    @groups.declare(OPERATIONS["listGroups"], query=PageQuery, reply=Page[MemberGroupView])
    async def list_groups(self, request: RelayRequest) -> Page[MemberGroupView]:
        """List the groups of a tenant."""
        return await self._records.list_page(request, partial(view_entry, MemberGroupView))

    @groups.declare(
        OPERATIONS["createGroup"],
        created=True,
        description=KEY_RULE,
        body=MemberGroupRequest,
        reply=MemberGroupView,
        errors=(RelayConflict,),
    )
    async def create(self, request: RelayRequest) -> MemberGroupView:
        """Create a group. Its members get the permissions within a second."""
        draft, member = request.read_body(MemberGroupRequest), request.member
        group = draft.settings(member.tenant)
        entry = await self._records.create(
            request, draft.name, group, lambda registry: check_principals(member, registry, *group.members)
        )
        return view_entry(MemberGroupView, entry)

    @groups.declare(OPERATIONS["getGroup"], reply=MemberGroupView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> MemberGroupView:
        """Get a group."""
        return view_entry(MemberGroupView, await self._records.get(request, request.path["name"]))

    @groups.declare(
        OPERATIONS["changeGroup"],
        body=MemberGroupDraft,
        reply=MemberGroupView,
        errors=(CaseNotFound, RelayConflict),
    )
    async def update(self, request: RelayRequest) -> MemberGroupView:
        """Replace the members and permissions of a group."""
        member = request.member
        group = request.read_body(MemberGroupDraft).settings(member.tenant)

        def check(registry: RegistrySnapshot, before: GroupSettings) -> None:
            added = [name for name in group.members if name not in before.members]
            check_principals(member, registry, *added)

        return view_entry(
            MemberGroupView, await self._records.replace(request, request.path["name"], group, check)
        )

    @groups.declare(OPERATIONS["removeGroup"], errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Remove a group. Its members lose the permissions that no other group gives them."""
        await self._records.remove(request, request.path["name"])
