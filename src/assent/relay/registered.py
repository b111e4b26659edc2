"""The relay's part of the settings, `[relay]` in the file, and the registry it describes."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from msgspec import Meta, Struct, field

from assent.errors import AddressRefused, SettingsError, ValidationFailed
from assent.protocol.addresses import check_url
from assent.protocol.duration import parse_duration
from assent.relay.registry import Agent, Caller, CallerKind, MemoryRegistry

AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,63}")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# What the relay or HTTP itself decides, and nobody's settings.
OWN_HEADERS = frozenset(
    {
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "accept-encoding",
    }
)


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent, `[relay.agents.ID]`."""

    url: str
    """The agent's address; its card stands below it."""
    card_url: str | None = None
    """Where the agent's card stands, if not below `url`."""
    credentials: dict[str, str] = field(default_factory=dict)
    """Headers for the agent: by name, the environment variable that holds the value."""
    forward_headers: tuple[str, ...] = ()
    """Headers of callers that may pass to the agent besides those of A2A."""


class CallerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One caller, `[relay.callers.NAME]`, by the name of its API key."""

    agents: tuple[str, ...]
    """The agents it may call."""
    kind: CallerKind = "agent"
    """Whether it is an agent or a user."""


class RelaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The relay, `[relay]`."""

    agents: dict[str, AgentSettings] = field(default_factory=dict)
    """The agents behind the relay."""
    callers: dict[str, CallerSettings] = field(default_factory=dict)
    """Who may call them."""
    early_return: str = "25s"
    """How long a caller waits for an answer before it gets a task to come back to."""
    call_timeout: str = "10m"
    """How long an agent may take for one answer."""
    stream_timeout: str = "6h"
    """How long a stream may last."""
    stream_idle: str = "5m"
    """How long a stream may be silent."""
    max_message_bytes: Annotated[int, Meta(ge=1024)] = 4 * 1024 * 1024
    """The largest request, answer, event or card."""
    max_calls: Annotated[int, Meta(ge=1)] = 1000
    """How many calls to one agent may be under way at once."""
    public_cards: bool = False
    """Whether agent cards may be read without a key."""


def check_relay(settings: RelaySettings, *, allow_loopback: bool) -> None:
    """Raise SettingsError for what does not fit."""
    for name in ("early_return", "call_timeout", "stream_timeout", "stream_idle"):
        duration(settings, name)
    for agent_id, agent in settings.agents.items():
        _check_agent(agent_id, agent, allow_loopback=allow_loopback)
    for name, caller in settings.callers.items():
        unknown = [agent for agent in caller.agents if agent not in settings.agents]
        if unknown:
            raise SettingsError(f"relay.callers.{name} names the agent {unknown[0]!r}, which is not there.")


def duration(settings: RelaySettings, name: str) -> timedelta:
    """A setting that is a time; raises SettingsError."""
    try:
        return parse_duration(getattr(settings, name))
    except ValidationFailed as error:
        raise SettingsError(f"relay.{name}: {error.message}") from error


def registry_from(settings: RelaySettings, environ: Mapping[str, str]) -> MemoryRegistry:
    """The registry the settings describe; raises SettingsError for a credential the environment lacks."""
    return MemoryRegistry(
        agents=[_agent(agent_id, agent, environ) for agent_id, agent in settings.agents.items()],
        callers=[Caller(name=name, kind=caller.kind) for name, caller in settings.callers.items()],
        subscriptions=[(name, agent) for name, caller in settings.callers.items() for agent in caller.agents],
    )


def _agent(agent_id: str, agent: AgentSettings, environ: Mapping[str, str]) -> Agent:
    missing = [variable for variable in agent.credentials.values() if not environ.get(variable)]
    if missing:
        raise SettingsError(f"relay.agents.{agent_id}: the environment has no {missing[0]}.")
    values = {name: environ[variable] for name, variable in agent.credentials.items()}
    if any(not value.isprintable() or not value.isascii() for value in values.values()):
        raise SettingsError(f"relay.agents.{agent_id}: a credential is no header value.")
    return Agent(
        id=agent_id,
        url=agent.url.rstrip("/"),
        card_url=agent.card_url,
        credentials=values,
        forward_headers=tuple(name.lower() for name in agent.forward_headers),
    )


def _check_agent(agent_id: str, agent: AgentSettings, *, allow_loopback: bool) -> None:
    place = f"relay.agents.{agent_id}"
    if not AGENT_ID.fullmatch(agent_id):
        raise SettingsError(f"{place[:100]}: an agent's id is at most 64 letters, digits and -._~.")
    for url in (agent.url, agent.card_url):
        try:
            if url is not None and "?" in check_url(url, allow_loopback=allow_loopback).url:
                raise SettingsError(f"{place}: {url!r} must not carry a query.")
        except AddressRefused as refusal:
            raise SettingsError(f"{place}: {refusal.message}") from refusal
    for name in (*agent.credentials, *agent.forward_headers):
        if not HEADER_NAME.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise SettingsError(f"{place}: {name[:100]!r} is no header that can be set.")
    private = {"authorization", "cookie", "proxy-authorization"}
    if any(name.lower() in private for name in agent.forward_headers):
        raise SettingsError(f"{place}: a caller's credentials are never forwarded.")
