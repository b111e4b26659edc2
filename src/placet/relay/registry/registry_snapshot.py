"""An immutable snapshot of agents, callers and groups. It answers who may call and do what."""

from collections import defaultdict
from collections.abc import Mapping

from placet.errors import CaseNotFound, NotPermitted, SettingsError, Unavailable, ValidationFailed
from placet.ports.identity import Principal
from placet.relay.settings import (
    TENANT,
    AgentSettings,
    CallerSettings,
    GroupSettings,
    RelaySettings,
)
from placet.relay.subscriptions import (
    AGENT_NOT_FOUND,
    DEFAULT_TENANT,
    RegisteredAgent,
    RegisteredCaller,
    Subscription,
)
from placet.relay.tenant_membership import PERMISSIONS, Membership

ADMIN = "admin"
NOT_A_MEMBER = (
    "This API key belongs to no tenant. Ask an administrator to add it to a group or register it as a caller."
)
WRONG_TENANT = "This API key does not belong to that tenant."
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
        """See `TenantDirectory`."""
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
        """See `Registry`. The error does not reveal whether the caller, the agent or the pair is unknown."""
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
