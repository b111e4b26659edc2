"""Agents, callers and groups as records: what is kept where, and what it makes together.

| kind     | tenant  | id       | body                                              |
|----------|---------|----------|---------------------------------------------------|
| `agent`  | its own | its id   | `AgentSettings`                                   |
| `caller` | its own | its name | `CallerSettings`                                  |
| `group`  | its own | its name | `GroupSettings`                                   |
| `roster` | `*`     | `roster` | nothing; its `rev` counts the changes of the rest |

Every change writes the next `roster` in its own transaction, so that a principal is never taken into two
tenants at once, and whoever remembers the records learns from this one whether they still hold.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from placet.errors import RelayConflict, SettingsError
from placet.ports.config_store import ConfigKind, ConfigRecord, ConfigStore
from placet.protocol.addresses import Network
from placet.relay.changes import Held
from placet.relay.membership.roster import Key
from placet.relay.settings import (
    AgentSettings,
    CallerSettings,
    GroupSettings,
    check_agent,
    check_caller,
    check_group,
)

EVERYWHERE = "*"
ROSTER = "roster"
TRIES = 8
Kept = AgentSettings | CallerSettings | GroupSettings
T = TypeVar("T", AgentSettings, CallerSettings, GroupSettings)

log = logging.getLogger("placet.relay")


class Enrolled(Struct, frozen=True, kw_only=True):
    """Everyone in the store, as it was at one `rev`."""

    rev: int = 0
    agents: Mapping[Key, Held[AgentSettings]] = field(default_factory=dict)
    callers: Mapping[Key, Held[CallerSettings]] = field(default_factory=dict)
    groups: Mapping[Key, Held[GroupSettings]] = field(default_factory=dict)


async def roster_rev(store: ConfigStore) -> int:
    """How often anyone was enrolled, changed or removed."""
    record = await store.get_record(EVERYWHERE, "roster", ROSTER)
    return 0 if record is None else record.rev


async def read_enrolled(store: ConfigStore) -> Enrolled:
    """Everyone in the store at one moment; raises RelayConflict if it never stands still."""
    rev = await roster_rev(store)
    for _ in range(TRIES):
        agents = await store.list_records("agent")
        callers = await store.list_records("caller")
        groups = await store.list_records("group")
        before, rev = rev, await roster_rev(store)
        if rev == before:
            return Enrolled(
                rev=rev,
                agents=_held(agents, AgentSettings),
                callers=_held(callers, CallerSettings),
                groups=_held(groups, GroupSettings),
            )
    raise RelayConflict("The registry changes faster than it can be read; try again.")


def record_of(kind: ConfigKind, key: Key, value: Kept, *, rev: int, now: datetime) -> ConfigRecord:
    """Someone as a record; the tenant is the record's own."""
    tenant, name = key
    body = msgspec.json.encode(replace(value, tenant=tenant))
    return ConfigRecord(tenant=tenant, kind=kind, id=name, rev=rev, body=body, saved_at=now)


def roster_record(*, rev: int, now: datetime) -> ConfigRecord:
    """The count of changes as it is written with each of them."""
    return ConfigRecord(tenant=EVERYWHERE, kind="roster", id=ROSTER, rev=rev, body=b"{}", saved_at=now)


def check_kept(name: str, value: Kept, *, allow_loopback: bool, networks: Sequence[Network]) -> None:
    """Raise SettingsError for what does not fit, whoever asks for it."""
    if isinstance(value, AgentSettings):
        check_agent(name, value, allow_loopback=allow_loopback, networks=networks, place="agent")
    elif isinstance(value, CallerSettings):
        check_caller(name, value, place="caller")
    else:
        check_group(name, value, place="group")


def sound(found: Mapping[Key, Held[T]], check: Callable[[str, Kept], None]) -> dict[Key, T]:
    """Those that fit this server; of the others none is called, and none may do anything."""
    kept: dict[Key, T] = {}
    for (tenant, name), held in found.items():
        try:
            check(name, held.value)
        except SettingsError as error:
            log.warning("%s of tenant %s is left out: %s", name, tenant, error.message)
        else:
            kept[tenant, name] = held.value
    return kept


def _held(records: Iterable[ConfigRecord], shape: type[T]) -> dict[Key, Held[T]]:
    found: dict[Key, Held[T]] = {}
    for record in records:
        try:
            value = msgspec.json.decode(record.body, type=shape)
        except msgspec.DecodeError as error:
            log.warning("%s %s of tenant %s is not sound: %s", record.kind, record.id, record.tenant, error)
            continue
        found[record.tenant, record.id] = Held(value=replace(value, tenant=record.tenant), rev=record.rev)
    return found
