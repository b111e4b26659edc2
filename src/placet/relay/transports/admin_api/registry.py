"""`/relay/v1/registry` and `/relay/v1/groups`: agents, callers, subscriptions and groups of members."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import CaseNotFound, RelayConflict
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.ports.config_store import ConfigRecord
from placet.protocol.conversion import anchor_pattern
from placet.relay.registry import (
    RegistryEditor,
    RegistrySnapshot,
    StoredRegistry,
    build_record,
    check_agents_exist,
    check_credential_change,
    check_principals,
)
from placet.relay.route_addresses import OPERATIONS
from placet.relay.settings import AGENT_ID, MAX_NAME_LENGTH, AgentSettings, CallerSettings, GroupSettings
from placet.relay.tenants import PERMISSIONS, StreamingMode
from placet.relay.transports.admin_api.access import RelayRequest, RelayRouteGroup
from placet.relay.transports.admin_api.records import (
    KEY_RULE,
    RecordOrigin,
    RegistryEntry,
    RegistryKind,
    RegistryRecords,
    Rev,
    view_entry,
)
from placet.text.characters import CONTROLS

Url = Annotated[str, Meta(min_length=1, max_length=2000)]
HeaderName = Annotated[str, Meta(min_length=1, max_length=100)]
Variable = Annotated[str, Meta(min_length=1, max_length=200)]
AgentId = Annotated[str, Meta(pattern=f"^{AGENT_ID.pattern}$(?!\\n)")]

agents = RelayRouteGroup(
    tag="Agents",
    description="The agents behind the relay, their callers, and which callers may call which agents.",
    read="AGENTS:READ",
    write="AGENTS:WRITE",
)
AGENTS = RegistryKind[AgentSettings](
    kind="agent",
    conflict_message="An agent with this id already exists. Choose another id.",
    verb="registered",
    name_field="agentId",
    get_audit_details=lambda agent: {"url": agent.url, "credentials": dict(agent.credentials)},
    get_all=lambda registry: registry.agents,
    get_stored=lambda stored: stored.agents,
)

CHANGE_ERRORS = (CaseNotFound, RelayConflict)
MAX_AGENTS = 10_000
_CONTROLS = f"\t\n{CONTROLS}".encode("unicode_escape").decode()
MAX_MEMBERS = 10_000


class AgentDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of an agent."""

    url: Annotated[Url, Meta(description="The agent's https URL. Its card is below this URL.")]
    card_url: Annotated[Url | None, Meta(description="The card's URL, if it is not below `url`.")] = None
    credentials: Annotated[
        dict[HeaderName, Variable],
        Meta(
            max_length=20,
            description="Headers for the agent: the header's name and the server's environment variable that "
            "holds its value. Only an administrator may set them, or change the URL of an agent with "
            "credentials.",
        ),
    ] = {}
    forward_headers: Annotated[
        tuple[HeaderName, ...],
        Meta(max_length=50, description="Callers' headers to forward, in addition to those of A2A."),
    ] = ()
    input_required: Annotated[
        Literal["hold", "pass"],
        Meta(
            description="What happens when the agent asks for input: `hold` asks a reviewer, `pass` asks "
            "the caller."
        ),
    ] = "hold"
    unreadable_files: Annotated[
        Literal["hold", "pass"],
        Meta(description="What happens to files that are not text: `hold` asks a reviewer, `pass` forwards."),
    ] = "hold"
    streaming: Annotated[
        StreamingMode | None,
        Meta(
            description="How policies inspect the agent's streams, unless a policy sets a stricter mode: "
            "`window` sends text as soon as no match can begin in it, `whole` sends it after the end of the "
            "stream, `observe` sends it at once and reports matches of `MASK` afterwards."
        ),
    ] = None

    def settings(self, tenant: str) -> AgentSettings:
        """Return the settings of the agent in a tenant."""
        fields = {name: getattr(self, name) for name in AgentDraft.__struct_fields__}
        return AgentSettings(**fields, tenant=tenant)


