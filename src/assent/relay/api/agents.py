"""`/relay/v1/registry/agents`: register the agents behind the relay, move them, remove them."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from assent.errors import CaseNotFound, RelayConflict
from assent.relay.api.paging import Page, PageQuery
from assent.relay.api.preconditions import check_match
from assent.relay.api.route import ApiRequest, ApiRoute, read_json, read_query
from assent.relay.enrolled import Enrolled, Held, record_of
from assent.relay.enrolment import Enrolling, Enrolment, check_room, check_sends
from assent.relay.registered import AGENT_ID, AgentSettings
from assent.relay.roster import Key, Roster

PATH = "/relay/v1/registry/agents"
NO_SUCH_AGENT = "There is no such agent."
IN_SETTINGS = "This is set in the server's settings file; change it there."
Origin = Annotated[
    Literal["settings", "store"],
    Meta(description="Whether it stands in the server's settings file, or was registered here."),
]
Url = Annotated[str, Meta(min_length=1, max_length=2000)]
Header = Annotated[str, Meta(min_length=1, max_length=100)]
Variable = Annotated[str, Meta(min_length=1, max_length=200)]
AgentId = Annotated[str, Meta(pattern=f"^{AGENT_ID.pattern}$(?!\\n)")]


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

    def settings(self, tenant: str) -> AgentSettings:
        """In the words of the settings."""
        return AgentSettings(
            url=self.url,
            card_url=self.card_url,
            credentials=dict(self.credentials),
            forward_headers=self.forward_headers,
            input_required=self.input_required,
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
    relay_url: Annotated[str, Meta(description="Where callers reach it; its card stands below.")]
    callers: Annotated[tuple[str, ...], Meta(description="Who may call it.")]
    origin: Origin
    rev: Annotated[int | None, Meta(description="How often it changed, for If-Match.")] = None


class AgentsApi:
    """What is answered there."""

    def __init__(self, enrolment: Enrolment, *, relay_url: str) -> None:
        self._enrolment = enrolment
        self._relay_url = relay_url

    def routes(self) -> tuple[ApiRoute, ...]:
        """Every address of it."""
        one, read, write = f"{PATH}/{{agentId}}", "AGENTS:READ", "AGENTS:WRITE"
        changed = (CaseNotFound, RelayConflict)
        return (
            _route("GET", PATH, read, self.listed, "listAgents", Page[AgentView], query=PageQuery),
            _route(
                "POST",
                PATH,
                write,
                self.create,
                "registerAgent",
                AgentView,
                takes=AgentRequest,
                status=201,
                errors=(RelayConflict,),
            ),
            _route("GET", one, read, self.one, "getAgent", AgentView, errors=(CaseNotFound,)),
            _route(
                "PUT", one, write, self.update, "changeAgent", AgentView, takes=AgentDraft, errors=changed
            ),
            _route("DELETE", one, write, self.remove, "removeAgent", None, status=204, errors=changed),
        )

    async def listed(self, request: ApiRequest) -> Page[AgentView]:
        """List the agents of a tenant."""
        asked = read_query(request, PageQuery)
        everyone = await self._enrolment.members.current()
        mine = sorted(key for key in everyone.agents if key[0] == request.member.tenant)
        page = asked.cut(mine)
        return asked.of([self._view(key, everyone) for key in page.content], page.total_elements)

    async def one(self, request: ApiRequest) -> AgentView:
        """Look at an agent."""
        everyone = await self._enrolment.members.current()
        key = request.member.tenant, request.path["agentId"]
        if key not in everyone.agents:
            raise CaseNotFound(NO_SUCH_AGENT)
        return self._view(key, everyone)

    async def create(self, request: ApiRequest) -> AgentView:
        """Register an agent; callers reach it as soon as they are subscribed to it."""
        draft, member = read_json(request, AgentRequest), request.member
        key, agent = (member.tenant, draft.agent_id), draft.settings(member.tenant)
        self._enrolment.check(draft.agent_id, agent)

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            if key in everyone.agents or key in enrolled.agents:
                raise RelayConflict("There is an agent of this id already.")
            check_room(everyone.agents, member.tenant)
            check_sends(member, agent)
            return self._saving(request, key, agent, rev=1, what="CREATED")

        await self._enrolment.change(member, plan)
        return self._view(key, await self._enrolment.members.current())

    async def update(self, request: ApiRequest) -> AgentView:
        """Put another registration in the place of this one; calls go by it within a second."""
        draft, member = read_json(request, AgentDraft), request.member
        key, agent = (member.tenant, request.path["agentId"]), draft.settings(member.tenant)
        self._enrolment.check(key[1], agent)

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            held = self._changeable(request, enrolled)
            check_sends(member, agent, held.value)
            return self._saving(request, key, agent, rev=held.rev + 1, what="UPDATED")

        await self._enrolment.change(member, plan)
        return self._view(key, await self._enrolment.members.current())

    async def remove(self, request: ApiRequest) -> None:
        """Remove an agent, and every subscription to it that was registered here."""
        member, now = request.member, self._enrolment.now()
        key = member.tenant, request.path["agentId"]

        def plan(enrolled: Enrolled, everyone: Roster) -> Enrolling[None]:
            held = self._changeable(request, enrolled)
            return Enrolling(
                save=tuple(
                    record_of("caller", place, _without(caller.value, key[1]), rev=caller.rev + 1, now=now)
                    for place, caller in enrolled.callers.items()
                    if place[0] == member.tenant and key[1] in caller.value.agents
                ),
                delete=(record_of("agent", key, held.value, rev=held.rev, now=now),),
                message=f"{member.name} removed the agent {key[1]}.",
                metadata={"operation": "DELETED", "agentId": key[1]},
                gives=None,
            )

        await self._enrolment.change(member, plan)

    def _changeable(self, request: ApiRequest, enrolled: Enrolled) -> Held[AgentSettings]:
        key = request.member.tenant, request.path["agentId"]
        if key in self._enrolment.members.settled.agents:
            raise RelayConflict(IN_SETTINGS)
        held = enrolled.agents.get(key)
        if held is None:
            raise CaseNotFound(NO_SUCH_AGENT)
        check_match(request, held.rev)
        return held

    def _saving(
        self, request: ApiRequest, key: Key, agent: AgentSettings, *, rev: int, what: str
    ) -> Enrolling[None]:
        return Enrolling(
            save=(record_of("agent", key, agent, rev=rev, now=self._enrolment.now()),),
            message=f"{request.member.name} registered the agent {key[1]}.",
            metadata={
                "operation": what,
                "agentId": key[1],
                "url": agent.url,
                "credentials": dict(agent.credentials),
            },
            gives=None,
        )

    def _view(self, key: Key, everyone: Roster) -> AgentView:
        tenant, agent_id = key
        agent = everyone.agents[key]
        kept = self._enrolment.members.enrolled.agents.get(key)
        settled = key in self._enrolment.members.settled.agents
        return AgentView(
            agent_id=agent_id,
            tenant_id=tenant,
            url=agent.url,
            card_url=agent.card_url,
            credentials=dict(agent.credentials),
            missing_variables=tuple(
                variable for variable in agent.credentials.values() if not everyone.environ.get(variable)
            ),
            forward_headers=agent.forward_headers,
            input_required=agent.input_required,
            relay_url=f"{self._relay_url}{agent_id}",
            callers=everyone.sources(key),
            origin="settings" if settled else "store",
            rev=kept.rev if kept is not None and not settled else None,
        )


def _without(caller: Any, agent_id: str) -> Any:
    return replace(caller, agents=tuple(one for one in caller.agents if one != agent_id))


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
