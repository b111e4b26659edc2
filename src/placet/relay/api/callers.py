"""`/relay/v1/registry/callers` and `…/subscriptions`: register callers and subscribe them to agents."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import CaseNotFound, RelayConflict
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.protocol.conversion import anchor_pattern
from placet.relay.api.access import RelayRequest
from placet.relay.api.agents import AgentId, agents
from placet.relay.api.registry_records import (
    KEY_RULE,
    RecordOrigin,
    RegistryEntry,
    RegistryKind,
    RegistryRecords,
    Rev,
    view_entry,
)
from placet.relay.registry import RegistryEditor, RegistrySnapshot, check_agents_exist, check_principals
from placet.relay.route_addresses import OPERATIONS
from placet.relay.settings import MAX_NAME_LENGTH, CallerSettings
from placet.text.characters import CONTROLS

CHANGE_ERRORS = (CaseNotFound, RelayConflict)
MAX_AGENTS = 10_000
_CONTROLS = f"\t\n{CONTROLS}".encode("unicode_escape").decode()
CallerName = Annotated[
    str, Meta(min_length=1, max_length=MAX_NAME_LENGTH, pattern=anchor_pattern(f"[^/{_CONTROLS}]+"))
]
Kind = Annotated[Literal["agent", "user"], Meta(description="Whether the caller is an agent or a person.")]

CALLERS = RegistryKind[CallerSettings](
    kind="caller",
    conflict_message="A caller with this name already exists. Choose another name.",
    verb="registered",
    name_field="caller",
    get_audit_details=lambda caller: {"agents": list(caller.agents[:100])},
    get_all=lambda registry: registry.callers,
    get_stored=lambda stored: stored.callers,
)


class CallerDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of a caller."""

    kind: Kind = "agent"
    agents: Annotated[
        tuple[AgentId, ...], Meta(max_length=MAX_AGENTS, description="The agents it may call.")
    ] = ()

    def settings(self, tenant: str) -> CallerSettings:
        """Return the settings of the caller in a tenant."""
        return CallerSettings(kind=self.kind, agents=tuple(dict.fromkeys(self.agents)), tenant=tenant)


class CallerRequest(CallerDraft, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A new caller."""

    name: Annotated[CallerName, Meta(description="The name of its API keys.")]


class CallerView(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent or a person that may call agents."""

    name: str
    tenant_id: str
    kind: Kind
    agents: tuple[str, ...]
    origin: RecordOrigin
    rev: Rev = None


class SubscriptionView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A subscription: a caller that may call an agent."""

    source: str
    source_kind: Kind
    sink: str
    tenant_id: str
    origin: RecordOrigin


class SubscriptionQuery(PageQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The filter and page of a list of subscriptions."""

    source: Annotated[str | None, Meta(description="Only subscriptions of this caller.")] = None
    sink: Annotated[str | None, Meta(description="Only subscriptions to this agent.")] = None


class CallersApi(HttpApi):
    """Handles the routes of callers and subscriptions."""

    def __init__(self, editor: RegistryEditor) -> None:
        self._editor = editor
        self._records = RegistryRecords(editor, CALLERS)

    @agents.declare(OPERATIONS["listCallers"], query=PageQuery, reply=Page[CallerView])
    async def list_callers(self, request: RelayRequest) -> Page[CallerView]:
        """List the callers of a tenant."""
        return await self._records.list_page(request, partial(view_entry, CallerView))

    @agents.declare(
        OPERATIONS["registerCaller"],
        created=True,
        description=KEY_RULE,
        body=CallerRequest,
        reply=CallerView,
        errors=(RelayConflict,),
    )
    async def create(self, request: RelayRequest) -> CallerView:
        """Register a caller with the name of its API keys, and subscribe it to agents."""
        draft, member = request.read_body(CallerRequest), request.member
        caller = draft.settings(member.tenant)

        def check(registry: RegistrySnapshot) -> None:
            check_principals(member, registry, draft.name)
            check_agents_exist(caller, member.tenant, registry)

        return view_entry(CallerView, await self._records.create(request, draft.name, caller, check))

    @agents.declare(OPERATIONS["getCaller"], reply=CallerView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> CallerView:
        """Get a caller."""
        return view_entry(CallerView, await self._records.get(request, request.path["name"]))

    @agents.declare(OPERATIONS["changeCaller"], body=CallerDraft, reply=CallerView, errors=CHANGE_ERRORS)
    async def update(self, request: RelayRequest) -> CallerView:
        """Replace the settings of a caller."""
        tenant = request.member.tenant
        caller = request.read_body(CallerDraft).settings(tenant)
        entry = await self._records.replace(
            request,
            request.path["name"],
            caller,
            lambda registry, _: check_agents_exist(caller, tenant, registry),
        )
        return view_entry(CallerView, entry)

    @agents.declare(OPERATIONS["removeCaller"], errors=CHANGE_ERRORS)
    async def remove(self, request: RelayRequest) -> None:
        """Remove a caller and its subscriptions."""
        await self._records.remove(request, request.path["name"])

    @agents.declare(OPERATIONS["listSubscriptions"], query=SubscriptionQuery, reply=Page[SubscriptionView])
    async def subscriptions(self, request: RelayRequest) -> Page[SubscriptionView]:
        """List subscriptions."""
        query = request.read_query(SubscriptionQuery)
        pairs = [
            (caller, sink)
            for caller in await self._records.list_all(request)
            for sink in sorted(caller.value.agents)
            if query.source in (None, caller.name) and query.sink in (None, sink)
        ]
        return query.cut_page(pairs).map(lambda pair: _view_subscription(*pair))

    @agents.declare(OPERATIONS["subscribe"], reply=SubscriptionView, errors=CHANGE_ERRORS)
    async def subscribe(self, request: RelayRequest) -> SubscriptionView:
        """Subscribe a caller to an agent. Repeating the request changes nothing."""
        sink = request.path["sink"]
        caller = await self._change_agents(
            request, lambda agents: agents if sink in agents else (*agents, sink)
        )
        return _view_subscription(caller, sink)

    @agents.declare(OPERATIONS["unsubscribe"], errors=CHANGE_ERRORS)
    async def unsubscribe(self, request: RelayRequest) -> None:
        """Remove the subscription of a caller to an agent."""
        sink = request.path["sink"]

        def without_sink(agents: tuple[str, ...]) -> tuple[str, ...]:
            if sink not in agents:
                raise CaseNotFound("Subscription not found.")
            return tuple(agent for agent in agents if agent != sink)

        await self._change_agents(request, without_sink)

    async def _change_agents(
        self, request: RelayRequest, change: Callable[[tuple[str, ...]], tuple[str, ...]]
    ) -> RegistryEntry[CallerSettings]:
        name = request.path["source"]

        def plan(registry: RegistrySnapshot, before: CallerSettings) -> CallerSettings:
            caller = replace(before, agents=change(before.agents))
            self._editor.check(name, caller)
            check_agents_exist(caller, request.member.tenant, registry)
            return caller

        return await self._records.update(request, name, plan)


def _view_subscription(caller: RegistryEntry[CallerSettings], sink: str) -> SubscriptionView:
    return SubscriptionView(
        source=caller.name,
        source_kind=caller.value.kind,
        sink=sink,
        tenant_id=caller.tenant,
        origin=caller.origin,
    )
