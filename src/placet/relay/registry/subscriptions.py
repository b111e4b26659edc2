"""Agents (sinks), callers (sources), and the subscriptions that join them."""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct, field

CallerKind = Literal["agent", "user"]
AGENT_NOT_FOUND = "There is no such agent for you."
DEFAULT_TENANT = "default"


class RegisteredAgent(Struct, frozen=True, kw_only=True):
    """An agent behind the relay. Its credentials are the relay's: no caller sees them or brings them."""

    id: str
    tenant: str = DEFAULT_TENANT
    """Whose agent it is; another tenant may have one of the same id."""
    url: str
    """The agent's address; its card stands below it."""
    card_url: str | None = None
    """Where the card stands instead."""
    credentials: Mapping[str, str] = field(default_factory=dict)
    """Headers that go to the agent with every request."""
    forward_headers: tuple[str, ...] = ()
    """What else of a caller's headers may pass, by lower-case name."""
    input_required: Literal["hold", "pass"] = "hold"
    """Whether a person is asked when the agent asks for input, or its caller."""
    unreadable_files: Literal["hold", "pass"] = "hold"
    """Whether a person is asked about files that no policy can read, or they pass unread."""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from every other agent."""
        return self.tenant, self.id

    def __repr__(self) -> str:
        return f"Agent(id={self.id!r}, tenant={self.tenant!r}, url={self.url!r})"


class RegisteredCaller(Struct, frozen=True, kw_only=True):
    """Someone who calls agents: the principal behind an API key."""

    name: str
    kind: CallerKind = "agent"


class Subscription(Struct, frozen=True, kw_only=True):
    """A caller (source) that may call an agent (sink)."""

    source: RegisteredCaller
    sink: RegisteredAgent
    tenant: str = DEFAULT_TENANT
    """Whose agent, caller, policies and records these are; nothing passes from one tenant to another."""


class Registry(Protocol):
    """Knows agents, callers and subscriptions."""

    async def subscription(self, caller: str, agent: str) -> Subscription:
        """The subscription of this caller to this agent; raises CaseNotFound for anything unknown."""
        ...

    async def agent(self, agent: str) -> RegisteredAgent:
        """The default tenant's agent of this id, for whoever comes without a key; raises CaseNotFound."""
        ...
