"""The `[relay]` section of the settings, and its validation."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from placet.errors import AddressRefused, SettingsError, ValidationFailed
from placet.protocol.addresses import LOOPBACK_HOSTS, OWN_RULES, check_url
from placet.protocol.allowed_networks import read_networks
from placet.protocol.duration import parse_duration
from placet.protocol.forbidden_networks import Network
from placet.relay.tenants import (
    DEFAULT_TENANT,
    PERMISSIONS,
    CallerKind,
    PayloadMode,
    RetentionPolicy,
    StreamingMode,
    check_retention_policy,
)

TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
MAX_NAME_LENGTH = 100
AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,63}")
GROUP_NAME = AGENT_ID
MAX_PENDING_HOLDS = 1000
STREAM_WINDOW, STREAM_CARRY = 500, 100
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Headers that HTTP or the relay sets; settings cannot change them.
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
    """The agent's base URL; its card is expected below it."""
    card_url: str | None = None
    """The URL of the agent's card, if it is not below `url`."""
    credentials: dict[str, str] = field(default_factory=dict)
    """Headers sent to the agent: header name to the environment variable with its value."""
    forward_headers: tuple[str, ...] = ()
    """Headers of callers that are forwarded to the agent besides those of A2A."""
    input_required: Literal["hold", "pass"] = "hold"
    """When the agent asks for input: `hold` asks a person, `pass` asks the caller."""
    unreadable_files: Literal["hold", "pass"] = "hold"
    """Files that no policy can read: `hold` asks a person, `pass` forwards them unchecked."""
    streaming: StreamingMode | None = None
    """How policies inspect the agent's streams: `window`, `whole` or `observe`; a policy may be stricter."""
    tenant: str = DEFAULT_TENANT
    """The tenant that owns the agent."""


class CallerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One caller, `[relay.callers.NAME]`, by the name of its API key."""

    agents: tuple[str, ...]
    """The agents it may call."""
    kind: CallerKind = "agent"
    """Whether it is an agent or a user."""
    tenant: str = DEFAULT_TENANT
    """The tenant of the caller and of its agents."""


class GroupSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of principals and its permissions, `[relay.groups.NAME]`."""

    members: tuple[str, ...] = ()
    """The names of the members' API keys."""
    permissions: tuple[str, ...] = ()
    """The permissions of each member, such as `AGENT_CONVERSATIONS:READ`."""
    tenant: str = DEFAULT_TENANT
    """The tenant that the members belong to."""


class TenantSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Audit retention of a tenant, `[relay.tenants.NAME]`; the API cannot change it then."""

    keep_events_for: str = RetentionPolicy().keep_events_for
    """How long events, resolved holds and tasks are retained."""
    keep_payloads_for: str = RetentionPolicy().keep_payloads_for
    """How long events retain message bodies."""
    payloads: PayloadMode = RetentionPolicy().payloads
    """Message bodies in events: `none`, `masked` (without what policies found) or `full`."""

    @property
    def retention_policy(self) -> RetentionPolicy:
        """These settings as a retention policy."""
        return RetentionPolicy(
            keep_events_for=self.keep_events_for,
            keep_payloads_for=self.keep_payloads_for,
            payloads=self.payloads,
        )


class NoticeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to send a callback for each hold of a tenant, `[relay.notices.TENANT]`."""

    url: str
    """The URL that receives a callback for every held message."""
    key: str
    """The name of the API key that owns the callback: it can read its secret and its log."""


class GrpcSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The gRPC endpoint for callers, `[relay.grpc]`; it needs the `grpc` extra."""

    listen: str = "127.0.0.1:50051"
    """Host and port to listen on; without a certificate the host must be a loopback address."""
    url: str | None = None
    """Host and port in agents' cards, as callers reach it; defaults to `listen`."""
    certificate: str | None = None
    """A PEM file with the certificate chain."""
    key: str | None = None
    """A PEM file with the certificate's private key."""


class RelaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The relay, `[relay]`."""

    enabled: bool = False
    """Serve the relay even if no agent is configured, so that agents can be registered by the API."""
    agents: dict[str, AgentSettings] = field(default_factory=dict)
    """The agents behind the relay."""
    networks: tuple[str, ...] = ()
    """Private networks, such as `10.0.0.0/8`, in which the relay may call agents (and only agents)."""
    callers: dict[str, CallerSettings] = field(default_factory=dict)
    """The callers that may call agents."""
    groups: dict[str, GroupSettings] = field(default_factory=dict)
    """Groups of principals and their permissions."""
    tenants: dict[str, TenantSettings] = field(default_factory=dict)
    """Audit retention of each tenant."""
    notices: dict[str, NoticeSettings] = field(default_factory=dict)
    """The callback for held messages of each tenant."""
    policies: str | None = None
    """A policy file, as for `placet policy test`, applied to every message of the default tenant."""
    early_return: str = "25s"
    """How long a caller waits for an answer before it gets a task to poll."""
    call_timeout: str = "10m"
    """How long an agent may take for one answer."""
    stream_timeout: str = "6h"
    """How long a stream may last."""
    stream_idle: str = "5m"
    """How long a stream may be silent."""
    stream_window: Annotated[int, Meta(ge=100, le=20_000)] = STREAM_WINDOW
    """How many new characters of a stream Presidio or Comprehend inspects at a time, in `window` mode."""
    stream_carry: Annotated[int, Meta(ge=10, le=2_000)] = STREAM_CARRY
    """How many characters of a stream such a window holds back, and inspects again with the next ones."""
    hold_timeout: str | None = None
    """How long a held message waits for a decision; defaults to the timeout of cases."""
    max_message_bytes: Annotated[int, Meta(ge=1024)] = 4 * 1024 * 1024
    """The maximum size of a request, answer, event or card."""
    max_calls: Annotated[int, Meta(ge=1)] = 1000
    """The maximum number of concurrent calls to one agent."""
    max_pending_holds: Annotated[int, Meta(ge=1)] = MAX_PENDING_HOLDS
    """The maximum number of pending holds of one caller; further messages to hold are refused."""
    public_cards: bool = False
    """Whether agent cards may be read without a key."""
    grpc: GrpcSettings | None = None
    """The gRPC endpoint; off by default."""


def check_relay(settings: RelaySettings, *, allow_loopback: bool) -> None:
    """Raise SettingsError for an invalid relay setting."""
    if settings.grpc is not None:
        parse_grpc_listen(settings.grpc)
    for name in ("early_return", "call_timeout", "stream_timeout", "stream_idle"):
        parse_setting_duration(settings, name)
    if settings.hold_timeout is not None:
        parse_setting_duration(settings, "hold_timeout")
    if settings.stream_carry >= settings.stream_window:
        raise SettingsError("relay.stream_carry must be less than relay.stream_window.")
    networks = parse_networks(settings)
    for agent_id, agent in settings.agents.items():
        path = f"relay.agents.{agent_id[:80]}"
        check_agent(agent_id, agent, allow_loopback=allow_loopback, networks=networks, path=path)
    for name, caller in settings.callers.items():
        check_caller(name, caller, path=f"relay.callers.{name[:80]}")
        _check_agents_exist(name, caller, settings)
    for name, group in settings.groups.items():
        check_group(name, group, path=f"relay.groups.{name[:80]}")
    for name, tenant in settings.tenants.items():
        check_tenant_settings(name, tenant, path=f"relay.tenants.{name[:80]}")
    for name, notice in settings.notices.items():
        check_notice_settings(name, notice, allow_loopback=allow_loopback, path=f"relay.notices.{name[:80]}")
    _check_one_tenant(settings)


def parse_networks(settings: RelaySettings) -> tuple[Network, ...]:
    """Return the private networks in which agents may be called; raise SettingsError if invalid."""
    try:
        return read_networks(settings.networks)
    except ValidationFailed as error:
        raise SettingsError(f"relay.networks: {error.message}") from error


def parse_grpc_listen(settings: GrpcSettings) -> tuple[str, int]:
    """Return host and port of the gRPC endpoint; raise SettingsError if invalid."""
    host, _, port = settings.listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsError("relay.grpc.listen must be a host and a port, such as 127.0.0.1:50051.")
    if (settings.certificate is None) != (settings.key is None):
        raise SettingsError("relay.grpc: set both certificate and key, or neither.")
    if settings.certificate is None and host not in LOOPBACK_HOSTS:
        raise SettingsError(
            "relay.grpc.listen: a host that is not loopback needs TLS. Set relay.grpc.certificate and key."
        )
    return host, int(port)


def parse_setting_duration(settings: RelaySettings, name: str) -> timedelta:
    """Return a setting as a duration; raise SettingsError if invalid."""
    try:
        return parse_duration(getattr(settings, name))
    except ValidationFailed as error:
        raise SettingsError(f"relay.{name}: {error.message}") from error


def check_agent(
    agent_id: str,
    agent: AgentSettings,
    *,
    allow_loopback: bool,
    networks: Sequence[Network],
    path: str,
) -> None:
    """Raise SettingsError if the agent's settings are invalid."""
    _check_tenant(agent.tenant, path)
    if not AGENT_ID.fullmatch(agent_id):
        raise SettingsError(f"{path}: an agent's id has at most 64 characters: letters, digits and -._~.")
    for url in (agent.url, agent.card_url):
        try:
            target = None if url is None else check_url(url, allow_loopback=allow_loopback, networks=networks)
        except AddressRefused as refusal:
            raise SettingsError(f"{path}: {refusal.message}{_describe_remedy(refusal)}") from refusal
        if target is not None and "?" in target.url:
            raise SettingsError(f"{path}: {url!r} must not have a query string. Remove it.")
    for name in (*agent.credentials, *agent.forward_headers):
        if not HEADER_NAME.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise SettingsError(
                f"{path}: {name[:100]!r} is not a header name, or is a header that the relay sets itself."
            )
    for variable in agent.credentials.values():
        if not VARIABLE.fullmatch(variable):
            raise SettingsError(
                f"{path}: a credential must be the name of an environment variable, such as WEATHER_KEY."
            )
    private = {"authorization", "cookie", "proxy-authorization"}
    if any(name.lower() in private for name in agent.forward_headers):
        raise SettingsError(
            f"{path}: a caller's credentials are never forwarded. "
            f"Remove {', '.join(sorted(private))} from forward_headers."
        )


