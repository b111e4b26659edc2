"""`/relay/v1/registry/agents`: register, change and remove the agents behind the relay."""

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import CaseNotFound, RelayConflict
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.ports.config_store import ConfigRecord
from placet.relay.api.access import RelayRequest, RelayRouteGroup
from placet.relay.api.registry_records import RecordOrigin, RegistryEntry, RegistryKind, RegistryRecords, Rev
from placet.relay.registry import RegistryEditor, StoredRegistry, build_record, check_credential_change
from placet.relay.route_addresses import OPERATIONS
from placet.relay.settings import AGENT_ID, AgentSettings, CallerSettings
from placet.relay.tenants import StreamingMode

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
        return AgentSettings(
            url=self.url,
            card_url=self.card_url,
            credentials=dict(self.credentials),
            forward_headers=self.forward_headers,
            input_required=self.input_required,
            unreadable_files=self.unreadable_files,
            streaming=self.streaming,
            tenant=tenant,
        )


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
        return await self._records.list_page(request, self._view)

    @agents.declare(
        OPERATIONS["registerAgent"], created=True, body=AgentRequest, reply=AgentView, errors=(RelayConflict,)
    )
    async def create(self, request: RelayRequest) -> AgentView:
        """Register an agent. Callers can call it when they are subscribed to it."""
        draft, member = request.read_body(AgentRequest), request.member
        agent = draft.settings(member.tenant)
        entry = await self._records.create(
            request, draft.agent_id, agent, lambda _: check_credential_change(member, agent)
        )
        return self._view(entry)

    @agents.declare(OPERATIONS["getAgent"], reply=AgentView, errors=(CaseNotFound,))
    async def get(self, request: RelayRequest) -> AgentView:
        """Get an agent."""
        return self._view(await self._records.get(request, request.path["agentId"]))

    @agents.declare(
        OPERATIONS["changeAgent"], body=AgentDraft, reply=AgentView, errors=(CaseNotFound, RelayConflict)
    )
    async def update(self, request: RelayRequest) -> AgentView:
        """Replace the settings of an agent. They apply to calls within a second."""
        member = request.member
        agent = request.read_body(AgentDraft).settings(member.tenant)
        entry = await self._records.replace(
            request,
            request.path["agentId"],
            agent,
            lambda _, before: check_credential_change(member, agent, before),
        )
        return self._view(entry)

    @agents.declare(OPERATIONS["removeAgent"], errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Remove an agent and the subscriptions to it, except those of the settings."""
        tenant, agent_id = request.member.tenant, request.path["agentId"]
        await self._records.remove(
            request, agent_id, lambda stored: self._remove_subscriptions(stored, tenant, agent_id)
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

    def _view(self, entry: RegistryEntry[AgentSettings]) -> AgentView:
        agent, registry = entry.value, entry.snapshot
        return AgentView(
            agent_id=entry.name,
            tenant_id=entry.tenant,
            url=agent.url,
            card_url=agent.card_url,
            credentials=dict(agent.credentials),
            missing_variables=tuple(
                variable for variable in agent.credentials.values() if not registry.environ.get(variable)
            ),
            forward_headers=agent.forward_headers,
            input_required=agent.input_required,
            unreadable_files=agent.unreadable_files,
            streaming=agent.streaming,
            relay_url=f"{self._relay_url}{entry.name}",
            callers=registry.list_callers((entry.tenant, entry.name)),
            origin=entry.origin,
            rev=entry.rev,
        )


def _without_agent(caller: CallerSettings, agent_id: str) -> CallerSettings:
    return replace(caller, agents=tuple(agent for agent in caller.agents if agent != agent_id))
