"""`/relay/v1/registry/agents`: register the agents behind the relay, move them, remove them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import CaseNotFound, RelayConflict
from placet.http.paging import Page, PageQuery
from placet.http.route import HttpApi
from placet.ports.config_store import ConfigRecord
from placet.relay.api.access import RelayRequest, RelayRouteGroup
from placet.relay.api.registry_records import Origin, RegistryEntry, RegistryKind, RegistryRecords, Rev
from placet.relay.registry.records import StoredRegistry, build_record
from placet.relay.registry.registry_editor import RegistryEditor, check_credential_change
from placet.relay.settings import AGENT_ID, AgentSettings, CallerSettings

PATH = "/relay/v1/registry/agents"
ONE = f"{PATH}/{{agentId}}"
Url = Annotated[str, Meta(min_length=1, max_length=2000)]
Header = Annotated[str, Meta(min_length=1, max_length=100)]
Variable = Annotated[str, Meta(min_length=1, max_length=200)]
AgentId = Annotated[str, Meta(pattern=f"^{AGENT_ID.pattern}$(?!\\n)")]

agents = RelayRouteGroup(
    tag="Agents",
    description="The agents behind the relay, who may call them, and which of the two belong together.",
    read="AGENTS:READ",
    write="AGENTS:WRITE",
)
AGENTS = RegistryKind[AgentSettings](
    kind="agent",
    taken="There is an agent of this id already.",
    deed="registered",
    called="agentId",
    details=lambda agent: {"url": agent.url, "credentials": dict(agent.credentials)},
    there=lambda registry: registry.agents,
    enrolled=lambda enrolled: enrolled.agents,
)


class AgentDraft(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An agent as somebody asks for it."""

    url: Annotated[Url, Meta(description="The agent's address, https; its card stands below it.")]
    card_url: Annotated[Url | None, Meta(description="Where the card stands instead.")] = None
    credentials: Annotated[
        dict[Header, Variable],
        Meta(
            max_length=20,
            description="Headers for the agent: by name, the environment variable of the server that holds "
            "the value. Only an administrator sets them, or moves an agent that has some.",
        ),
    ] = {}
    forward_headers: Annotated[
        tuple[Header, ...],
        Meta(max_length=50, description="Headers of callers that may pass besides those of A2A."),
    ] = ()
    input_required: Annotated[
        Literal["hold", "pass"],
        Meta(description="Whether a person is asked when the agent asks for input, or its caller."),
    ] = "hold"
    unreadable_files: Annotated[
        Literal["hold", "pass"],
        Meta(description="Whether a person is asked about files that no policy can read, or they pass."),
    ] = "hold"

    def settings(self, tenant: str) -> AgentSettings:
        """In the words of the settings."""
        return AgentSettings(
            url=self.url,
            card_url=self.card_url,
            credentials=dict(self.credentials),
            forward_headers=self.forward_headers,
            input_required=self.input_required,
            unreadable_files=self.unreadable_files,
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
        Meta(description="Those that the server's environment lacks; without them the agent is not called."),
    ]
    forward_headers: tuple[str, ...]
    input_required: Literal["hold", "pass"]
    unreadable_files: Literal["hold", "pass"]
    relay_url: Annotated[str, Meta(description="Where callers reach it; its card stands below.")]
    callers: Annotated[tuple[str, ...], Meta(description="Who may call it.")]
    origin: Origin
    rev: Rev = None


class AgentsApi(HttpApi):
    """Handles these routes."""

    def __init__(self, editor: RegistryEditor, *, relay_url: str) -> None:
        self._editor = editor
        self._records = RegistryRecords(editor, AGENTS)
        self._relay_url = relay_url

    @agents.get(PATH, "listAgents", query=PageQuery, reply=Page[AgentView])
    async def list_agents(self, request: RelayRequest) -> Page[AgentView]:
        """List the agents of a tenant."""
        return await self._records.page(request, self._view)

    @agents.create(PATH, "registerAgent", body=AgentRequest, reply=AgentView, errors=(RelayConflict,))
    async def create(self, request: RelayRequest) -> AgentView:
        """Register an agent; callers reach it as soon as they are subscribed to it."""
        draft, member = request.read_body(AgentRequest), request.member
        agent = draft.settings(member.tenant)
        made = await self._records.create(
            request, draft.agent_id, agent, lambda _: check_credential_change(member, agent)
        )
        return self._view(made)

    @agents.get(ONE, "getAgent", reply=AgentView, errors=(CaseNotFound,))
    async def one(self, request: RelayRequest) -> AgentView:
        """Look at an agent."""
        return self._view(await self._records.one(request, request.path["agentId"]))

    @agents.put(ONE, "changeAgent", body=AgentDraft, reply=AgentView, errors=(CaseNotFound, RelayConflict))
    async def update(self, request: RelayRequest) -> AgentView:
        """Put another registration in the place of this one; calls go by it within a second."""
        member = request.member
        agent = request.read_body(AgentDraft).settings(member.tenant)
        made = await self._records.replace(
            request,
            request.path["agentId"],
            agent,
            lambda _, before: check_credential_change(member, agent, before),
        )
        return self._view(made)

    @agents.delete(ONE, "removeAgent", errors=(CaseNotFound, RelayConflict))
    async def remove(self, request: RelayRequest) -> None:
        """Remove an agent, and every subscription to it that was registered here."""
        tenant, agent_id = request.member.tenant, request.path["agentId"]
        await self._records.remove(
            request, agent_id, lambda enrolled: self._remove_subscriptions(enrolled, tenant, agent_id)
        )

    def _remove_subscriptions(
        self, enrolled: StoredRegistry, tenant: str, agent_id: str
    ) -> tuple[ConfigRecord, ...]:
        """Everyone who may call an agent, as they are without it."""
        now = self._editor.now()
        return tuple(
            build_record("caller", key, _without(caller.value, agent_id), rev=caller.rev + 1, now=now)
            for key, caller in enrolled.callers.items()
            if key[0] == tenant and agent_id in caller.value.agents
        )

    def _view(self, entry: RegistryEntry[AgentSettings]) -> AgentView:
        agent, everyone = entry.value, entry.everyone
        return AgentView(
            agent_id=entry.name,
            tenant_id=entry.tenant,
            url=agent.url,
            card_url=agent.card_url,
            credentials=dict(agent.credentials),
            missing_variables=tuple(
                variable for variable in agent.credentials.values() if not everyone.environ.get(variable)
            ),
            forward_headers=agent.forward_headers,
            input_required=agent.input_required,
            unreadable_files=agent.unreadable_files,
            relay_url=f"{self._relay_url}{entry.name}",
            callers=everyone.sources((entry.tenant, entry.name)),
            origin=entry.origin,
            rev=entry.rev,
        )


def _without(caller: CallerSettings, agent_id: str) -> CallerSettings:
    return replace(caller, agents=tuple(one for one in caller.agents if one != agent_id))
