"""The relay's part of the settings, `[relay]` in the file, and what of it does not fit."""

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
    input_required: Literal["hold", "pass"] = "hold"
    """Whether a person is asked when the agent asks for input, or its caller."""
    unreadable_files: Literal["hold", "pass"] = "hold"
    """Whether a person is asked about files that no policy can read, or they pass unread."""
    tenant: str = DEFAULT_TENANT
    """Whose agent it is."""


class CallerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One caller, `[relay.callers.NAME]`, by the name of its API key."""

    agents: tuple[str, ...]
    """The agents it may call."""
    kind: CallerKind = "agent"
    """Whether it is an agent or a user."""
    tenant: str = DEFAULT_TENANT
    """Where it belongs; its agents are those of this tenant."""


class GroupSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some principals and what they may do, `[relay.groups.NAME]`."""

    members: tuple[str, ...] = ()
    """The names of their API keys."""
    permissions: tuple[str, ...] = ()
    """What each of them may do, such as `AGENT_CONVERSATIONS:READ`."""
    tenant: str = DEFAULT_TENANT
    """Where they belong, and where they may do it."""


class TenantSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a tenant's audit, `[relay.tenants.NAME]`; the API cannot change it then."""

    keep_events_for: str = RetentionPolicy().keep_events_for
    """How long events, settled holds and tasks are kept."""
    keep_payloads_for: str = RetentionPolicy().keep_payloads_for
    """How long the bodies of messages stand in events."""
    payloads: PayloadMode = RetentionPolicy().payloads
    """Whether events have no bodies, bodies without what policies found, or bodies as they were."""

    @property
    def keeping(self) -> RetentionPolicy:
        """The same for the audit."""
        return RetentionPolicy(
            keep_events_for=self.keep_events_for,
            keep_payloads_for=self.keep_payloads_for,
            payloads=self.payloads,
        )


class NoticeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a tenant's holds are told of, `[relay.notices.TENANT]`."""

    url: str
    """The address that gets a callback for every message that is held."""
    key: str
    """The name of the API key whose callback address it is: that key reads its secret and its log."""


class GrpcSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for callers that speak gRPC, `[relay.grpc]`; it needs the `grpc` extra."""

    listen: str = "127.0.0.1:50051"
    """Host and port; without a certificate the host must be this machine itself."""
    url: str | None = None
    """Host and port as callers reach it, for agents' cards; unless you say so, that of `listen`."""
    certificate: str | None = None
    """A file with the certificate, in PEM, and those that lead to its root."""
    key: str | None = None
    """A file with the certificate's key, in PEM."""


class RelaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The relay, `[relay]`."""

    enabled: bool = False
    """Whether the relay is served even while no agent is registered, to register the first by the API."""
    agents: dict[str, AgentSettings] = field(default_factory=dict)
    """The agents behind the relay."""
    networks: tuple[str, ...] = ()
    """Networks of your own, such as `10.0.0.0/8`, in which agents may be called, and nothing else."""
    callers: dict[str, CallerSettings] = field(default_factory=dict)
    """Who may call them."""
    groups: dict[str, GroupSettings] = field(default_factory=dict)
    """Who may see and decide what."""
    tenants: dict[str, TenantSettings] = field(default_factory=dict)
    """What is kept of each tenant's audit, and for how long."""
    notices: dict[str, NoticeSettings] = field(default_factory=dict)
    """Where each tenant's held messages are told of."""
    policies: str | None = None
    """A file of policies, as `placet policy test` reads it, for every message of the default tenant."""
    early_return: str = "25s"
    """How long a caller waits for an answer before it gets a task to come back to."""
    call_timeout: str = "10m"
    """How long an agent may take for one answer."""
    stream_timeout: str = "6h"
    """How long a stream may last."""
    stream_idle: str = "5m"
    """How long a stream may be silent."""
    hold_timeout: str | None = None
    """How long a held message waits for a person; unless you say so, as long as any case."""
    max_message_bytes: Annotated[int, Meta(ge=1024)] = 4 * 1024 * 1024
    """The largest request, answer, event or card."""
    max_calls: Annotated[int, Meta(ge=1)] = 1000
    """How many calls to one agent may be under way at once."""
    max_pending_holds: Annotated[int, Meta(ge=1)] = MAX_PENDING_HOLDS
    """How many messages of one caller may wait for a person; what would be held beyond that is refused."""
    public_cards: bool = False
    """Whether agent cards may be read without a key."""
    grpc: GrpcSettings | None = None
    """Where callers are served that speak gRPC; nowhere unless you say so."""


def check_relay(settings: RelaySettings, *, allow_loopback: bool) -> None:
    """Raise SettingsError for what does not fit."""
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
    """One's own networks, in which agents may be called; raises SettingsError."""
    try:
        return read_networks(settings.networks)
    except ValidationFailed as error:
        raise SettingsError(f"relay.networks: {error.message}") from error


def parse_grpc_listen(settings: GrpcSettings) -> tuple[str, int]:
    """Host and port of the gRPC door; raises SettingsError."""
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
    """A setting that is a time; raises SettingsError."""
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
    """Raise SettingsError for an agent that cannot be called, or must not be."""
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
    """Raise SettingsError for a caller that nobody can be."""
    _check_tenant(caller.tenant, place)
    _check_principal(name, place)
    for agent_id in caller.agents:
        if not AGENT_ID.fullmatch(agent_id):
            raise SettingsError(f"{place}: {agent_id[:80]!r} is no agent's id.")


def check_group(name: str, group: GroupSettings, *, place: str) -> None:
    """Raise SettingsError for a group of nobody, or for what nobody can be allowed."""
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
    """Raise SettingsError for a tenant that nobody can be, or for what cannot be kept so long."""
    _check_tenant(name, place)
    try:
        check_retention_policy(tenant.keeping, events="keep_events_for", payloads="keep_payloads_for")
    except ValidationFailed as error:
        raise SettingsError(f"{place}: {error.message}") from error


def check_notice_settings(name: str, notice: NoticeSettings, *, allow_loopback: bool, place: str) -> None:
    """Raise SettingsError for a receiver that may not be called."""
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
