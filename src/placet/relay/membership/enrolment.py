"""Enrols agents, callers and groups: one change at a time, each checked against everyone there is."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from placet.errors import NotPermitted, RelayConflict, SettingsError, ValidationFailed
from placet.ports.audit_store import AuditRow
from placet.ports.config_store import ConfigStore
from placet.relay.changes import Change
from placet.relay.membership.members import Members
from placet.relay.membership.records import TRIES, Enrolled, Kept, read_enrolled, roster_record
from placet.relay.membership.roster import ADMIN, Roster
from placet.relay.membership.tenancy import Membership
from placet.relay.settings import AgentSettings, CallerSettings

MOST_OF_A_KIND = 10_000
"""So many agents, callers or groups may a tenant have."""
ONLY_ADMINS_BRING = "Only an administrator brings a key into a tenant: {name} does not belong to this one."
ONLY_ADMINS_SEND = (
    "Only an administrator says which of the server's credentials an agent gets, and where they go."
)
T = TypeVar("T")
TellChange = Callable[..., AuditRow]


class Present(Struct, frozen=True, kw_only=True):
    """Everyone there is at the moment of a change."""

    enrolled: Enrolled
    """Those in the store."""
    settled: Roster
    """Those in the settings."""
    everyone: Roster
    """All of them, as far as they fit this server."""


class Enrolment:
    """Changes who is there. `tell` makes the audit's event of a change, as `Trail.change` does."""

    def __init__(
        self, store: ConfigStore, members: Members, *, tell: TellChange, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._tell = tell
        self.members = members
        self.now = now

    async def change(self, member: Membership, plan: Callable[[Present], Change[T]]) -> T:
        """Write what `plan` makes of the present; it is asked again if someone else was faster."""
        for _ in range(TRIES):
            enrolled = await read_enrolled(self._store)
            change = plan(self._present(enrolled))
            told = dict(change.metadata)
            event = self._tell(member, change.message, metadata=told, type="REGISTRY_LIFECYCLE")
            try:
                await self._store.change_records(
                    save=(*change.save, roster_record(rev=enrolled.rev + 1, now=self.now())),
                    delete=change.delete,
                    events=(event,),
                )
            except RelayConflict:
                continue
            self.members.forget()
            return change.gives
        raise RelayConflict("Others change the registry all the time; try again.")

    def check(self, name: str, value: Kept) -> None:
        """Raise ValidationFailed for what does not fit."""
        try:
            self.members.check(name, value)
        except SettingsError as error:
            raise ValidationFailed(error.message) from error
        if "/" in name:
            raise ValidationFailed("A name with a / could not be asked for by its address.")

    def _present(self, enrolled: Enrolled) -> Present:
        members = self.members
        return Present(enrolled=enrolled, settled=members.settled, everyone=members.joined(enrolled))


def check_brings(member: Membership, everyone: Roster, *principals: str) -> None:
    """Raise unless all of these belong here, or an administrator takes them in from nowhere.

    Whoever is no administrator does not learn whether somebody belongs elsewhere.
    """
    for name in principals:
        homes = everyone.homes(name)
        if homes == {member.tenant}:
            continue
        if not is_admin(member):
            raise NotPermitted(ONLY_ADMINS_BRING.format(name=name))
        if homes:
            raise RelayConflict(f"{name} belongs to the tenant {min(homes)}; a principal belongs to one.")


def check_sends(member: Membership, agent: AgentSettings, before: AgentSettings | None = None) -> None:
    """Raise NotPermitted if somebody else than an administrator says where the server's credentials go."""
    if is_admin(member) or not (agent.credentials or (before and before.credentials)):
        return
    if before is None or _sends(agent) != _sends(before):
        raise NotPermitted(ONLY_ADMINS_SEND)


def check_agents(caller: CallerSettings, tenant: str, everyone: Roster) -> None:
    """Raise ValidationFailed for an agent that is not there."""
    for agent_id in caller.agents:
        if (tenant, agent_id) not in everyone.agents:
            raise ValidationFailed(f"There is no agent {agent_id[:64]!r} in this tenant.")


def check_room(known: Mapping[tuple[str, str], object], tenant: str) -> None:
    """Raise ValidationFailed when a tenant has as many of a kind as it may."""
    if sum(home == tenant for home, _ in known) >= MOST_OF_A_KIND:
        raise ValidationFailed(f"There are {MOST_OF_A_KIND} already; remove some first.")


def is_admin(member: Membership) -> bool:
    """Whether the key behind a member has the scope `admin`."""
    return ADMIN in member.principal.scopes


def _sends(agent: AgentSettings) -> tuple[object, ...]:
    return agent.url, agent.card_url, dict(agent.credentials)
