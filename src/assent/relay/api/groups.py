"""`/relay/v1/groups`: which principals of a tenant may do what."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from assent.errors import CaseNotFound, RelayConflict
from assent.relay.api.agents import IN_SETTINGS, AgentId, Origin
from assent.relay.api.callers import Name
from assent.relay.api.paging import Page, PageQuery
from assent.relay.api.preconditions import check_match
from assent.relay.api.route import ApiRequest, ApiRoute, read_json, read_query
from assent.relay.enrolled import Enrolled, Held, record_of
from assent.relay.enrolment import Enrolling, Enrolment, check_brings, check_room
from assent.relay.registered import GroupSettings
from assent.relay.roster import Key, Roster
from assent.relay.tenancy import PERMISSIONS

PATH = "/relay/v1/groups"
NO_SUCH_GROUP = "There is no such group."
MOST_MEMBERS = 10_000
Permission = Annotated[str, Meta(extra_json_schema={"enum": sorted(PERMISSIONS)})]


class MemberGroupDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A group as somebody asks for it."""

    members: Annotated[
        tuple[Name, ...], Meta(max_length=MOST_MEMBERS, description="The names of their API keys.")
    ] = ()
    permissions: Annotated[
        tuple[Permission, ...], Meta(max_length=len(PERMISSIONS), description="What each of them may do.")
    ] = ()


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
    rev: Annotated[int | None, Meta(description="How often it changed, for If-Match.")] = None


class GroupsApi:
    """What is answered there."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment = enrolment

    def routes(self) -> tuple[ApiRoute, ...]:
        """Every address of it."""
        one, read, write = f"{PATH}/{{name}}", "GROUPS:READ", "GROUPS:WRITE"
        changed = (CaseNotFound, RelayConflict)
        return (
            _route("GET", PATH, read, self.listed, "listGroups", Page[MemberGroupView], query=PageQuery),
            _route(
                "POST",
                PATH,
                write,
                self.create,
                "createGroup",
                MemberGroupView,
                takes=MemberGroupRequest,
                status=201,
                errors=(RelayConflict,),
                about="Only an administrator brings a key into a tenant that does not belong to it yet.",
            ),
            _route("GET", one, read, self.one, "getGroup", MemberGroupView, errors=(CaseNotFound,)),
            _route(
                "PUT",
                one,
                write,
                self.update,
                "changeGroup",
                MemberGroupView,
                takes=MemberGroupDraft,
                errors=changed,
            ),
            _route("DELETE", one, write, self.remove, "removeGroup", None, status=204, errors=changed),
        )

    async def listed(self, request: ApiRequest) -> Page[MemberGroupView]:
        """List the groups of a tenant."""
        asked = read_query(request, PageQuery)
        everyone = await self._enrolment.members.current()
        page = asked.cut(sorted(key for key in everyone.groups if key[0] == request.member.tenant))
        return asked.of([self._view(key, everyone) for key in page.content], page.total_elements)

    async def one(self, request: ApiRequest) -> MemberGroupView:
        """Look at a group."""
        everyone = await self._enrolment.members.current()
        key = request.member.tenant, request.path["name"]
        if key not in everyone.groups:
            raise CaseNotFound(NO_SUCH_GROUP)
        return self._view(key, everyone)

    async def create(self, request: ApiRequest) -> MemberGroupView:
        """Make a group: its members may do what it says within a second."""
        draft, member = read_json(request, MemberGroupRequest), request.member
        key, group = (member.tenant, draft.name), _settings(draft, member.tenant)
        self._enrolment.check(draft.name, group)

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            if key in everyone.groups or key in enrolled.groups:
                raise RelayConflict("There is a group of this name already.")
            check_room(everyone.groups, member.tenant)
            check_brings(member, everyone, *group.members)
            return self._saving(request, key, group, rev=1, what="CREATED")

        await self._enrolment.change(member, plan)
        return self._view(key, await self._enrolment.members.current())

    async def update(self, request: ApiRequest) -> MemberGroupView:
        """Say anew who is in a group and what they may do."""
        draft, member = read_json(request, MemberGroupDraft), request.member
        key, group = (member.tenant, request.path["name"]), _settings(draft, member.tenant)
        self._enrolment.check(key[1], group)

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            held = self._changeable(request, enrolled)
            new = [name for name in group.members if name not in held.value.members]
            check_brings(member, everyone, *new)
            return self._saving(request, key, group, rev=held.rev + 1, what="UPDATED")

        await self._enrolment.change(member, plan)
        return self._view(key, await self._enrolment.members.current())

    async def remove(self, request: ApiRequest) -> None:
        """Remove a group: its members may no longer do what only it allowed them."""
        member, now = request.member, self._enrolment.now()
        key = member.tenant, request.path["name"]

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            held = self._changeable(request, enrolled)
            return Enrolling(
                delete=(record_of("group", key, held.value, rev=held.rev, now=now),),
                message=f"{member.name} removed the group {key[1]}.",
                metadata={"operation": "DELETED", "group": key[1]},
                gives=None,
            )

        await self._enrolment.change(member, plan)

    def _changeable(self, request: ApiRequest, enrolled: Enrolled) -> Held[GroupSettings]:
        key = request.member.tenant, request.path["name"]
        if key in self._enrolment.members.settled.groups:
            raise RelayConflict(IN_SETTINGS)
        held = enrolled.groups.get(key)
        if held is None:
            raise CaseNotFound(NO_SUCH_GROUP)
        check_match(request, held.rev)
        return held

    def _saving(
        self, request: ApiRequest, key: Key, group: GroupSettings, *, rev: int, what: str
    ) -> Enrolling[None]:
        return Enrolling(
            save=(record_of("group", key, group, rev=rev, now=self._enrolment.now()),),
            message=f"{request.member.name} wrote the group {key[1]}.",
            metadata={
                "operation": what,
                "group": key[1],
                "members": list(group.members[:100]),
                "permissions": list(group.permissions),
            },
            gives=None,
        )

    def _view(self, key: Key, everyone: Roster) -> MemberGroupView:
        tenant, name = key
        group = everyone.groups[key]
        kept = self._enrolment.members.enrolled.groups.get(key)
        settled = key in self._enrolment.members.settled.groups
        return MemberGroupView(
            name=name,
            tenant_id=tenant,
            members=group.members,
            permissions=group.permissions,
            origin="settings" if settled else "store",
            rev=kept.rev if kept is not None and not settled else None,
        )


def _settings(draft: MemberGroupDraft, tenant: str) -> GroupSettings:
    return GroupSettings(
        members=tuple(dict.fromkeys(draft.members)),
        permissions=tuple(sorted(set(draft.permissions))),
        tenant=tenant,
    )


def _route(
    method: str, path: str, permission: str, handle: Any, name: str, gives: Any, **more: Any
) -> ApiRoute:
    return ApiRoute(
        method=method,
        path=path,
        permission=permission,
        handle=handle,
        name=name,
        tag="Groups",
        gives=gives,
        **more,
    )
