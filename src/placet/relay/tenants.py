"""What belongs to a tenant: agents (sinks), callers (sources), subscriptions, members, retention."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from msgspec import Struct, field

from placet.errors import NotPermitted, ValidationFailed
from placet.ports.identity import Principal
from placet.protocol.duration import parse_duration

CallerKind = Literal["agent", "user"]
StreamingMode = Literal["observe", "window", "whole"]
"""How policies inspect a stream, from the mildest mode to the strictest."""
AGENT_NOT_FOUND = "Agent not found."
DEFAULT_TENANT = "default"

PERMISSIONS = frozenset(
    {
        "AGENT_CONVERSATIONS:READ",
        "AGENT_CONVERSATIONS:WRITE",
        "AGENTS:READ",
        "AGENTS:WRITE",
        "AUDIT:READ",
        "GROUPS:READ",
        "GROUPS:WRITE",
        "POLICIES:READ",
        "POLICIES:WRITE",
    }
)
"""All permissions. An API key with the scope `admin` has them in every tenant."""


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
    streaming: StreamingMode | None = None
    """How streams are inspected at least; None leaves it to the policies."""

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


class Membership(Struct, frozen=True, kw_only=True):
    """A principal in its tenant, with the permissions of its groups."""

    principal: Principal
    tenant: str
    permissions: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return the member's name in records and audit events."""
        return self.principal.name or "anonymous"


def require_permissions(member: Membership, *permissions: str) -> None:
    """Raise NotPermitted unless the member has all of these permissions."""
    for permission in permissions:
        if permission not in member.permissions:
            raise NotPermitted(
                f"You need the permission {permission}, and none of your groups has it. Ask an administrator."
            )


PayloadMode = Literal["none", "masked", "full"]


class RetentionPolicy(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How long a tenant's events and message bodies are stored. Durations are texts such as `30d`."""

    keep_events_for: str = "365d"
    """How long events, resolved holds and tasks are stored."""
    keep_payloads_for: str = "30d"
    """How long events contain the bodies of messages."""
    payloads: PayloadMode = "masked"
    """Whether bodies are not stored, stored with masked findings, or stored unchanged."""

    @property
    def events_for(self) -> timedelta:
        """`keep_events_for` as a duration."""
        return parse_duration(self.keep_events_for)

    @property
    def payloads_for(self) -> timedelta:
        """`keep_payloads_for` as a duration."""
        return parse_duration(self.keep_payloads_for)


def check_retention_policy(
    policy: RetentionPolicy, *, events: str = "keepEventsFor", payloads: str = "keepPayloadsFor"
) -> None:
    """Raise ValidationFailed if a duration is not valid, or if bodies are stored longer than events.

    `events` and `payloads` are the names of the two durations for the error message.
    """
    for name, text in ((events, policy.keep_events_for), (payloads, policy.keep_payloads_for)):
        try:
            parse_duration(text)
        except ValidationFailed as error:
            raise ValidationFailed(f"{name}: {error.message}") from error
    if policy.payloads_for > policy.events_for:
        raise ValidationFailed(f"{payloads} is longer than {events}.")
