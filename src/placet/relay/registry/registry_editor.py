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
    RegistryEntry,
    StoredRegistry,
    build_revision_record,
    read_stored_registry,
)
from placet.relay.registry.registry_snapshot import ADMIN, RegistrySnapshot
from placet.relay.registry.tenant_membership import Membership
from placet.relay.settings import AgentSettings, CallerSettings

MAX_PER_TENANT = 10_000
"""So many agents, callers or groups may a tenant have."""
ADMIN_REQUIRED_FOR_KEY = (
    "Only an administrator brings a key into a tenant: {name} does not belong to this one."
)
ADMIN_REQUIRED_FOR_CREDENTIALS = (
    "Only an administrator says which of the server's credentials an agent gets, and where they go."
)
T = TypeVar("T")
BuildChangeEvent = Callable[..., AuditRow]


class RegistryState(Struct, frozen=True, kw_only=True):
    """The registry at the moment of a change."""

    enrolled: StoredRegistry
    """Those in the store."""
    settled: RegistrySnapshot
    """Those in the settings."""
    everyone: RegistrySnapshot
    """All of them, as far as they fit this server."""


class RegistryEditor:
    """Changes the registry. `tell` builds the audit event of a change, like `AuditLog.change`."""

    def __init__(
        self,
        store: ConfigStore,
        members: LiveRegistry,
        *,
        tell: BuildChangeEvent,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._tell = tell
        self.members = members
        self.now = now

    async def change(self, member: Membership, plan: Callable[[RegistryState], RecordChange[T]]) -> T:
        """Write the change that `plan` returns for the current state; plan again on a conflict."""
        for _ in range(MAX_ATTEMPTS):
            enrolled = await read_stored_registry(self._store)
            change = plan(self._present(enrolled))
            told = dict(change.metadata)
            event = self._tell(member, change.message, metadata=told, type="REGISTRY_LIFECYCLE")
            try:
                await self._store.change_records(
                    save=(*change.save, build_revision_record(rev=enrolled.rev + 1, now=self.now())),
                    delete=change.delete,
                    events=(event,),
                )
            except RelayConflict:
                continue
            self.members.forget()
            return change.result
        raise RelayConflict("Others change the registry all the time; try again.")

    def check(self, name: str, value: RegistryEntry) -> None:
        """Raise ValidationFailed for what does not fit."""
        try:
            self.members.check(name, value)
        except SettingsError as error:
            raise ValidationFailed(error.message) from error
        if "/" in name:
            raise ValidationFailed("A name with a / could not be asked for by its address.")

    def _present(self, enrolled: StoredRegistry) -> RegistryState:
        members = self.members
        return RegistryState(enrolled=enrolled, settled=members.settled, everyone=members.merge(enrolled))


def check_principals(member: Membership, everyone: RegistrySnapshot, *principals: str) -> None:
    """Raise unless all of these belong here, or an administrator takes them in from nowhere.

    Whoever is no administrator does not learn whether somebody belongs elsewhere.
    """
    for name in principals:
        homes = everyone.homes(name)
        if homes == {member.tenant}:
            continue
        if not is_admin(member):
            raise NotPermitted(ADMIN_REQUIRED_FOR_KEY.format(name=name))
        if homes:
            raise RelayConflict(f"{name} belongs to the tenant {min(homes)}; a principal belongs to one.")


def check_credential_change(
    member: Membership, agent: AgentSettings, before: AgentSettings | None = None
) -> None:
    """Raise NotPermitted if somebody else than an administrator says where the server's credentials go."""
    if is_admin(member) or not (agent.credentials or (before and before.credentials)):
        return
    if before is None or _get_credential_targets(agent) != _get_credential_targets(before):
        raise NotPermitted(ADMIN_REQUIRED_FOR_CREDENTIALS)


def check_agents_exist(caller: CallerSettings, tenant: str, everyone: RegistrySnapshot) -> None:
    """Raise ValidationFailed for an agent that is not there."""
    for agent_id in caller.agents:
        if (tenant, agent_id) not in everyone.agents:
            raise ValidationFailed(f"There is no agent {agent_id[:64]!r} in this tenant.")


def check_tenant_limit(known: Mapping[tuple[str, str], object], tenant: str) -> None:
    """Raise ValidationFailed when a tenant has as many of a kind as it may."""
    if sum(home == tenant for home, _ in known) >= MAX_PER_TENANT:
        raise ValidationFailed(f"There are {MAX_PER_TENANT} already; remove some first.")


def is_admin(member: Membership) -> bool:
    """Whether the key behind a member has the scope `admin`."""
    return ADMIN in member.principal.scopes


def _get_credential_targets(agent: AgentSettings) -> tuple[object, ...]:
    return agent.url, agent.card_url, dict(agent.credentials)
