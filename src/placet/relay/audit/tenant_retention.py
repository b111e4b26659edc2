"""The retention policy of every tenant, cached and refreshed on change."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from placet.errors import PlacetError, RelayConflict
from placet.ports.config_store import ConfigRecord, ConfigStore
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.retention_policy import PayloadMode, RetentionPolicy, check_retention_policy
from placet.relay.registry.tenant_membership import Membership

RECORD_ID = "tenant"
DEFAULT = RetentionPolicy()

log = logging.getLogger("placet.relay.audit")
_decode = msgspec.json.Decoder(RetentionPolicy).decode


class TenantRetention:
    """Keepings by tenant: those in the settings file, which only the file changes, and those in the store."""

    def __init__(
        self, store: ConfigStore, *, settled: Mapping[str, RetentionPolicy], now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._settled = settled
        self._now = now
        self._stored: dict[str, tuple[RetentionPolicy, int]] | None = None
        self._stale = False
        self._loading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read what is stored, now and whenever it was changed, also by another process."""
        await self.load()
        self._store.add_record_listener(self._on_records_changed)

    async def load(self) -> None:
        """Read what is stored."""
        self._stored = {
            record.tenant: (_decode(record.body), record.rev)
            for record in await self._store.list_records("tenant")
        }

    def of(self, tenant: str) -> RetentionPolicy:
        """What this tenant wants."""
        settled = self._settled.get(tenant)
        if settled is not None:
            return settled
        stored = (self._stored or {}).get(tenant)
        return DEFAULT if stored is None else stored[0]

    def is_settled(self, tenant: str) -> bool:
        """Whether the settings file speaks for this tenant."""
        return tenant in self._settled

    def payloads_for(self, tenant: str) -> PayloadMode:
        """What becomes of bodies; before anything was read, nobody knows who wants none."""
        if self._stored is None:
            return "none"
        return self.of(tenant).payloads

    def rev_of(self, tenant: str) -> int:
        """How often what the store says of this tenant has changed."""
        return (self._stored or {}).get(tenant, (DEFAULT, 0))[1]

    async def save(
        self,
        member: Membership,
        keeping: RetentionPolicy,
        trail: AuditLog,
        *,
        check: Callable[[int], None] = lambda rev: None,
    ) -> RetentionPolicy:
        """Change what the member's tenant keeps; raises ValidationFailed, RelayConflict.

        `check` is told the present `rev`, and raises something unless that is what somebody saw.
        """
        check_retention_policy(keeping)
        tenant = member.tenant
        if self.is_settled(tenant):
            raise RelayConflict(
                f"The tenant {tenant} is set up in the server's settings file; change it there."
            )
        await self.load()
        before, rev = (self._stored or {}).get(tenant, (DEFAULT, 0))
        check(rev)
        record = ConfigRecord(
            tenant=tenant,
            kind="tenant",
            id=RECORD_ID,
            rev=rev + 1,
            body=msgspec.json.encode(keeping),
            saved_at=self._now(),
        )
        changes: dict[str, Any] = {
            "before": msgspec.to_builtins(before),
            "after": msgspec.to_builtins(keeping),
        }
        told = trail.change(member, f"{member.name} changed what is kept of the audit.", metadata=changes)
        await self._store.change_records(save=[record], events=[told])
        await self.load()
        return keeping

    def _on_records_changed(self, tenant: str | None) -> None:
        self._stale = True
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        while self._stale:
            self._stale = False
            try:
                await self.load()
            except PlacetError as error:  # what was read before holds until the next change
                log.warning("tenant_retention_reload_failed error=%s", error.message)
