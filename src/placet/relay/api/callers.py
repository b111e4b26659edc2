"""`/relay/v1/registry/callers` and `…/subscriptions`: who may call which agents."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import CaseNotFound, RelayConflict
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.relay.api.access import RelayRequest
from placet.relay.api.agents import AgentId, agents
from placet.relay.api.registry_records import (
    BRINGS_KEYS,
    Origin,
    RegistryEntry,
    RegistryKind,
    RegistryRecords,
    Rev,
    view_entry,
)
from placet.relay.registry.registry_editor import RegistryEditor, check_agents_exist, check_principals
from placet.relay.registry.registry_snapshot import RegistrySnapshot
from placet.relay.settings import LONGEST_NAME, CallerSettings

PATH = "/relay/v1/registry/callers"
ONE = f"{PATH}/{{name}}"
SUBSCRIPTIONS = "/relay/v1/registry/subscriptions"
PAIR = f"{SUBSCRIPTIONS}/{{source}}/{{sink}}"
UNCHANGEABLE = (CaseNotFound, RelayConflict)
MOST_AGENTS = 10_000
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^/\x00-\x1f\x7f]+$(?!\n)")]
Kind = Annotated[Literal["agent", "user"], Meta(description="Whether it is an agent or a person.")]

CALLERS = RegistryKind[CallerSettings](
    kind="caller",
    taken="There is a caller of this name already.",
    deed="registered",
    called="caller",
    details=lambda caller: {"agents": list(caller.agents[:100])},
    there=lambda registry: registry.callers,
    enrolled=lambda enrolled: enrolled.callers,
)


class CallerDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A caller as somebody asks for it."""

    kind: Kind = "agent"
    agents: Annotated[
        tuple[AgentId, ...], Meta(max_length=MOST_AGENTS, description="The agents it may call.")
    ] = ()

    def settings(self, tenant: str) -> CallerSettings:
        """In the words of the settings."""
        return CallerSettings(kind=self.kind, agents=tuple(dict.fromkeys(self.agents)), tenant=tenant)


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
    rev: Rev = None


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


class CallersApi(HttpApi):
    """Handles these routes."""

    def __init__(self, editor: RegistryEditor) -> None:
        self._editor = editor
        self._records = RegistryRecords(editor, CALLERS)

    @agents.get(PATH, "listCallers", query=PageQuery, reply=Page[CallerView])
    async def list_callers(self, request: RelayRequest) -> Page[CallerView]:
        """List the callers of a tenant."""
        return await self._records.page(request, partial(view_entry, CallerView))

    @agents.create(
        PATH,
        "registerCaller",
        description=BRINGS_KEYS,
        body=CallerRequest,
        reply=CallerView,
        errors=(RelayConflict,),
    )
    async def create(self, request: RelayRequest) -> CallerView:
        """Register a caller by the name of its API keys, and subscribe it to agents."""
        draft, member = request.read_body(CallerRequest), request.member
        caller = draft.settings(member.tenant)

        def check(everyone: RegistrySnapshot) -> None:
            check_principals(member, everyone, draft.name)
            check_agents_exist(caller, member.tenant, everyone)

        return view_entry(CallerView, await self._records.create(request, draft.name, caller, check))

    @agents.get(ONE, "getCaller", reply=CallerView, errors=(CaseNotFound,))
    async def one(self, request: RelayRequest) -> CallerView:
        """Look at a caller."""
        return view_entry(CallerView, await self._records.one(request, request.path["name"]))

    @agents.put(ONE, "changeCaller", body=CallerDraft, reply=CallerView, errors=UNCHANGEABLE)
    async def update(self, request: RelayRequest) -> CallerView:
        """Say anew which agents a caller may call."""
        tenant = request.member.tenant
        caller = request.read_body(CallerDraft).settings(tenant)
        made = await self._records.replace(
            request,
            request.path["name"],
            caller,
            lambda everyone, _: check_agents_exist(caller, tenant, everyone),
        )
        return view_entry(CallerView, made)

    @agents.delete(ONE, "removeCaller", errors=UNCHANGEABLE)
    async def remove(self, request: RelayRequest) -> None:
        """Remove a caller with its subscriptions."""
        await self._records.remove(request, request.path["name"])

    @agents.get(SUBSCRIPTIONS, "listSubscriptions", query=SubscriptionQuery, reply=Page[SubscriptionView])
    async def subscriptions(self, request: RelayRequest) -> Page[SubscriptionView]:
        """List which caller may call which agent."""
        asked = request.read_query(SubscriptionQuery)
        pairs = [
            (caller, sink)
            for caller in await self._records.every(request)
            for sink in sorted(caller.value.agents)
            if asked.source in (None, caller.name) and asked.sink in (None, sink)
        ]
        return asked.cut_page(pairs).map(lambda pair: _subscription(*pair))

    @agents.put(PAIR, "subscribe", reply=SubscriptionView, errors=UNCHANGEABLE)
    async def subscribe(self, request: RelayRequest) -> SubscriptionView:
        """Let a caller call an agent; again changes nothing."""
        sink = request.path["sink"]
        caller = await self._resubscribe(request, lambda known: known if sink in known else (*known, sink))
        return _subscription(caller, sink)

    @agents.delete(PAIR, "unsubscribe", errors=UNCHANGEABLE)
    async def unsubscribe(self, request: RelayRequest) -> None:
        """Let a caller no longer call an agent."""
        sink = request.path["sink"]

        def without(known: tuple[str, ...]) -> tuple[str, ...]:
            if sink not in known:
                raise CaseNotFound("There is no such subscription.")
            return tuple(one for one in known if one != sink)

        await self._resubscribe(request, without)

    async def _resubscribe(
        self, request: RelayRequest, change: Callable[[tuple[str, ...]], tuple[str, ...]]
    ) -> RegistryEntry[CallerSettings]:
        name = request.path["source"]

        def plan(everyone: RegistrySnapshot, before: CallerSettings) -> CallerSettings:
            caller = replace(before, agents=change(before.agents))
            self._editor.check(name, caller)
            check_agents_exist(caller, request.member.tenant, everyone)
            return caller

        return await self._records.amend(request, name, plan)


def _subscription(caller: RegistryEntry[CallerSettings], sink: str) -> SubscriptionView:
    return SubscriptionView(
        source=caller.name,
        source_kind=caller.value.kind,
        sink=sink,
        tenant_id=caller.tenant,
        origin=caller.origin,
    )
