"""Register, change and remove agents, callers and groups."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from placet.errors import NotPermitted, RelayConflict, SettingsError, ValidationFailed
from placet.ports.audit_store import AuditRow
from placet.ports.config_store import ConfigStore
from placet.relay.record_changes import RecordChange
from placet.relay.registry.live_registry import LiveRegistry
from placet.relay.registry.records import (
    MAX_ATTEMPTS,
    EntrySettings,
    StoredRegistry,
    build_revision_record,
    read_stored_registry,
)
from placet.relay.registry.registry_snapshot import ADMIN, RegistrySnapshot
from placet.relay.settings import AgentSettings, CallerSettings
from placet.relay.tenant_membership import Membership

MAX_PER_TENANT = 10_000
"""Limit of agents, of callers and of groups of one tenant."""
ADMIN_REQUIRED_FOR_KEY = (
    "{name} does not belong to this tenant. Only an administrator can add an API key to a tenant."
)
ADMIN_REQUIRED_FOR_CREDENTIALS = (
    "Only an administrator can set an agent's credentials, or the URL of an agent that has credentials."
)
T = TypeVar("T")
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
