"""Delete expired message bodies, events and holds of each tenant."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from placet.cases.audit_chain import MESSAGE_FIELDS, REDACTED_AT
from placet.errors import PlacetError
from placet.ports.audit_store import AuditRow, AuditStore
from placet.ports.hold_store import HoldStore
from placet.ports.retention_store import RetentionStore
from placet.relay.audit.hold_redaction import ResolvedHoldRedactor
from placet.relay.audit.tenant_retention import TenantRetention

RUN_INTERVAL = timedelta(minutes=10)
BATCH = 200

log = logging.getLogger("placet.relay.audit")


class RelayRetentionStore(AuditStore, HoldStore, RetentionStore, Protocol):
    """The stores that retention reads, redacts and deletes."""


class RetentionJob:
    """Redacts and deletes expired data. Several processes may run it at once."""

    def __init__(
        self, store: RelayRetentionStore, policies: TenantRetention, *, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._policies = policies
        self._holds = ResolvedHoldRedactor(store)
        self._now = now

    async def run(self) -> None:
        """Run every ten minutes until cancelled."""
        while True:
            try:
                await self.run_once()
            except PlacetError as error:
                log.warning("audit_retention_failed error=%s", error.message)
            except Exception:
                log.exception("audit_retention_failed")
            await asyncio.sleep(RUN_INTERVAL.total_seconds())

    async def run_once(self) -> int:
        """Redact and delete expired data. Return the number of events and holds."""
        count = 0
        for tenant in await self._store.list_audited_tenants():
            policy, now = self._policies.get_policy(tenant), self._now()
            count += await self._delete(tenant, now - policy.events_for, now)
            stores_none = policy.payloads == "none"
            count += await self._redact(tenant, now if stores_none else now - policy.payloads_for)
            count += await self._holds.redact(tenant, before=now - policy.payloads_for)
        return count

    async def _delete(self, tenant: str, before: datetime, now: datetime) -> int:
        # Keep an approved message whose agent is unavailable for longer than events are kept.
        unfinished_since = await self._holds.find_oldest_unfinished(tenant, before=before, now=now)
        before, deleted = unfinished_since or before, 0
        while count := await self._store.delete_older(tenant, before=before):
            deleted += count
            await asyncio.sleep(0)  # let requests run between two batches
        return deleted

    async def _redact(self, tenant: str, before: datetime) -> int:
        redacted = 0
        while rows := await self._store.list_events_to_redact(tenant, before=before, limit=BATCH):
            await self._store.redact_audit_events([strip_bodies(row, self._now()) for row in rows])
            redacted += len(rows)
            await asyncio.sleep(0)
        return redacted


def strip_bodies(row: AuditRow, now: datetime) -> AuditRow:
    """Return the event without its message bodies. `payloadRedactedAt` in its metadata says when."""
    event: dict[str, Any] = msgspec.json.decode(row.body)
    payload = event.get("payload") or {}
    if not any(name in payload for name in MESSAGE_FIELDS):
        return row
    event["payload"] = {name: value for name, value in payload.items() if name not in MESSAGE_FIELDS}
    event["metadata"] = (event.get("metadata") or {}) | {REDACTED_AT: now}
    return replace(row, body=msgspec.json.encode(event))
