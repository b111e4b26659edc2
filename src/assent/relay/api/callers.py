"""`/relay/v1/registry/callers` and `…/subscriptions`: who may call which agents."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from assent.errors import CaseNotFound, RelayConflict
from assent.relay.api.agents import IN_SETTINGS, AgentId, Origin
from assent.relay.api.paging import Page, PageQuery
from assent.relay.api.preconditions import check_match
from assent.relay.api.route import ApiRequest, ApiRoute, read_json, read_query
from assent.relay.enrolled import Enrolled, Held, record_of
from assent.relay.enrolment import Enrolling, Enrolment, check_agents, check_brings, check_room
from assent.relay.registered import LONGEST_NAME, CallerSettings
from assent.relay.roster import Key, Roster

PATH = "/relay/v1/registry/callers"
SUBSCRIPTIONS = "/relay/v1/registry/subscriptions"
NO_SUCH_CALLER = "There is no such caller."
MOST_AGENTS = 10_000
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^/\x00-\x1f\x7f]+$(?!\n)")]
Kind = Annotated[Literal["agent", "user"], Meta(description="Whether it is an agent or a person.")]


class CallerDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A caller as somebody asks for it."""

    kind: Kind = "agent"
    agents: Annotated[
        tuple[AgentId, ...], Meta(max_length=MOST_AGENTS, description="The agents it may call.")
    ] = ()