class AgentRequest(AgentDraft, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A new agent."""

    agent_id: AgentId


class AgentView(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent behind the relay."""

    agent_id: str
    tenant_id: str
    url: str
    card_url: str | None
    credentials: dict[str, str]
    missing_variables: Annotated[
        tuple[str, ...],
        Meta(description="Variables that are not set on the server. The agent is not called without them."),
    ]
    forward_headers: tuple[str, ...]
    input_required: Literal["hold", "pass"]
    unreadable_files: Literal["hold", "pass"]
    streaming: StreamingMode | None
    relay_url: Annotated[str, Meta(description="The agent's URL for callers. Its card is below this URL.")]
    callers: Annotated[tuple[str, ...], Meta(description="The callers that may call it.")]
    origin: RecordOrigin
    rev: Rev = None


class AgentsApi(HttpApi):
    """Handles the routes of registered agents."""

    def __init__(self, editor: RegistryEditor, *, relay_url: str) -> None:
        self._editor = editor
        self._records = RegistryRecords(editor, AGENTS)
        self._relay_url = relay_url

    @agents.declare(OPERATIONS["listAgents"], query=PageQuery, reply=Page[AgentView])
    async def list_agents(self, request: RelayRequest) -> Page[AgentView]:
        """List the agents of a tenant."""
        return await self._records.list_page(request, self._build_view)

    @agents.declare(
        OPERATIONS["registerAgent"], created=True, body=AgentRequest, reply=AgentView, errors=(RelayConflict,)
    )
    async def create(self, request: RelayRequest) -> AgentView:
        """Register an agent. Callers can call it when they are subscribed to it."""
        draft, member = request.read_body(AgentRequest), request.member
        agent = draft.settings(member.tenant)
        entry = await self._records.create_entry(
            request, draft.agent_id, agent, lambda _: check_credential_change(member, agent)
        )
        return self._build_view(entry)

    @agents.declare(OPERATIONS["getAgent"], reply=AgentView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> AgentView:
        """Get an agent."""
        return self._build_view(await self._records.get_entry(request, request.path["agentId"]))

    @agents.declare(
        OPERATIONS["changeAgent"], body=AgentDraft, reply=AgentView, errors=(CaseNotFound, RelayConflict)
    )
    async def update(self, request: RelayRequest) -> AgentView:
        """Replace the settings of an agent. They apply to calls within a second."""
        member = request.member
        agent = request.read_body(AgentDraft).settings(member.tenant)

        def change(_: RegistrySnapshot, before: AgentSettings) -> AgentSettings:
            check_credential_change(member, agent, before)
            return agent

        return self._build_view(await self._records.update_entry(request, request.path["agentId"], change))

    @agents.declare(OPERATIONS["removeAgent"], errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Remove an agent and the subscriptions to it, except those of the settings."""
        tenant, agent_id = request.member.tenant, request.path["agentId"]
        await self._records.remove(
            request, agent_id, lambda present: self._remove_subscriptions(present.stored, tenant, agent_id)
        )

    def _remove_subscriptions(
        self, stored: StoredRegistry, tenant: str, agent_id: str
    ) -> tuple[ConfigRecord, ...]:
        """Return the records of all callers of an agent, without their subscription to it."""
        now = self._editor.now()
        return tuple(
            build_record("caller", key, _without_agent(caller.value, agent_id), rev=caller.rev + 1, now=now)
            for key, caller in stored.callers.items()
            if key[0] == tenant and agent_id in caller.value.agents
        )

    def _build_view(self, entry: RegistryEntry[AgentSettings]) -> AgentView:
        registry = entry.snapshot
        return view_entry(
            AgentView,
            entry,
            agent_id=entry.name,
            missing_variables=tuple(
                variable
                for variable in entry.value.credentials.values()
                if not registry.environ.get(variable)
            ),
            relay_url=f"{self._relay_url}{entry.name}",
            callers=registry.list_callers((entry.tenant, entry.name)),
        )


def _without_agent(caller: CallerSettings, agent_id: str) -> CallerSettings:
    return replace(caller, agents=tuple(agent for agent in caller.agents if agent != agent_id))


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

        return view_entry(CallerView, await self._records.create_entry(request, draft.name, caller, check))

    @agents.declare(OPERATIONS["getCaller"], reply=CallerView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> CallerView:
        """Get a caller."""
        return view_entry(CallerView, await self._records.get_entry(request, request.path["name"]))

    @agents.declare(OPERATIONS["changeCaller"], body=CallerDraft, reply=CallerView, errors=CHANGE_ERRORS)
    async def update(self, request: RelayRequest) -> CallerView:
        """Replace the settings of a caller."""
        tenant = request.member.tenant
        caller = request.read_body(CallerDraft).settings(tenant)

        def change(registry: RegistrySnapshot, _: CallerSettings) -> CallerSettings:
            check_agents_exist(caller, tenant, registry)
            return caller

        entry = await self._records.update_entry(request, request.path["name"], change)
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
        return query.cut_page(pairs).map(lambda pair: _build_subscription_view(*pair))

    @agents.declare(OPERATIONS["subscribe"], reply=SubscriptionView, errors=CHANGE_ERRORS)
    async def subscribe(self, request: RelayRequest) -> SubscriptionView:
        """Subscribe a caller to an agent. Repeating the request changes nothing."""
        sink = request.path["sink"]
        caller = await self._change_agents(
            request, lambda agents: agents if sink in agents else (*agents, sink)
        )
        return _build_subscription_view(caller, sink)

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
        def change_caller(registry: RegistrySnapshot, before: CallerSettings) -> CallerSettings:
            caller = replace(before, agents=change(before.agents))
            check_agents_exist(caller, request.member.tenant, registry)
            return caller

        return await self._records.update_entry(request, request.path["source"], change_caller)


def _build_subscription_view(caller: RegistryEntry[CallerSettings], sink: str) -> SubscriptionView:
    return SubscriptionView(
        source=caller.name,
        source_kind=caller.value.kind,
        sink=sink,
        tenant_id=caller.tenant,
        origin=caller.origin,
    )


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
        entry = await self._records.create_entry(
            request, draft.name, group, lambda registry: check_principals(member, registry, *group.members)
        )
        return view_entry(MemberGroupView, entry)

    @groups.declare(OPERATIONS["getGroup"], reply=MemberGroupView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> MemberGroupView:
        """Get a group."""
        return view_entry(MemberGroupView, await self._records.get_entry(request, request.path["name"]))

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

        def change(registry: RegistrySnapshot, before: GroupSettings) -> GroupSettings:
            added = [name for name in group.members if name not in before.members]
            check_principals(member, registry, *added)
            return group

        entry = await self._records.update_entry(request, request.path["name"], change)
        return view_entry(MemberGroupView, entry)

    @groups.declare(OPERATIONS["removeGroup"], errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Remove a group. Its members lose the permissions that no other group gives them."""
        await self._records.remove(request, request.path["name"])
