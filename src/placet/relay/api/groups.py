"""`/relay/v1/groups`: which principals of a tenant may do what."""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from placet.errors import CaseNotFound, RelayConflict
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.relay.api.access import RelayRequest, RelayRouteGroup
from placet.relay.api.agents import AgentId
from placet.relay.api.callers import Name
from placet.relay.api.registry_records import (
    BRINGS_KEYS,
    Origin,
    RegistryKind,
    RegistryRecords,
    Rev,
    view_entry,
)
from placet.relay.registry.registry_editor import RegistryEditor, check_principals
from placet.relay.registry.registry_snapshot import RegistrySnapshot
from placet.relay.registry.tenant_membership import PERMISSIONS
from placet.relay.settings import GroupSettings

PATH = "/relay/v1/groups"
ONE = f"{PATH}/{{name}}"
MOST_MEMBERS = 10_000
Permission = Annotated[str, Meta(extra_json_schema={"enum": sorted(PERMISSIONS)})]

groups = RelayRouteGroup(
    tag="Groups",
    description="Which keys of a tenant may see and decide what.",
    read="GROUPS:READ",
    write="GROUPS:WRITE",
)
GROUPS = RegistryKind[GroupSettings](
    kind="group",
    taken="There is a group of this name already.",
    deed="wrote",
    called="group",
    details=lambda group: {"members": list(group.members[:100]), "permissions": list(group.permissions)},
    there=lambda registry: registry.groups,
    enrolled=lambda enrolled: enrolled.groups,
)


class MemberGroupDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A group as somebody asks for it."""

    members: Annotated[
        tuple[Name, ...], Meta(max_length=MOST_MEMBERS, description="The names of their API keys.")
    ] = ()
    permissions: Annotated[
        tuple[Permission, ...], Meta(max_length=len(PERMISSIONS), description="What each of them may do.")
    ] = ()

    def settings(self, tenant: str) -> GroupSettings:
        """In the words of the settings."""
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
    """Some principals of a tenant, and what they may do there."""

    name: str
    tenant_id: str
    members: tuple[str, ...]
    permissions: tuple[str, ...]
    origin: Origin
    rev: Rev = None


class GroupsApi(HttpApi):
    """Handles these routes."""

    def __init__(self, editor: RegistryEditor) -> None:
        self._records = RegistryRecords(editor, GROUPS)

    @groups.get(PATH, "listGroups", query=PageQuery, reply=Page[MemberGroupView])
    async def list_groups(self, request: RelayRequest) -> Page[MemberGroupView]:
        """List the groups of a tenant."""
        return await self._records.page(request, partial(view_entry, MemberGroupView))

    @groups.create(
        PATH,
        "createGroup",
        description=BRINGS_KEYS,
        body=MemberGroupRequest,
        reply=MemberGroupView,
        errors=(RelayConflict,),
    )
    async def create(self, request: RelayRequest) -> MemberGroupView:
        """Make a group: its members may do what it says within a second."""
        draft, member = request.read_body(MemberGroupRequest), request.member
        group = draft.settings(member.tenant)
        made = await self._records.create(
            request, draft.name, group, lambda everyone: check_principals(member, everyone, *group.members)
        )
        return view_entry(MemberGroupView, made)

    @groups.get(ONE, "getGroup", reply=MemberGroupView, errors=(CaseNotFound,))
    async def one(self, request: RelayRequest) -> MemberGroupView:
        """Look at a group."""
        return view_entry(MemberGroupView, await self._records.one(request, request.path["name"]))

    @groups.put(
        ONE,
        "changeGroup",
        body=MemberGroupDraft,
        reply=MemberGroupView,
        errors=(CaseNotFound, RelayConflict),
    )
    async def update(self, request: RelayRequest) -> MemberGroupView:
        """Say anew who is in a group and what they may do."""
        member = request.member
        group = request.read_body(MemberGroupDraft).settings(member.tenant)

        def check(everyone: RegistrySnapshot, before: GroupSettings) -> None:
            check_principals(member, everyone, *(one for one in group.members if one not in before.members))

        return view_entry(
            MemberGroupView, await self._records.replace(request, request.path["name"], group, check)
        )

    @groups.delete(ONE, "removeGroup", errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Remove a group: its members may no longer do what only it allowed them."""
        await self._records.remove(request, request.path["name"])
