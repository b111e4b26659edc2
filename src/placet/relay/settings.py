"""The `[relay]` section of the settings, and its validation."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from placet.errors import AddressRefused, SettingsError, ValidationFailed
from placet.protocol.addresses import LOOPBACK_HOSTS, OWN_RULES, Network, check_url
from placet.protocol.duration import parse_duration
from placet.protocol.networks import read_networks
from placet.relay.audit.retention_policy import PayloadMode, RetentionPolicy, check_retention_policy
from placet.relay.registry.subscriptions import DEFAULT_TENANT, CallerKind
from placet.relay.registry.tenant_membership import PERMISSIONS

TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
LONGEST_NAME = 100
AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,63}")
GROUP_NAME = AGENT_ID
MAX_PENDING_HOLDS = 1000
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
    def keeping(self) -> RetentionPolicy:
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
    networks = parse_networks(settings)
    for agent_id, agent in settings.agents.items():
        place = f"relay.agents.{agent_id[:80]}"
        check_agent(agent_id, agent, allow_loopback=allow_loopback, networks=networks, place=place)
    for name, caller in settings.callers.items():
        check_caller(name, caller, place=f"relay.callers.{name[:80]}")
        _check_agents_exist(name, caller, settings)
    for name, group in settings.groups.items():
        check_group(name, group, place=f"relay.groups.{name[:80]}")
    for name, tenant in settings.tenants.items():
        check_tenant_settings(name, tenant, place=f"relay.tenants.{name[:80]}")
    for name, notice in settings.notices.items():
        check_notice_settings(name, notice, allow_loopback=allow_loopback, place=f"relay.notices.{name[:80]}")
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
        raise SettingsError("relay.grpc.listen is a host and a port, such as 127.0.0.1:50051.")
    if (settings.certificate is None) != (settings.key is None):
        raise SettingsError("relay.grpc: a certificate and its key belong together.")
    if settings.certificate is None and host not in LOOPBACK_HOSTS:
        raise SettingsError("relay.grpc.listen: beyond this machine gRPC needs a certificate.")
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
    place: str,
) -> None:
    """Raise SettingsError if the agent's settings are invalid."""
    _check_tenant(agent.tenant, place)
    if not AGENT_ID.fullmatch(agent_id):
        raise SettingsError(f"{place}: an agent's id is at most 64 letters, digits and -._~.")
    for url in (agent.url, agent.card_url):
        try:
            target = None if url is None else check_url(url, allow_loopback=allow_loopback, networks=networks)
        except AddressRefused as refusal:
            raise SettingsError(f"{place}: {refusal.message}{_describe_remedy(refusal)}") from refusal
        if target is not None and "?" in target.url:
            raise SettingsError(f"{place}: {url!r} must not carry a query.")
    for name in (*agent.credentials, *agent.forward_headers):
        if not HEADER_NAME.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise SettingsError(f"{place}: {name[:100]!r} is no header that can be set.")
    for variable in agent.credentials.values():
        if not VARIABLE.fullmatch(variable):
            raise SettingsError(f"{place}: a credential names an environment variable, such as WEATHER_KEY.")
    private = {"authorization", "cookie", "proxy-authorization"}
    if any(name.lower() in private for name in agent.forward_headers):
        raise SettingsError(f"{place}: a caller's credentials are never forwarded.")


def _describe_remedy(refusal: AddressRefused) -> str:
    if "loopback" in refusal.message:
        return " Set allow_loopback = true to try it out."
    if refusal.details["rule"] in OWN_RULES:
        return " An agent in a network of your own is called if relay.networks lists the network."
    return ""


def check_caller(name: str, caller: CallerSettings, *, place: str) -> None:
    """Raise SettingsError if the caller's settings are invalid."""
    _check_tenant(caller.tenant, place)
    _check_principal(name, place)
    for agent_id in caller.agents:
        if not AGENT_ID.fullmatch(agent_id):
            raise SettingsError(f"{place}: {agent_id[:80]!r} is no agent's id.")


def check_group(name: str, group: GroupSettings, *, place: str) -> None:
    """Raise SettingsError if the group's settings are invalid."""
    _check_tenant(group.tenant, place)
    if not GROUP_NAME.fullmatch(name):
        raise SettingsError(f"{place}: a group's name is at most 64 letters, digits and -._~.")
    for member in group.members:
        _check_principal(member, place)
    unknown = [one for one in group.permissions if one not in PERMISSIONS]
    if unknown:
        raise SettingsError(
            f"{place}: {unknown[0][:80]!r} is no permission; there are {', '.join(sorted(PERMISSIONS))}."
        )


def check_tenant_settings(name: str, tenant: TenantSettings, *, place: str) -> None:
    """Raise SettingsError if the tenant's settings are invalid."""
    _check_tenant(name, place)
    try:
        check_retention_policy(tenant.keeping, events="keep_events_for", payloads="keep_payloads_for")
    except ValidationFailed as error:
        raise SettingsError(f"{place}: {error.message}") from error


def check_notice_settings(name: str, notice: NoticeSettings, *, allow_loopback: bool, place: str) -> None:
    """Raise SettingsError if the callback's settings are invalid."""
    _check_tenant(name, place)
    _check_principal(notice.key, place)
    try:
        check_url(notice.url, allow_loopback=allow_loopback)
    except AddressRefused as refusal:
        raise SettingsError(f"{place}: {refusal.message}") from refusal


def _check_tenant(tenant: str, place: str) -> None:
    if not TENANT.fullmatch(tenant):
        raise SettingsError(f"{place}: a tenant is named by at most 63 of a-z, 0-9 and -.")


def _check_principal(name: str, place: str) -> None:
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise SettingsError(f"{place}: {name[:80]!r} is no name of an API key.")


def _check_agents_exist(name: str, caller: CallerSettings, settings: RelaySettings) -> None:
    for agent_id in caller.agents:
        agent = settings.agents.get(agent_id)
        if agent is None or agent.tenant != caller.tenant:
            raise SettingsError(f"relay.callers.{name} names the agent {agent_id!r}, which is not there.")


def _check_one_tenant(settings: RelaySettings) -> None:
    homes: dict[str, str] = {name: caller.tenant for name, caller in settings.callers.items()}
    for group in settings.groups.values():
        for member in group.members:
            if homes.setdefault(member, group.tenant) != group.tenant:
                raise SettingsError(
                    f"{member!r} belongs to the tenants {homes[member]!r} and {group.tenant!r}; "
                    "a principal belongs to one."
                )