class CallerRequest(CallerDraft, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A new caller."""

    name: Annotated[Name, Meta(description="The name of its API keys.")]


class CallerView(Struct, frozen=True, kw_only=True, rename="camel"):
    """Someone who may call agents."""

    name: str
    tenant_id: str
    kind: Kind
    agents: tuple[str, ...]
    origin: Origin
    rev: Annotated[int | None, Meta(description="How often it changed, for If-Match.")] = None


class SubscriptionView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A caller that may call an agent."""

    source: str
    source_kind: Kind
    sink: str
    tenant_id: str
    origin: Origin


class SubscriptionQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which subscriptions are listed."""

    source: Annotated[str | None, Meta(description="Only those of this caller.")] = None
    sink: Annotated[str | None, Meta(description="Only those to this agent.")] = None


class CallersApi:
    """What is answered there."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment = enrolment

    def routes(self) -> tuple[ApiRoute, ...]:
        """Every address of it."""
        one, pair = f"{PATH}/{{name}}", f"{SUBSCRIPTIONS}/{{source}}/{{sink}}"
        read, write = "AGENTS:READ", "AGENTS:WRITE"
        changed = (CaseNotFound, RelayConflict)
        return (
            _route("GET", PATH, read, self.listed, "listCallers", Page[CallerView], query=PageQuery),
            _route(
                "POST",
                PATH,
                write,
                self.create,
                "registerCaller",
                CallerView,
                takes=CallerRequest,
                status=201,
                errors=(RelayConflict,),
                about="Only an administrator brings a key into a tenant that does not belong to it yet.",
            ),
            _route("GET", one, read, self.one, "getCaller", CallerView, errors=(CaseNotFound,)),
            _route(
                "PUT", one, write, self.update, "changeCaller", CallerView, takes=CallerDraft, errors=changed
            ),
            _route("DELETE", one, write, self.remove, "removeCaller", None, status=204, errors=changed),
            _route(
                "GET",
                SUBSCRIPTIONS,
                read,
                self.subscriptions,
                "listSubscriptions",
                Page[SubscriptionView],
                query=SubscriptionQuery,
            ),
            _route("PUT", pair, write, self.subscribe, "subscribe", SubscriptionView, errors=changed),
            _route("DELETE", pair, write, self.unsubscribe, "unsubscribe", None, status=204, errors=changed),
        )

    async def listed(self, request: ApiRequest) -> Page[CallerView]:
        """List the callers of a tenant."""
        asked = read_query(request, PageQuery)
        everyone = await self._enrolment.members.current()
        page = asked.cut(sorted(key for key in everyone.callers if key[0] == request.member.tenant))
        return asked.of([self._view(key, everyone) for key in page.content], page.total_elements)

    async def one(self, request: ApiRequest) -> CallerView:
        """Look at a caller."""
        everyone = await self._enrolment.members.current()
        key = request.member.tenant, request.path["name"]
        if key not in everyone.callers:
            raise CaseNotFound(NO_SUCH_CALLER)
        return self._view(key, everyone)

    async def create(self, request: ApiRequest) -> CallerView:
        """Register a caller by the name of its API keys, and subscribe it to agents."""
        draft, member = read_json(request, CallerRequest), request.member
        key, caller = (member.tenant, draft.name), _settings(draft, member.tenant)
        self._enrolment.check(draft.name, caller)

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            if key in everyone.callers or key in enrolled.callers:
                raise RelayConflict("There is a caller of this name already.")
            check_room(everyone.callers, member.tenant)
            check_brings(member, everyone, draft.name)
            check_agents(caller, member.tenant, everyone)
            return self._saving(request, key, caller, rev=1, what="CREATED")

        await self._enrolment.change(member, plan)
        return self._view(key, await self._enrolment.members.current())

    async def update(self, request: ApiRequest) -> CallerView:
        """Say anew which agents a caller may call."""
        draft, member = read_json(request, CallerDraft), request.member
        key, caller = (member.tenant, request.path["name"]), _settings(draft, member.tenant)
        self._enrolment.check(key[1], caller)

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            held = self._changeable(request, key, enrolled)
            check_agents(caller, member.tenant, everyone)
            return self._saving(request, key, caller, rev=held.rev + 1, what="UPDATED")

        await self._enrolment.change(member, plan)
        return self._view(key, await self._enrolment.members.current())

    async def remove(self, request: ApiRequest) -> None:
        """Remove a caller with its subscriptions."""
        member, now = request.member, self._enrolment.now()
        key = member.tenant, request.path["name"]

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            held = self._changeable(request, key, enrolled)
            return Enrolling(
                delete=(record_of("caller", key, held.value, rev=held.rev, now=now),),
                message=f"{member.name} removed the caller {key[1]}.",
                metadata={"operation": "DELETED", "caller": key[1]},
                gives=None,
            )

        await self._enrolment.change(member, plan)

    async def subscriptions(self, request: ApiRequest) -> Page[SubscriptionView]:
        """List which caller may call which agent."""
        asked = read_query(request, SubscriptionQuery)
        everyone = await self._enrolment.members.current()
        pairs = sorted(
            (name, agent_id)
            for (tenant, name), caller in everyone.callers.items()
            for agent_id in caller.agents
            if tenant == request.member.tenant
            and asked.source in (None, name)
            and asked.sink in (None, agent_id)
        )
        page = asked.cut(pairs)
        content = [self._pair(request, everyone, source, sink) for source, sink in page.content]
        return asked.of(content, page.total_elements)

    async def subscribe(self, request: ApiRequest) -> SubscriptionView:
        """Let a caller call an agent; again changes nothing."""
        source, sink = request.path["source"], request.path["sink"]
        await self._resubscribe(request, lambda agents: agents if sink in agents else (*agents, sink))
        return self._pair(request, await self._enrolment.members.current(), source, sink)

    async def unsubscribe(self, request: ApiRequest) -> None:
        """Let a caller no longer call an agent."""
        sink = request.path["sink"]

        def without(agents: tuple[str, ...]) -> tuple[str, ...]:
            if sink not in agents:
                raise CaseNotFound("There is no such subscription.")
            return tuple(one for one in agents if one != sink)

        await self._resubscribe(request, without)

    async def _resubscribe(
        self, request: ApiRequest, agents: Callable[[tuple[str, ...]], tuple[str, ...]]
    ) -> None:
        key = request.member.tenant, request.path["source"]

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            held = self._changeable(request, key, enrolled)
            caller = replace(held.value, agents=agents(held.value.agents))
            self._enrolment.check(key[1], caller)
            check_agents(caller, key[0], everyone)
            return self._saving(request, key, caller, rev=held.rev + 1, what="UPDATED")

        await self._enrolment.change(request.member, plan)

    def _changeable(self, request: ApiRequest, key: Key, enrolled: Enrolled) -> Held[CallerSettings]:
        if key in self._enrolment.members.settled.callers:
            raise RelayConflict(IN_SETTINGS)
        held = enrolled.callers.get(key)
        if held is None:
            raise CaseNotFound(NO_SUCH_CALLER)
        check_match(request, held.rev)
        return held

    def _saving(
        self, request: ApiRequest, key: Key, caller: CallerSettings, *, rev: int, what: str
    ) -> Enrolling[None]:
        return Enrolling(
            save=(record_of("caller", key, caller, rev=rev, now=self._enrolment.now()),),
            message=f"{request.member.name} registered the caller {key[1]}.",
            metadata={"operation": what, "caller": key[1], "agents": list(caller.agents[:100])},
            gives=None,
        )

    def _view(self, key: Key, everyone: Roster) -> CallerView:
        tenant, name = key
        caller = everyone.callers[key]
        kept = self._enrolment.members.enrolled.callers.get(key)
        origin = self._origin(key)
        return CallerView(
            name=name,
            tenant_id=tenant,
            kind=caller.kind,
            agents=caller.agents,
            origin=origin,
            rev=kept.rev if kept is not None and origin == "store" else None,
        )

    def _pair(self, request: ApiRequest, everyone: Roster, source: str, sink: str) -> SubscriptionView:
        key = request.member.tenant, source
        return SubscriptionView(
            source=source,
            source_kind=everyone.callers[key].kind,
            sink=sink,
            tenant_id=key[0],
            origin=self._origin(key),
        )

    def _origin(self, key: Key) -> Literal["settings", "store"]:
        return "settings" if key in self._enrolment.members.settled.callers else "store"


def _settings(draft: CallerDraft, tenant: str) -> CallerSettings:
    return CallerSettings(kind=draft.kind, agents=tuple(dict.fromkeys(draft.agents)), tenant=tenant)


def _route(
    method: str, path: str, permission: str, handle: Any, name: str, gives: Any, **more: Any
) -> ApiRoute:
    return ApiRoute(
        method=method,
        path=path,
        permission=permission,
        handle=handle,
        name=name,
        tag="Agents",
        gives=gives,
        **more,
    )
