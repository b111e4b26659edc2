"""Agents (sinks), callers (sources), and the subscriptions that connect them."""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct, field

CallerKind = Literal["agent", "user"]
AGENT_NOT_FOUND = "Agent not found."
DEFAULT_TENANT = "default"


class RegisteredAgent(Struct, frozen=True, kw_only=True):
    """An agent behind the relay. The relay adds the agent's credentials; callers never see them."""

    id: str
    tenant: str = DEFAULT_TENANT
    """The tenant that owns the agent. Ids are unique only within a tenant."""
    url: str
    """The agent's base URL; its card is below it."""
    card_url: str | None = None
    """The URL of the card, if it is not below `url`."""
    credentials: Mapping[str, str] = field(default_factory=dict)
    """Headers that are sent to the agent with every request."""
    forward_headers: tuple[str, ...] = ()
    """Lower-case names of callers' headers that are forwarded besides those of A2A."""
    input_required: Literal["hold", "pass"] = "hold"
    """When the agent asks for input: `hold` asks a person, `pass` asks the caller."""
    unreadable_files: Literal["hold", "pass"] = "hold"
    """Files that no policy can read: `hold` asks a person, `pass` forwards them unchecked."""

    @property
    def key(self) -> tuple[str, str]:
        """Return tenant and id, which identify the agent."""
        return self.tenant, self.id

    def __repr__(self) -> str:
        return f"Agent(id={self.id!r}, tenant={self.tenant!r}, url={self.url!r})"


class RegisteredCaller(Struct, frozen=True, kw_only=True):
    """A principal that calls agents, by the name of its API key."""

    name: str
    kind: CallerKind = "agent"


class Subscription(Struct, frozen=True, kw_only=True):
    """A caller (source) that may call an agent (sink)."""

    source: RegisteredCaller
    sink: RegisteredAgent
    tenant: str = DEFAULT_TENANT
    """The tenant of the caller, the agent, the policies and the records."""


class Registry(Protocol):
    """Finds agents and subscriptions."""

    async def subscription(self, caller: str, agent: str) -> Subscription:
        """Return the caller's subscription to an agent; raise CaseNotFound if there is none."""
        ...

    async def agent(self, agent: str) -> RegisteredAgent:
        """Return an agent of the default tenant, for requests without a key; raise CaseNotFound."""
        ...
