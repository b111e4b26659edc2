"""`/relay/v1/policy-groups`: policies in their order, to be bound together."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from assent.desk import minting
from assent.errors import CaseNotFound, RelayConflict, ValidationFailed
from assent.protocol.moment import Moment
from assent.protocol.shape import quote
from assent.relay.api.paging import Page, PageQuery
from assent.relay.api.preconditions import check_match
from assent.relay.api.route import ApiRequest, ApiRoute, read_json, read_query
from assent.relay.bookkeeping import Bookkeeper, Change
from assent.relay.policies.binding import GroupDraft, GroupEntry, PolicyGroup, file_group, read_group
from assent.relay.policies.policy import refuse
from assent.relay.policies.records import Held, Library, group_record

PATH = "/relay/v1/policy-groups"
MAX_GROUPS = 10_000


class GroupView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A group, and how often it changed."""

    id: str
    name: str
    description: str
    policies: tuple[GroupEntry, ...]
    created_at: Moment
    rev: int


class GroupQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which groups are listed."""

    name: Annotated[str | None, Meta(description="Only those with this in their name.")] = None
    policy_id: Annotated[str | None, Meta(description="Only those that name this policy.")] = None


class PolicyGroupApi:
    """What is answered there."""

    def __init__(self, books: Bookkeeper) -> None:
        self._books = books

    def routes(self) -> tuple[ApiRoute, ...]:
        """Every address of it."""
        one, read, write = f"{PATH}/{{id}}", "POLICIES:READ", "POLICIES:WRITE"
        changed = (CaseNotFound, RelayConflict)
        return (
            _route(
                "POST",
                PATH,
                write,
                self.create,
                "createPolicyGroup",
                GroupView,
                takes=GroupDraft,
                status=201,
                errors=(RelayConflict,),
            ),
            _route("GET", PATH, read, self.listed, "listPolicyGroups", Page[GroupView], query=GroupQuery),
            _route("GET", one, read, self.one, "getPolicyGroup", GroupView, errors=(CaseNotFound,)),
            _route(
                "PUT",
                one,
                write,
                self.update,
                "updatePolicyGroup",
                GroupView,
                takes=GroupDraft,
                errors=changed,
            ),
            _route("DELETE", one, write, self.remove, "deletePolicyGroup", None, status=204, errors=changed),
        )

    async def create(self, request: ApiRequest) -> GroupView:
        """Put policies into a group; it applies as soon as it is bound."""
        draft = read_group(read_json(request, dict[str, Any]))
        now = self._books.now()

        def plan(library: Library) -> Change[GroupView]:
            if len(library.groups) >= MAX_GROUPS:
                raise ValidationFailed(f"There are {MAX_GROUPS} groups already; delete some first.")
            group = file_group(draft, group_id=minting.record_id("group", now), now=now)
            return self._saving(request, library, group, rev=1, what="CREATED")

        return await self._books.change(request.member, plan)

    async def listed(self, request: ApiRequest) -> Page[GroupView]:
        """List groups, the newest first."""
        asked = read_query(request, GroupQuery)
        library = await self._books.library(request.member.tenant)
        found = [view_of(held) for held in library.groups.values() if _fits(held.value, asked)]
        return asked.cut(sorted(found, key=lambda view: view.id, reverse=True))

    async def one(self, request: ApiRequest) -> GroupView:
        """Look at a group."""
        return view_of(_found(await self._books.library(request.member.tenant), request))

    async def update(self, request: ApiRequest) -> GroupView:
        """Put another group in the place of this one; where it is bound, it applies at once."""
        draft = read_group(read_json(request, dict[str, Any]))

        def plan(library: Library) -> Change[GroupView]:
            held = _found(library, request)
            check_match(request, held.rev)
            group = file_group(draft, group_id=held.value.id, now=held.value.created_at)
            return self._saving(request, library, group, rev=held.rev + 1, what="UPDATED")

        return await self._books.change(request.member, plan)

    async def remove(self, request: ApiRequest) -> None:
        """Delete a group; refused while a binding names it."""
        tenant, now = request.member.tenant, self._books.now()

        def plan(library: Library) -> Change[None]:
            held = _found(library, request)
            check_match(request, held.rev)
            _check_unbound(library, held.value)
            return Change(
                delete=(group_record(tenant, held.value, rev=held.rev, now=now),),
                message=f"{request.member.name} deleted the policy group {held.value.name}.",
                metadata=_metadata(held.value, "DELETED"),
                gives=None,
            )

        await self._books.change(request.member, plan)

    def _saving(
        self, request: ApiRequest, library: Library, group: PolicyGroup, *, rev: int, what: str
    ) -> Change[GroupView]:
        _check_policies(library, group)
        member = request.member
        return Change(
            save=(group_record(member.tenant, group, rev=rev, now=self._books.now()),),
            message=f"{member.name} wrote the policy group {group.name}.",
            metadata=_metadata(group, what),
            gives=view_of(Held(value=group, rev=rev)),
        )


def view_of(held: Held[PolicyGroup]) -> GroupView:
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


def _route(
    method: str, path: str, permission: str, handle: Any, name: str, gives: Any, **more: Any
) -> ApiRoute:
    return ApiRoute(
        method=method,
        path=path,
        permission=permission,
        handle=handle,
        name=name,
        tag="Policy groups",
        gives=gives,
        **more,
    )


def _found(library: Library, request: ApiRequest) -> Held[PolicyGroup]:
    held = library.groups.get(request.path["id"])
    if held is None:
        raise CaseNotFound("There is no such policy group.")
    return held


def _check_policies(library: Library, group: PolicyGroup) -> None:
    """Say more than that a policy is not in force, which is all that a book knows."""
    for place, entry in enumerate(group.policies):
        path, ref = f"group.policies[{place}].policy", entry.policy
        versions = library.policies.get(ref.policy_id)
        if versions is None:
            refuse(f"{path}.policyId", f"names {quote(ref.policy_id)}: there is no such policy")
        if versions[-1].value.retired_at is not None:
            refuse(f"{path}.policyId", f"names {quote(ref.policy_id)}, which was retired")
        if ref.version is not None and all(one.value.policy.version != ref.version for one in versions):
            refuse(f"{path}.version", f"names {quote(ref.version)}: the policy has no such version")


def _check_unbound(library: Library, group: PolicyGroup) -> None:
    users = [held.value.id for held in library.bindings.values() if held.value.group_id == group.id]
    if users:
        raise RelayConflict(f"The binding {users[0]} names this group; delete it first.", bindings=users[:20])


def _fits(group: PolicyGroup, asked: GroupQuery) -> bool:
    return (asked.name is None or asked.name.casefold() in group.name.casefold()) and (
        asked.policy_id is None or any(one.policy.policy_id == asked.policy_id for one in group.policies)
    )


def _metadata(group: PolicyGroup, what: str) -> dict[str, Any]:
    named = [
        {"policyId": one.policy.policy_id, "version": one.policy.version} for one in group.policies[:100]
    ]
    return {"operation": what, "groupId": group.id, "groupName": group.name, "policies": named}
