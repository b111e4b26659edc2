"""Agents, callers, groups and tenants, from the settings and the store: kept current, and edited."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from placet.errors import (
    CaseNotFound,
    NotPermitted,
    RelayConflict,
    SettingsError,
    Unavailable,
    ValidationFailed,
)
from placet.ports.audit_store import AuditRow
from placet.ports.config_store import ConfigKind, ConfigRecord, ConfigStore
from placet.ports.identity import Principal
from placet.protocol.forbidden_networks import Network
from placet.relay.record_changes import (
    MAX_ATTEMPTS,
    RecordChange,
    Versioned,
    read_at_one_revision,
    read_revision,
)
from placet.relay.settings import (
    TENANT,
    AgentSettings,
    CallerSettings,
    GroupSettings,
    RelaySettings,
    check_agent,
    check_caller,
    check_group,
)
from placet.relay.tenants import (
    AGENT_NOT_FOUND,
    DEFAULT_TENANT,
    PERMISSIONS,
    Membership,
    RegisteredAgent,
    RegisteredCaller,
    Subscription,
)

ADMIN = "admin"
NOT_A_MEMBER = (
    "This API key belongs to no tenant. Ask an administrator to add it to a group or register it as a caller."
)
WRONG_TENANT = "This API key does not belong to that tenant."
RegistryKey = tuple[str, str]
"""A tenant, and a name that is unique in it."""

ALL_TENANTS = "*"
REVISION_ID = "registry"
KINDS: tuple[ConfigKind, ...] = ("agent", "caller", "group")
EntryT = TypeVar("EntryT", AgentSettings, CallerSettings, GroupSettings)
log = logging.getLogger("placet.relay")
REFRESH_INTERVAL_S = 0.25
MAX_PER_TENANT = 10_000
"""Limit of agents, of callers and of groups of one tenant."""
ADMIN_REQUIRED_FOR_KEY = (
    "{name} does not belong to this tenant. Only an administrator can add an API key to a tenant."
)
ADMIN_REQUIRED_FOR_CREDENTIALS = (
    "Only an administrator can set an agent's credentials, or the URL of an agent that has credentials."
)
T = TypeVar("T")


class RegistrySnapshot:
    """Agents, callers, groups and their permissions. Immutable: each change creates a new snapshot."""

    def __init__(
        self,
        *,
        agents: Mapping[RegistryKey, AgentSettings],
        callers: Mapping[RegistryKey, CallerSettings],
        groups: Mapping[RegistryKey, GroupSettings],
        environ: Mapping[str, str],
    ) -> None:
        self.agents = agents
        self.callers = callers
        self.groups = groups
        self.environ = environ
        self._tenants = _index_tenants(callers, groups)
        self._subscriptions: dict[RegistryKey, Subscription] = {}
        self._sources: dict[RegistryKey, list[str]] | None = None

    def list_tenants(self, principal: str) -> frozenset[str]:
        """Return the tenants that name a principal. More than one is a mistake in the settings."""
        return frozenset(self._tenants.get(principal, ()))

    def find_tenant(self, principal: str) -> str | None:
        """Return the principal's tenant; None if no tenant or several tenants name it."""
        tenants = self._tenants.get(principal, ())
        return next(iter(tenants)) if len(tenants) == 1 else None

    def list_permissions(self, tenant: str, principal: str) -> frozenset[str]:
        """Return the permissions that the tenant's groups give a principal."""
        return frozenset(
            permission
            for (owner, _), group in self.groups.items()
            if owner == tenant and principal in group.members
            for permission in group.permissions
        )

    def membership(self, principal: Principal, tenant: str | None = None) -> Membership:
        """See `LiveRegistry.membership`."""
        own_tenant = self.find_tenant(principal.name) if principal.name is not None else None
        if ADMIN in principal.scopes:
            chosen = own_tenant or DEFAULT_TENANT if tenant is None else tenant
            if not TENANT.fullmatch(chosen):
                raise ValidationFailed("tenantId: a tenant's name has at most 63 characters: a-z, 0-9 and -.")
            return Membership(principal=principal, tenant=chosen, permissions=PERMISSIONS)
        if principal.name is None or own_tenant is None:
            raise NotPermitted(NOT_A_MEMBER)
        if tenant is not None and tenant != own_tenant:
            raise NotPermitted(WRONG_TENANT)
        permissions = self.list_permissions(own_tenant, principal.name)
        return Membership(principal=principal, tenant=own_tenant, permissions=permissions)

    def subscription(self, caller: str, agent_id: str) -> Subscription:
        """Return the caller's subscription to an agent; raise CaseNotFound if there is none.

        The error does not reveal whether the caller, the agent or the pair is unknown.
        """
        found = self._subscriptions.get((caller, agent_id))
        if found is not None:
            return found
        tenant = self.find_tenant(caller)
        registered = None if tenant is None else self.callers.get((tenant, caller))
        if tenant is None or registered is None or agent_id not in registered.agents:
            raise CaseNotFound(AGENT_NOT_FOUND)
        source = RegisteredCaller(name=caller, kind=registered.kind)
        found = Subscription(source=source, sink=self.agent(agent_id, tenant), tenant=tenant)
        self._subscriptions[caller, agent_id] = found
        return found

    def list_callers(self, agent: RegistryKey) -> tuple[str, ...]:
        """Return the names of the callers that may call an agent."""
        if self._sources is None:
            self._sources = {}
            for (tenant, name), caller in sorted(self.callers.items()):
                for agent_id in caller.agents:
                    self._sources.setdefault((tenant, agent_id), []).append(name)
        return tuple(self._sources.get(agent, ()))

    def agent(self, agent_id: str, tenant: str = DEFAULT_TENANT) -> RegisteredAgent:
        """Return an agent; raise CaseNotFound, or Unavailable if a credential is not in the environment."""
        settings = self.agents.get((tenant, agent_id))
        if settings is None:
            raise CaseNotFound(AGENT_NOT_FOUND)
        try:
            credentials = resolve_credentials(settings, self.environ)
        except SettingsError as error:
            raise Unavailable(f"The agent {agent_id} cannot be called: {error.message}") from error
        return RegisteredAgent(
            id=agent_id,
            tenant=tenant,
            url=settings.url.rstrip("/"),
            card_url=settings.card_url,
            credentials=credentials,
            forward_headers=tuple(name.lower() for name in settings.forward_headers),
            input_required=settings.input_required,
            unreadable_files=settings.unreadable_files,
            streaming=settings.streaming,
        )


