"""`/relay/v1/policy-bindings`: where groups of policies apply, from when to when, and in which order."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from assent.desk import minting
from assent.errors import CaseNotFound, RelayConflict, ValidationFailed
from assent.protocol.moment import Moment
from assent.protocol.shape import quote
from assent.relay.api.paging import Page, PageQuery
from assent.relay.api.preconditions import check_match
from assent.relay.api.route import ApiRequest, ApiRoute, read_json, read_query
from assent.relay.bookkeeping import Bookkeeper, Change
from assent.relay.members import Members
from assent.relay.policies.binding import (
    Binding,
    BindingDraft,
    BindingLevel,
    Reorder,
    file_binding,
    read_binding,
    read_reorder,
    reordered,
)
from assent.relay.policies.policy import refuse
from assent.relay.policies.records import Held, Library, binding_record

PATH = "/relay/v1/policy-bindings"
MAX_BINDINGS = 10_000


class BindingView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A binding, and how often it changed."""

    id: str
    group_id: str
    binding_level: BindingLevel
    agent_id: str | None
    source_agent_id: str | None
    sink_agent_id: str | None
    priority: int
    valid_from: Moment | None
    valid_to: Moment | None
    created_at: Moment
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


class BindingApi:
    """What is answered there."""

    def __init__(self, books: Bookkeeper, members: Members | None = None) -> None:
        self._books = books
        self._members = members

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
                "createPolicyBinding",
                BindingView,
                takes=BindingDraft,
                status=201,
                errors=(RelayConflict,),
            ),
            _route(
                "GET", PATH, read, self.listed, "listPolicyBindings", Page[BindingView], query=BindingQuery
            ),
            _route(
                "PUT",
                f"{PATH}/reorder",
                write,
                self.reorder,
                "reorderPolicyBindings",
                BindingList,
                takes=Reorder,
                errors=(RelayConflict,),
            ),
            _route("GET", one, read, self.one, "getPolicyBinding", BindingView, errors=(CaseNotFound,)),
            _route(
                "PUT",
                one,
                write,
                self.update,
                "updatePolicyBinding",
                BindingView,
                takes=BindingDraft,
                errors=changed,
            ),
            _route(
                "DELETE", one, write, self.remove, "deletePolicyBinding", None, status=204, errors=changed
            ),
        )

    async def create(self, request: ApiRequest) -> BindingView:
        """Bind a group: its policies apply from now on, or as soon as the binding's window opens."""
        draft = read_binding(read_json(request, dict[str, Any]))
        now = self._books.now()

        def plan(library: Library) -> Change[BindingView]:
            if len(library.bindings) >= MAX_BINDINGS:
                raise ValidationFailed(f"There are {MAX_BINDINGS} bindings already; delete some first.")
            binding = file_binding(draft, binding_id=minting.record_id("binding", now), now=now)
            return self._saving(request, library, binding, rev=1, what="CREATED")

        return await self._checked(request, await self._books.change(request.member, plan))

    async def listed(self, request: ApiRequest) -> Page[BindingView]:
        """List bindings in the order in which they are looked at: wide levels first, then low priority."""
        asked = read_query(request, BindingQuery)
        library = await self._books.library(request.member.tenant)
        found = [held for held in library.bindings.values() if _fits(held.value, asked)]
        page = asked.cut([view_of(held) for held in sorted(found, key=lambda held: held.value.order)])
        return replace(page, content=tuple([await self._checked(request, view) for view in page.content]))

    async def one(self, request: ApiRequest) -> BindingView:
        """Look at a binding."""
        found = _found(await self._books.library(request.member.tenant), request)
        return await self._checked(request, view_of(found))

    async def update(self, request: ApiRequest) -> BindingView:
        """Put another binding in the place of this one, at once."""
        draft = read_binding(read_json(request, dict[str, Any]))

        def plan(library: Library) -> Change[BindingView]:
            held = _found(library, request)
            check_match(request, held.rev)
            binding = file_binding(draft, binding_id=held.value.id, now=held.value.created_at)
            return self._saving(request, library, binding, rev=held.rev + 1, what="UPDATED")

        return await self._checked(request, await self._books.change(request.member, plan))

    async def remove(self, request: ApiRequest) -> None:
        """Delete a binding: what it brought does not apply any more."""
        member, now = request.member, self._books.now()

        def plan(library: Library) -> Change[None]:
            held = _found(library, request)
            check_match(request, held.rev)
            return Change(
                delete=(binding_record(member.tenant, held.value, rev=held.rev, now=now),),
                message=f"{member.name} deleted a policy binding.",
                metadata=_metadata(held.value, "DELETED"),
                gives=None,
            )

        await self._books.change(member, plan)

    async def reorder(self, request: ApiRequest) -> BindingList:
        """Put all bindings of one scope into this order, at once."""
        asked = read_reorder(read_json(request, dict[str, Any]))
        member, now = request.member, self._books.now()

        def plan(library: Library) -> Change[BindingList]:
            known = library.bindings
            moved = reordered([held.value for held in known.values()], asked)
            saved = [Held(value=one, rev=known[one.id].rev + 1) for one in moved]
            return Change(
                save=tuple(binding_record(member.tenant, one.value, rev=one.rev, now=now) for one in saved),
                message=f"{member.name} put policy bindings into another order.",
                metadata={"operation": "REORDERED", **msgspec.to_builtins(asked)},
                gives=BindingList(content=tuple(view_of(one) for one in saved)),
            )

        return await self._books.change(member, plan)

    async def _checked(self, request: ApiRequest, view: BindingView) -> BindingView:
        """A slip of the pen protects nothing, and is told. It is not refused: agents may come later."""
        named = dict.fromkeys((view.agent_id, view.source_agent_id, view.sink_agent_id))
        if self._members is None or view.binding_level is BindingLevel.TENANT:
            return view
        roster, tenant = await self._members.current(), request.member.tenant
        missing = [
            one
            for one in named
            if one is not None and (tenant, one) not in roster.agents and (tenant, one) not in roster.callers
        ]
        return replace(view, unregistered=tuple(missing))

    def _saving(
        self, request: ApiRequest, library: Library, binding: Binding, *, rev: int, what: str
    ) -> Change[BindingView]:
        if binding.group_id not in library.groups:
            refuse("binding.groupId", f"names {quote(binding.group_id)}: there is no such group")
        member = request.member
        name = library.groups[binding.group_id].value.name
        return Change(
            save=(binding_record(member.tenant, binding, rev=rev, now=self._books.now()),),
            message=f"{member.name} bound the policy group {name} at {binding.binding_level} level.",
            metadata=_metadata(binding, what),
            gives=view_of(Held(value=binding, rev=rev)),
        )


def view_of(held: Held[Binding]) -> BindingView:
    """A binding as the API shows it."""
    fields = {name: getattr(held.value, name) for name in held.value.__struct_fields__}
    return BindingView(**fields, rev=held.rev)


def _route(
    method: str, path: str, permission: str, handle: Any, name: str, gives: Any, **more: Any
) -> ApiRoute:
    return ApiRoute(
        method=method,
        path=path,
        permission=permission,
        handle=handle,
        name=name,
        tag="Policy bindings",
        gives=gives,
        **more,
    )


def _found(library: Library, request: ApiRequest) -> Held[Binding]:
    held = library.bindings.get(request.path["id"])
    if held is None:
        raise CaseNotFound("There is no such policy binding.")
    return held


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


def _metadata(binding: Binding, what: str) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(binding)
    told["bindingId"] = told.pop("id")
    return {"operation": what, **told}
