"""The current registry: the settings merged with the stored records, refreshed from the store."""

import asyncio
from collections.abc import Callable, Sequence

from placet.ports.config_store import ConfigStore
from placet.ports.identity import Principal
from placet.protocol.forbidden_networks import Network
from placet.relay.registry.records import (
    EntrySettings,
    StoredRegistry,
    check_entry,
    read_registry_revision,
    read_stored_registry,
    select_valid,
)
from placet.relay.registry.registry_snapshot import RegistrySnapshot
from placet.relay.subscriptions import RegisteredAgent, Subscription
from placet.relay.tenant_membership import Membership

REFRESH_INTERVAL_S = 0.25


class LiveRegistry:
    """A `Registry` and a `TenantDirectory`; settings take precedence over stored records."""

    def __init__(
        self,
        from_settings: RegistrySnapshot,
        *,
        store: ConfigStore | None = None,
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
        if self._store is not None and self._monotonic() >= self._refresh_at:
            async with self._refresh_lock:
                if self._monotonic() >= self._refresh_at:
                    await self._refresh(self._store)
        return self._merged

    def invalidate(self) -> None:
        """Refresh before the next use, because this process has changed a record."""
        self._refresh_at = float("-inf")

    async def membership(self, principal: Principal, tenant: str | None = None) -> Membership:
        """See `TenantDirectory`."""
        return (await self.get_snapshot()).membership(principal, tenant)

    async def subscription(self, caller: str, agent: str) -> Subscription:
        """See `Registry`."""
        snapshot = self._merged if self._monotonic() < self._refresh_at else await self.get_snapshot()
        return snapshot.subscription(caller, agent)

    async def agent(self, agent: str) -> RegisteredAgent:
        """See `Registry`."""
        return (await self.get_snapshot()).agent(agent)

    async def _refresh(self, store: ConfigStore) -> None:
        now = self._monotonic()
        if await read_registry_revision(store) != self.stored.rev:
            stored = await read_stored_registry(store)
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