def _describe_remedy(refusal: AddressRefused) -> str:
    if "loopback" in refusal.message:
        return " Set allow_loopback = true to allow it for a trial."
    if refusal.details["rule"] in OWN_RULES:
        return " To call an agent in a private network, add the network to relay.networks."
    return ""


def check_caller(name: str, caller: CallerSettings, *, path: str) -> None:
    """Raise SettingsError if the caller's settings are invalid."""
    _check_tenant(caller.tenant, path)
    _check_principal(name, path)
    for agent_id in caller.agents:
        if not AGENT_ID.fullmatch(agent_id):
            raise SettingsError(
                f"{path}: {agent_id[:80]!r} is not an agent's id. Use at most 64 letters, digits and -._~."
            )


def check_group(name: str, group: GroupSettings, *, path: str) -> None:
    """Raise SettingsError if the group's settings are invalid."""
    _check_tenant(group.tenant, path)
    if not GROUP_NAME.fullmatch(name):
        raise SettingsError(f"{path}: a group's name has at most 64 characters: letters, digits and -._~.")
    for member in group.members:
        _check_principal(member, path)
    unknown = [one for one in group.permissions if one not in PERMISSIONS]
    if unknown:
        raise SettingsError(
            f"{path}: {unknown[0][:80]!r} is not a permission. Use {', '.join(sorted(PERMISSIONS))}."
        )


def check_tenant_settings(name: str, tenant: TenantSettings, *, path: str) -> None:
    """Raise SettingsError if the tenant's settings are invalid."""
    _check_tenant(name, path)
    try:
        check_retention_policy(
            tenant.retention_policy, events="keep_events_for", payloads="keep_payloads_for"
        )
    except ValidationFailed as error:
        raise SettingsError(f"{path}: {error.message}") from error


def check_notice_settings(name: str, notice: NoticeSettings, *, allow_loopback: bool, path: str) -> None:
    """Raise SettingsError if the callback's settings are invalid."""
    _check_tenant(name, path)
    _check_principal(notice.key, path)
    try:
        check_url(notice.url, allow_loopback=allow_loopback)
    except AddressRefused as refusal:
        raise SettingsError(f"{path}: {refusal.message}") from refusal


def _check_tenant(tenant: str, path: str) -> None:
    if not TENANT.fullmatch(tenant):
        raise SettingsError(f"{path}: a tenant's name has at most 63 characters: a-z, 0-9 and -.")


def _check_principal(name: str, path: str) -> None:
    if not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise SettingsError(
            f"{path}: {name[:80]!r} is not the name of an API key. "
            f"Use at most {MAX_NAME_LENGTH} printable characters."
        )


def _check_agents_exist(name: str, caller: CallerSettings, settings: RelaySettings) -> None:
    for agent_id in caller.agents:
        agent = settings.agents.get(agent_id)
        if agent is None or agent.tenant != caller.tenant:
            raise SettingsError(
                f"relay.callers.{name}.agents: {agent_id!r} is not an agent of the tenant {caller.tenant!r}. "
                f"Add relay.agents.{agent_id}."
            )


def _check_one_tenant(settings: RelaySettings) -> None:
    tenants: dict[str, str] = {name: caller.tenant for name, caller in settings.callers.items()}
    for group in settings.groups.values():
        for member in group.members:
            if tenants.setdefault(member, group.tenant) != group.tenant:
                raise SettingsError(
                    f"relay: {member!r} belongs to the tenants {tenants[member]!r} and {group.tenant!r}. "
                    "A principal may belong to one tenant only."
                )


class RelayLimits(Struct, frozen=True, kw_only=True):
    """The relay's size and time limits."""

    early_return_for: timedelta = timedelta(seconds=25)
    call_for: timedelta = timedelta(minutes=10)
    stream_for: timedelta = timedelta(hours=6)
    stream_idle_for: timedelta = timedelta(minutes=5)
    read_for: timedelta = timedelta(seconds=30)
    """How long a caller may take to send its request, or to receive a chunk of a stream."""
    heartbeat_for: timedelta = timedelta(seconds=10)
    """The interval of heartbeats on a stream that is withheld for inspection."""
    max_message_bytes: int = 4 * 1024 * 1024
    max_calls: int = 1000


def limits_from_settings(settings: RelaySettings) -> RelayLimits:
    """Return the limits of these settings."""
    return RelayLimits(
        early_return_for=parse_setting_duration(settings, "early_return"),
        call_for=parse_setting_duration(settings, "call_timeout"),
        stream_for=parse_setting_duration(settings, "stream_timeout"),
        stream_idle_for=parse_setting_duration(settings, "stream_idle"),
        max_message_bytes=settings.max_message_bytes,
        max_calls=settings.max_calls,
    )
