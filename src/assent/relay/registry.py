"""Who may call whom: agents (sinks), callers (sources), and the subscriptions that join them."""

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

from msgspec import Struct, field

from assent.errors import CaseNotFound

CallerKind = Literal["agent", "user"]
NO_SUCH_AGENT = "There is no such agent for you."
DEFAULT_TENANT = "default"


class Agent(Struct, frozen=True, kw_only=True):
    """An agent behind the relay. Its credentials are the relay's: no caller sees them or brings them."""

    id: str
    url: str
    """The agent's address; its card stands below it."""
    card_url: str | None = None
    """Where the card stands instead."""
    credentials: Mapping[str, str] = field(default_factory=dict)
    """Headers that go to the agent with every request."""
    forward_headers: tuple[str, ...] = ()
    """What else of a caller's headers may pass, by lower-case name."""

    def __repr__(self) -> str:
        return f"Agent(id={self.id!r}, url={self.url!r})"


class Caller(Struct, frozen=True, kw_only=True):
    """Someone who calls agents: the principal behind an API key."""

    name: str
    kind: CallerKind = "agent"


class Subscription(Struct, frozen=True, kw_only=True):
    """A caller (source) that may call an agent (sink)."""

    source: Caller
    sink: Agent
    tenant: str = DEFAULT_TENANT
    """Whose agent, caller, policies and records these are; nothing passes from one tenant to another."""


class Registry(Protocol):
    """Knows agents, callers and subscriptions."""

    async def subscription(self, caller: str, agent: str) -> Subscription:
        """The subscription of this caller to this agent; raises CaseNotFound for anything unknown."""
        ...

    async def agent(self, agent: str) -> Agent:
        """The agent of this id; raises CaseNotFound."""
        ...


class MemoryRegistry:
    """A `Registry` of what the settings say."""

    def __init__(
        self, *, agents: Iterable[Agent], callers: Iterable[Caller], subscriptions: Iterable[tuple[str, str]]
    ) -> None:
        self._agents = {agent.id: agent for agent in agents}
        known = {caller.name: caller for caller in callers}
        self._subscriptions = {
            (source, sink): Subscription(source=known[source], sink=self._agents[sink])
            for source, sink in subscriptions
        }

    async def subscription(self, caller: str, agent: str) -> Subscription:
        """See `Registry`. Whether it is the caller, the agent or the pair that is unknown stays untold."""
        found = self._subscriptions.get((caller, agent))
        if found is None:
            raise CaseNotFound(NO_SUCH_AGENT)
        return found

    async def agent(self, agent: str) -> Agent:
        """See `Registry`."""
        if agent not in self._agents:
            raise CaseNotFound(NO_SUCH_AGENT)
        return self._agents[agent]
