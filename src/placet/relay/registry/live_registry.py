"""The current registry: settings and stored records together, kept up to date."""

import asyncio
from collections.abc import Callable, Sequence

from placet.ports.config_store import ConfigStore
from placet.ports.identity import Principal
from placet.protocol.addresses import Network
from placet.relay.registry.records import (
    RegistryEntry,
    StoredRegistry,
    check_entry,
    read_registry_revision,
    read_stored_registry,
    select_valid,
)
from placet.relay.registry.registry_snapshot import RegistrySnapshot
from placet.relay.registry.subscriptions import RegisteredAgent, Subscription
from placet.relay.registry.tenant_membership import Membership

REFRESH_INTERVAL_S = 0.25


class LiveRegistry:
    """A `Registry` and a `TenantDirectory`; settings take precedence over stored records."""

    def __init__(
        self,
        settled: RegistrySnapshot,
        *,
        store: ConfigStore | None = None,
        monotonic: Callable[[], float] = lambda: 0.0,
        allow_loopback: bool = False,
        networks: Sequence[Network] = (),
    ) -> None:
        self.settled = settled
        """Everyone in the settings."""
        self.allow_loopback = allow_loopback
        self.networks = networks
        """One's own, in which agents may be called."""
        self.enrolled = StoredRegistry()
        """Everyone in the store, as last seen."""
        self._roster = settled
        self._store = store
        self._monotonic = monotonic
        self._look_at = float("-inf")
        self._looking = asyncio.Lock()

    async def current(self) -> RegistrySnapshot:
        """Everyone there is now, or was a moment ago."""
        if self._store is not None and self._monotonic() >= self._look_at:
            async with self._looking:
                if self._monotonic() >= self._look_at:
                    await self._refresh(self._store)
        return self._roster

    def forget(self) -> None:
        """Look again before the next answer: something has been changed here."""
        self._look_at = float("-inf")

    async def membership(self, principal: Principal, tenant: str | None = None) -> Membership:
        """See `TenantDirectory`."""
        return (await self.current()).membership(principal, tenant)

    async def subscription(self, caller: str, agent: str) -> Subscription:
        """See `Registry`."""
        roster = self._roster if self._monotonic() < self._look_at else await self.current()
        return roster.subscription(caller, agent)

    async def agent(self, agent: str) -> RegisteredAgent:
        """See `Registry`."""
        return (await self.current()).agent(agent)

    async def _refresh(self, store: ConfigStore) -> None:
        now = self._monotonic()
        if await read_registry_revision(store) != self.enrolled.rev:
            enrolled = await read_stored_registry(store)
            self._roster = self.merge(enrolled)
            self.enrolled = enrolled
        self._look_at = now + REFRESH_INTERVAL_S

    def merge(self, enrolled: StoredRegistry) -> RegistrySnapshot:
        """Everyone in the settings, and everyone else in the store."""
        settled = self.settled
        return RegistrySnapshot(
            agents={**select_valid(enrolled.agents, self.check), **settled.agents},
            callers={**select_valid(enrolled.callers, self.check), **settled.callers},
            groups={**select_valid(enrolled.groups, self.check), **settled.groups},
            environ=settled.environ,
        )

    def check(self, name: str, value: RegistryEntry) -> None:
        """Raise SettingsError for what does not fit this server, whoever asks for it."""
        check_entry(name, value, allow_loopback=self.allow_loopback, networks=self.networks)
