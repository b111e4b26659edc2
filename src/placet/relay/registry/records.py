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
from placet.relay.record_changes import Versioned
from placet.relay.registry.registry_snapshot import RegistryKey
from placet.relay.settings import (
    AgentSettings,
    CallerSettings,
    GroupSettings,
    check_agent,
    check_caller,
    check_group,
)

ALL_TENANTS = "*"
REVISION_ID = "roster"
MAX_ATTEMPTS = 8
RegistryEntry = AgentSettings | CallerSettings | GroupSettings
T = TypeVar("T", AgentSettings, CallerSettings, GroupSettings)

log = logging.getLogger("placet.relay")


class StoredRegistry(Struct, frozen=True, kw_only=True):
    """Everyone in the store, as it was at one `rev`."""

    rev: int = 0
    agents: Mapping[RegistryKey, Versioned[AgentSettings]] = field(default_factory=dict)
    callers: Mapping[RegistryKey, Versioned[CallerSettings]] = field(default_factory=dict)
    groups: Mapping[RegistryKey, Versioned[GroupSettings]] = field(default_factory=dict)


async def read_registry_revision(store: ConfigStore) -> int:
    """How often anyone was enrolled, changed or removed."""
    record = await store.get_record(ALL_TENANTS, "roster", REVISION_ID)
    return 0 if record is None else record.rev


async def read_stored_registry(store: ConfigStore) -> StoredRegistry:
    """Everyone in the store at one moment; raises RelayConflict if it never stands still."""
    rev = await read_registry_revision(store)
    for _ in range(MAX_ATTEMPTS):
        agents = await store.list_records("agent")
        callers = await store.list_records("caller")
        groups = await store.list_records("group")
        before, rev = rev, await read_registry_revision(store)
        if rev == before:
            return StoredRegistry(
                rev=rev,
                agents=_decode_records(agents, AgentSettings),
                callers=_decode_records(callers, CallerSettings),
                groups=_decode_records(groups, GroupSettings),
            )
    raise RelayConflict("The registry changes faster than it can be read; try again.")


def build_record(
    kind: ConfigKind, key: RegistryKey, value: RegistryEntry, *, rev: int, now: datetime
) -> ConfigRecord:
    """Someone as a record; the tenant is the record's own."""
    tenant, name = key
    body = msgspec.json.encode(replace(value, tenant=tenant))
    return ConfigRecord(tenant=tenant, kind=kind, id=name, rev=rev, body=body, saved_at=now)


def build_revision_record(*, rev: int, now: datetime) -> ConfigRecord:
    """The count of changes as it is written with each of them."""
    return ConfigRecord(tenant=ALL_TENANTS, kind="roster", id=REVISION_ID, rev=rev, body=b"{}", saved_at=now)


def check_entry(
    name: str, value: RegistryEntry, *, allow_loopback: bool, networks: Sequence[Network]
) -> None:
    """Raise SettingsError for what does not fit, whoever asks for it."""
    if isinstance(value, AgentSettings):
        check_agent(name, value, allow_loopback=allow_loopback, networks=networks, place="agent")
    elif isinstance(value, CallerSettings):
        check_caller(name, value, place="caller")
    else:
        check_group(name, value, place="group")


def select_valid(
    found: Mapping[RegistryKey, Versioned[T]], check: Callable[[str, RegistryEntry], None]
) -> dict[RegistryKey, T]:
    """Those that fit this server; of the others none is called, and none may do anything."""
    kept: dict[RegistryKey, T] = {}
    for (tenant, name), held in found.items():
        try:
            check(name, held.value)
        except SettingsError as error:
            log.warning("registry_entry_skipped name=%s tenant=%s error=%s", name, tenant, error.message)
        else:
            kept[tenant, name] = held.value
    return kept


def _decode_records(records: Iterable[ConfigRecord], shape: type[T]) -> dict[RegistryKey, Versioned[T]]:
    found: dict[RegistryKey, Versioned[T]] = {}
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
