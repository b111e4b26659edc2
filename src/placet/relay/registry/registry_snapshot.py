"""An immutable snapshot of agents, callers and groups, and the permissions that follow."""

from collections import defaultdict
from collections.abc import Mapping

from placet.errors import CaseNotFound, NotPermitted, SettingsError, Unavailable, ValidationFailed
from placet.ports.identity import Principal
from placet.relay.registry.subscriptions import (
    AGENT_NOT_FOUND,
    DEFAULT_TENANT,
    RegisteredAgent,
    RegisteredCaller,
    Subscription,
)
from placet.relay.registry.tenant_membership import PERMISSIONS, Membership
from placet.relay.settings import (
    TENANT,
    AgentSettings,
    CallerSettings,
    GroupSettings,
    RelaySettings,
)

ADMIN = "admin"
NOT_A_MEMBER = "This key belongs to no tenant; an administrator adds it to a group or names it as a caller."
WRONG_TENANT = "This key does not belong to that tenant."
RegistryKey = tuple[str, str]
"""A tenant, and a name that is unique in it."""


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
        self._homes = _index_tenants(callers, groups)
        self._subscriptions: dict[RegistryKey, Subscription] = {}
        self._sources: dict[RegistryKey, list[str]] | None = None

    def homes(self, principal: str) -> frozenset[str]:
        """Every tenant that names a principal; more than one only if somebody misspoke."""
        return frozenset(self._homes.get(principal, ()))

    def home(self, principal: str) -> str | None:
        """Where a principal belongs; None for whoever belongs nowhere, or not surely to one tenant."""
        homes = self._homes.get(principal, ())
        return next(iter(homes)) if len(homes) == 1 else None

    def permissions(self, tenant: str, principal: str) -> frozenset[str]:
        """What the groups of a principal allow it in a tenant."""
        return frozenset(
            permission
            for (home, _), group in self.groups.items()
            if home == tenant and principal in group.members
            for permission in group.permissions
        )

    def membership(self, principal: Principal, tenant: str | None = None) -> Membership:
        """See `TenantDirectory`."""
        home = self.home(principal.name) if principal.name is not None else None
        if ADMIN in principal.scopes:
            where = home or DEFAULT_TENANT if tenant is None else tenant
            if not TENANT.fullmatch(where):
                raise ValidationFailed("tenantId: a tenant is named by at most 63 of a-z, 0-9 and -.")
            return Membership(principal=principal, tenant=where, permissions=PERMISSIONS)
        if principal.name is None or home is None:
            raise NotPermitted(NOT_A_MEMBER)
        if tenant is not None and tenant != home:
            raise NotPermitted(WRONG_TENANT)
        allowed = self.permissions(home, principal.name)
        return Membership(principal=principal, tenant=home, permissions=allowed)

    def subscription(self, caller: str, agent_id: str) -> Subscription:
        """See `Registry`. Whether it is the caller, the agent or the pair that is unknown stays untold."""
        found = self._subscriptions.get((caller, agent_id))
        if found is not None:
            return found
        tenant = self.home(caller)
        registered = None if tenant is None else self.callers.get((tenant, caller))
        if tenant is None or registered is None or agent_id not in registered.agents:
            raise CaseNotFound(AGENT_NOT_FOUND)
        source = RegisteredCaller(name=caller, kind=registered.kind)
        found = Subscription(source=source, sink=self.agent(agent_id, tenant), tenant=tenant)
        self._subscriptions[caller, agent_id] = found
        return found

    def sources(self, agent: RegistryKey) -> tuple[str, ...]:
        """Who may call an agent."""
        if self._sources is None:
            self._sources = {}
            for (tenant, name), caller in sorted(self.callers.items()):
                for agent_id in caller.agents:
                    self._sources.setdefault((tenant, agent_id), []).append(name)
        return tuple(self._sources.get(agent, ()))

    def agent(self, agent_id: str, tenant: str = DEFAULT_TENANT) -> RegisteredAgent:
        """The agent of this id; raises CaseNotFound, or Unavailable if the environment lacks a credential."""
        known = self.agents.get((tenant, agent_id))
        if known is None:
            raise CaseNotFound(AGENT_NOT_FOUND)
        try:
            credentials = resolve_credentials(known, self.environ)
        except SettingsError as missing:
            raise Unavailable(f"The agent {agent_id} cannot be called: {missing.message}") from missing
        return RegisteredAgent(
            id=agent_id,
            tenant=tenant,
            url=known.url.rstrip("/"),
            card_url=known.card_url,
            credentials=credentials,
            forward_headers=tuple(name.lower() for name in known.forward_headers),
            input_required=known.input_required,
            unreadable_files=known.unreadable_files,
        )


def resolve_credentials(agent: AgentSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """An agent's headers with their values; raises SettingsError for one that the environment lacks."""
    missing = [variable for variable in agent.credentials.values() if not environ.get(variable)]
    if missing:
        raise SettingsError(f"the environment has no {missing[0]}.")
    values = {name: environ[variable] for name, variable in agent.credentials.items()}
    if any(not value.isprintable() or not value.isascii() for value in values.values()):
        raise SettingsError("a credential is no header value.")
    return values


def check_credentials(settings: RelaySettings, environ: Mapping[str, str]) -> None:
    """Raise SettingsError for a credential in the settings that the environment lacks."""
    for agent_id, agent in settings.agents.items():
        try:
            resolve_credentials(agent, environ)
        except SettingsError as error:
            raise SettingsError(f"relay.agents.{agent_id}: {error.message}") from error


def snapshot_from_settings(settings: RelaySettings, environ: Mapping[str, str]) -> RegistrySnapshot:
    """Everyone the settings name."""
    return RegistrySnapshot(
        agents={(one.tenant, agent_id): one for agent_id, one in settings.agents.items()},
        callers={(one.tenant, name): one for name, one in settings.callers.items()},
        groups={(one.tenant, name): one for name, one in settings.groups.items()},
        environ=environ,
    )


def _index_tenants(
    callers: Mapping[RegistryKey, CallerSettings], groups: Mapping[RegistryKey, GroupSettings]
) -> Mapping[str, set[str]]:
    homes: defaultdict[str, set[str]] = defaultdict(set)
    for tenant, name in callers:
        homes[name].add(tenant)
    for (tenant, _), group in groups.items():
        for member in group.members:
            homes[member].add(tenant)
    return homes