def resolve_credentials(agent: AgentSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an agent's credential headers; raise SettingsError if an environment variable is not set."""
    missing = [variable for variable in agent.credentials.values() if not environ.get(variable)]
    if missing:
        raise SettingsError(f"the environment variable {missing[0]} is not set.")
    values = {name: environ[variable] for name, variable in agent.credentials.items()}
    invalid = [name for name, value in values.items() if not value.isprintable() or not value.isascii()]
    if invalid:
        raise SettingsError(
            f"the environment variable {agent.credentials[invalid[0]]} is not a header value. "
            "Use printable ASCII characters."
        )
    return values


def check_credentials(settings: RelaySettings, environ: Mapping[str, str]) -> None:
    """Raise SettingsError if a credential of the settings is not in the environment."""
    for agent_id, agent in settings.agents.items():
        try:
            resolve_credentials(agent, environ)
        except SettingsError as error:
            raise SettingsError(f"relay.agents.{agent_id}: {error.message}") from error


def snapshot_from_settings(settings: RelaySettings, environ: Mapping[str, str]) -> RegistrySnapshot:
    """Return the registry of the settings."""
    return RegistrySnapshot(
        agents={(one.tenant, agent_id): one for agent_id, one in settings.agents.items()},
        callers={(one.tenant, name): one for name, one in settings.callers.items()},
        groups={(one.tenant, name): one for name, one in settings.groups.items()},
        environ=environ,
    )


def _index_tenants(
    callers: Mapping[RegistryKey, CallerSettings], groups: Mapping[RegistryKey, GroupSettings]
) -> Mapping[str, set[str]]:
    tenants: defaultdict[str, set[str]] = defaultdict(set)
    for tenant, name in callers:
        tenants[name].add(tenant)
    for (tenant, _), group in groups.items():
        for member in group.members:
            tenants[member].add(tenant)
    return tenants


EntrySettings = AgentSettings | CallerSettings | GroupSettings


class StoredRegistry(Struct, frozen=True, kw_only=True):
    """The stored agents, callers and groups of all tenants at one revision."""

    rev: int = 0
    agents: Mapping[RegistryKey, Versioned[AgentSettings]] = field(default_factory=dict)
    callers: Mapping[RegistryKey, Versioned[CallerSettings]] = field(default_factory=dict)
    groups: Mapping[RegistryKey, Versioned[GroupSettings]] = field(default_factory=dict)


async def read_registry_revision(store: ConfigStore) -> int:
    """Return how many times agents, callers and groups were changed."""
    return await read_revision(store, ALL_TENANTS, "registry", REVISION_ID)


async def read_stored_registry(store: ConfigStore) -> StoredRegistry:
    """Return the stored registry at one revision; raise RelayConflict if it keeps changing."""
    get_revision = partial(read_registry_revision, store)
    rev, (agents, callers, groups) = await read_at_one_revision(store, KINDS, get_revision)
    return StoredRegistry(
        rev=rev,
        agents=_decode_records(agents, AgentSettings),
        callers=_decode_records(callers, CallerSettings),
        groups=_decode_records(groups, GroupSettings),
    )


def build_record(
    kind: ConfigKind, key: RegistryKey, value: EntrySettings, *, rev: int, now: datetime
) -> ConfigRecord:
    """Return the record of an agent, caller or group. The key's tenant replaces the entry's tenant."""
    tenant, name = key
    body = msgspec.json.encode(replace(value, tenant=tenant))
    return ConfigRecord(tenant=tenant, kind=kind, id=name, rev=rev, body=body, saved_at=now)


def build_revision_record(*, rev: int, now: datetime) -> ConfigRecord:
    """Return the record that counts the registry's changes. Each change writes it."""
    return ConfigRecord(
        tenant=ALL_TENANTS, kind="registry", id=REVISION_ID, rev=rev, body=b"{}", saved_at=now
    )


def check_entry(
    name: str, value: EntrySettings, *, allow_loopback: bool, networks: Sequence[Network]
) -> None:
    """Raise SettingsError if the entry is invalid."""
    if isinstance(value, AgentSettings):
        check_agent(name, value, allow_loopback=allow_loopback, networks=networks, path="agent")
    elif isinstance(value, CallerSettings):
        check_caller(name, value, path="caller")
    else:
        check_group(name, value, path="group")


def select_valid(
    found: Mapping[RegistryKey, Versioned[EntryT]], check: Callable[[str, EntrySettings], None]
) -> dict[RegistryKey, EntryT]:
    """Return the entries that are valid on this server. The others are logged and have no effect."""
    valid: dict[RegistryKey, EntryT] = {}
    for (tenant, name), versioned in found.items():
        try:
            check(name, versioned.value)
        except SettingsError as error:
            log.warning("registry_entry_skipped name=%s tenant=%s error=%s", name, tenant, error.message)
        else:
            valid[tenant, name] = versioned.value
    return valid


def _decode_records(
    records: Iterable[ConfigRecord], shape: type[EntryT]
) -> dict[RegistryKey, Versioned[EntryT]]:
    found: dict[RegistryKey, Versioned[EntryT]] = {}
    for record in records:
        try:
            value = msgspec.json.decode(record.body, type=shape)
        except msgspec.DecodeError as error:
            log.warning(
                "registry_record_invalid kind=%s id=%s tenant=%s error=%s",
                record.kind,
                record.id,
                record.tenant,
                error,
            )
            continue
        found[record.tenant, record.id] = Versioned(
            value=replace(value, tenant=record.tenant), rev=record.rev
        )
    return found


class LiveRegistry:
    """Finds agents, subscriptions and members; settings take precedence over stored records."""

    def __init__(
        self,
        from_settings: RegistrySnapshot,
        *,
        store: ConfigStore,
        monotonic: Callable[[], float] = lambda: 0.0,
        allow_loopback: bool = False,
        networks: Sequence[Network] = (),
    ) -> None:
        self.from_settings = from_settings
        """The entries of the settings."""
        self.allow_loopback = allow_loopback
        self.networks = networks
        """Private networks in which agents may be called."""
        self.stored = StoredRegistry()
        """The entries of the store at the last refresh."""
        self._merged = from_settings
        self._store = store
        self._monotonic = monotonic
        self._refresh_at = float("-inf")
        self._refresh_lock = asyncio.Lock()

    async def get_snapshot(self) -> RegistrySnapshot:
        """Return the current registry, refreshed if it is older than `REFRESH_INTERVAL_S`."""
        if self._monotonic() >= self._refresh_at:
            async with self._refresh_lock:
                if self._monotonic() >= self._refresh_at:
                    await self._refresh()
        return self._merged

    def invalidate(self) -> None:
        """Refresh before the next use, because this process has changed a record."""
        self._refresh_at = float("-inf")

    async def membership(self, principal: Principal, tenant: str | None = None) -> Membership:
        """Return the principal's membership. An administrator may choose any `tenant`.

        Raises NotPermitted if the principal belongs to no tenant or to another one than `tenant`.
        """
        return (await self.get_snapshot()).membership(principal, tenant)

    async def subscription(self, caller: str, agent: str) -> Subscription:
        """Return the caller's subscription to an agent; raise CaseNotFound if there is none."""
        snapshot = self._merged if self._monotonic() < self._refresh_at else await self.get_snapshot()
        return snapshot.subscription(caller, agent)

    async def agent(self, agent: str) -> RegisteredAgent:
        """Return an agent of the default tenant, for requests without a key; raise CaseNotFound."""
        return (await self.get_snapshot()).agent(agent)

    async def _refresh(self) -> None:
        now = self._monotonic()
        if await read_registry_revision(self._store) != self.stored.rev:
            stored = await read_stored_registry(self._store)
            self._merged = self.merge(stored)
            self.stored = stored
        self._refresh_at = now + REFRESH_INTERVAL_S

    def merge(self, stored: StoredRegistry) -> RegistrySnapshot:
        """Return the valid stored entries, replaced by entries of the settings with the same key."""
        settings = self.from_settings
        return RegistrySnapshot(
            agents={**select_valid(stored.agents, self.check), **settings.agents},
            callers={**select_valid(stored.callers, self.check), **settings.callers},
            groups={**select_valid(stored.groups, self.check), **settings.groups},
            environ=settings.environ,
        )

    def check(self, name: str, value: EntrySettings) -> None:
        """Raise SettingsError if the entry is not valid on this server."""
        check_entry(name, value, allow_loopback=self.allow_loopback, networks=self.networks)


BuildChangeEvent = Callable[..., AuditRow]


class RegistryState(Struct, frozen=True, kw_only=True):
    """The registry on which a change is planned."""

    stored: StoredRegistry
    """The entries of the store."""
    from_settings: RegistrySnapshot
    """The entries of the settings."""
    merged: RegistrySnapshot
    """All valid entries."""


class RegistryEditor:
    """Changes the registry. `build_event` is `AuditLog.build_change_event`."""

    def __init__(
        self,
        store: ConfigStore,
        registry: LiveRegistry,
        *,
        build_event: BuildChangeEvent,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._build_event = build_event
        self.registry = registry
        self.now = now

    async def change(self, member: Membership, plan: Callable[[RegistryState], RecordChange[T]]) -> T:
        """Write the change that `plan` returns for the current state; call it again on a conflict."""
        for _ in range(MAX_ATTEMPTS):
            stored = await read_stored_registry(self._store)
            change = plan(self._build_state(stored))
            event = self._build_event(
                member, change.message, metadata=dict(change.metadata), type="REGISTRY_LIFECYCLE"
            )
            try:
                await self._store.change_records(
                    save=(*change.save, build_revision_record(rev=stored.rev + 1, now=self.now())),
                    delete=change.delete,
                    events=(event,),
                )
            except RelayConflict:
                continue
            self.registry.invalidate()
            return change.result
        raise RelayConflict("Others changed the registry at the same time. Try again.")

    def check(self, name: str, value: EntrySettings) -> None:
        """Raise ValidationFailed if the entry is invalid."""
        try:
            self.registry.check(name, value)
        except SettingsError as error:
            raise ValidationFailed(error.message) from error
        if "/" in name:
            raise ValidationFailed("The name must not contain a /, because it is part of a URL.")

    def _build_state(self, stored: StoredRegistry) -> RegistryState:
        registry = self.registry
        return RegistryState(
            stored=stored, from_settings=registry.from_settings, merged=registry.merge(stored)
        )


def check_principals(member: Membership, registry: RegistrySnapshot, *principals: str) -> None:
    """Raise if the member may not add these principals to its tenant.

    An administrator may add principals that belong to no tenant. Other members may only name principals of
    their tenant, and get the same error for all others, so that they do not learn about other tenants.
    """
    for name in principals:
        tenants = registry.list_tenants(name)
        if tenants == {member.tenant}:
            continue
        if not is_admin(member):
            raise NotPermitted(ADMIN_REQUIRED_FOR_KEY.format(name=name))
        if tenants:
            raise RelayConflict(
                f"{name} belongs to the tenant {min(tenants)}, and a principal belongs to one tenant. "
                "Remove it there first."
            )


def check_credential_change(
    member: Membership, agent: AgentSettings, before: AgentSettings | None = None
) -> None:
    """Raise NotPermitted if a member other than an administrator changes where credentials are sent."""
    if is_admin(member) or not (agent.credentials or (before and before.credentials)):
        return
    if before is None or _get_credential_targets(agent) != _get_credential_targets(before):
        raise NotPermitted(ADMIN_REQUIRED_FOR_CREDENTIALS)


def check_agents_exist(caller: CallerSettings, tenant: str, registry: RegistrySnapshot) -> None:
    """Raise ValidationFailed if an agent of the caller is not registered in the tenant."""
    for agent_id in caller.agents:
        if (tenant, agent_id) not in registry.agents:
            raise ValidationFailed(
                f"agents: {agent_id[:64]!r} is not registered in this tenant. Register it first."
            )


def check_tenant_limit(entries: Mapping[tuple[str, str], object], tenant: str) -> None:
    """Raise ValidationFailed if the tenant has reached the limit of these entries."""
    if sum(owner == tenant for owner, _ in entries) >= MAX_PER_TENANT:
        raise ValidationFailed(f"The tenant has reached the limit of {MAX_PER_TENANT}. Remove some first.")


def is_admin(member: Membership) -> bool:
    """Return whether the member's API key has the scope `admin`."""
    return ADMIN in member.principal.scopes


def _get_credential_targets(agent: AgentSettings) -> tuple[object, ...]:
    return agent.url, agent.card_url, dict(agent.credentials)
