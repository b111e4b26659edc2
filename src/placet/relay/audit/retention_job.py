"""Delete expired message bodies, events and holds of each tenant."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from placet.errors import PlacetError
from placet.ports.audit_store import AuditRow, AuditStore
from placet.ports.hold_store import HoldStore
from placet.ports.retention_store import RetentionStore
from placet.relay.audit.hold_redaction import ResolvedHoldRedactor
from placet.relay.audit.tenant_retention import TenantRetention

RUN_INTERVAL = timedelta(minutes=10)
BATCH = 200
BODY_FIELDS = ("requestBody", "requestHeaders", "responseBody", "responseHeaders")

log = logging.getLogger("placet.relay.audit")


class RelayRetentionStore(AuditStore, HoldStore, RetentionStore, Protocol):
    """What retention reads, redacts and deletes."""


class RetentionJob:
    """Redacts and deletes what is due; safe to run in several processes."""

    def __init__(
        self, store: RelayRetentionStore, keeping: TenantRetention, *, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._keeping = keeping
        self._holds = ResolvedHoldRedactor(store)
        self._now = now

    async def run(self) -> None:
        """Do it again and again, until cancelled."""
        while True:
            try:
                await self.once()
            except PlacetError as error:
                log.warning("audit_retention_failed error=%s", error.message)
            except Exception:
                log.exception("audit_retention_failed")
            await asyncio.sleep(RUN_INTERVAL.total_seconds())

    async def once(self) -> int:
        """Redact and forget all that is due; returns how many events and holds that were."""
        done = 0
        for tenant in await self._store.list_audited_tenants():
            keeping, now = self._keeping.of(tenant), self._now()
            done += await self._forget(tenant, now - keeping.events_for, now)
            none = keeping.payloads == "none"
            done += await self._redact(tenant, now if none else now - keeping.payloads_for)
            done += await self._holds.redact(tenant, before=now - keeping.payloads_for)
        return done

    async def _forget(self, tenant: str, before: datetime, now: datetime) -> int:
        # What a person let go on must not be lost because its agent is away for longer than events are kept.
        under_way = await self._holds.under_way_since(tenant, before=before, now=now)
        before, forgotten = under_way or before, 0
        while count := await self._store.delete_older(tenant, before=before):
            forgotten += count
            await asyncio.sleep(0)  # others come first
        return forgotten

    async def _redact(self, tenant: str, before: datetime) -> int:
        redacted = 0
        while rows := await self._store.list_events_to_redact(tenant, before=before, limit=BATCH):
            await self._store.redact_audit_events([strip_bodies(row, self._now()) for row in rows])
            redacted += len(rows)
            await asyncio.sleep(0)
        return redacted


def strip_bodies(row: AuditRow, now: datetime) -> AuditRow:
    """The event without its message: what happened stays, with a note of what was taken out and when."""
    event: dict[str, Any] = msgspec.json.decode(row.body)
    payload = event.get("payload") or {}
    if not any(name in payload for name in BODY_FIELDS):
        return row
    event["payload"] = {name: value for name, value in payload.items() if name not in BODY_FIELDS}
    event["metadata"] = (event.get("metadata") or {}) | {"payloadRedactedAt": now}
    return replace(row, body=msgspec.json.encode(event))
