"""Convert agents, callers and groups to and from stored records.

| kind       | tenant     | id         | body                                            |
|------------|------------|------------|-------------------------------------------------|
| `agent`    | its tenant | its id     | `AgentSettings`                                 |
| `caller`   | its tenant | its name   | `CallerSettings`                                |
| `group`    | its tenant | its name   | `GroupSettings`                                 |
| `registry` | `*`        | `registry` | empty; its `rev` counts changes of all the rest |

Each change increments the `rev` of the `registry` record in the same transaction. So two changes cannot add a
principal to two tenants at once, and a cache compares only this record.
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
from placet.protocol.forbidden_networks import Network
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
REVISION_ID = "registry"
MAX_ATTEMPTS = 8
EntrySettings = AgentSettings | CallerSettings | GroupSettings
T = TypeVar("T", AgentSettings, CallerSettings, GroupSettings)

log = logging.getLogger("placet.relay")


class StoredRegistry(Struct, frozen=True, kw_only=True):
    """The stored agents, callers and groups of all tenants at one revision."""

    rev: int = 0
    agents: Mapping[RegistryKey, Versioned[AgentSettings]] = field(default_factory=dict)
    callers: Mapping[RegistryKey, Versioned[CallerSettings]] = field(default_factory=dict)
    groups: Mapping[RegistryKey, Versioned[GroupSettings]] = field(default_factory=dict)


async def read_registry_revision(store: ConfigStore) -> int:
    """Return how many times agents, callers and groups were changed."""
    record = await store.get_record(ALL_TENANTS, "registry", REVISION_ID)
    return 0 if record is None else record.rev


async def read_stored_registry(store: ConfigStore) -> StoredRegistry:
    """Return the stored registry at one revision; raise RelayConflict if it keeps changing."""
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
    raise RelayConflict("The registry changed while it was read. Try again.")


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
    found: Mapping[RegistryKey, Versioned[T]], check: Callable[[str, EntrySettings], None]
) -> dict[RegistryKey, T]:
    """Return the entries that are valid on this server. The others are logged and have no effect."""
    valid: dict[RegistryKey, T] = {}
    for (tenant, name), versioned in found.items():
        try:
            check(name, versioned.value)
        except SettingsError as error:
            log.warning("registry_entry_skipped name=%s tenant=%s error=%s", name, tenant, error.message)
        else:
            valid[tenant, name] = versioned.value
    return valid


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
