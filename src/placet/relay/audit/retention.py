"""Retention: the policy of every tenant, and the job that removes what is older."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from placet.cases.audit_chain import MESSAGE_FIELDS, REDACTED_AT
from placet.errors import PlacetError, RelayConflict
from placet.ports.audit_store import AuditRow
from placet.ports.config_store import ConfigRecord, ConfigStore
from placet.ports.hold_store import HoldFilter, HoldRow, HoldStatus, HoldStore
from placet.ports.relay_store import RelayStore
from placet.relay.audit.audit_log import AuditLog
from placet.relay.hold import NO_DATA, HoldBody, decode_hold_body
from placet.relay.tenants import Membership, PayloadMode, RetentionPolicy, check_retention_policy

RECORD_ID = "tenant"
DEFAULT = RetentionPolicy()

log = logging.getLogger("placet.relay.audit")
_decode = msgspec.json.Decoder(RetentionPolicy).decode

RESOLVED_STATUSES: tuple[HoldStatus, ...] = ("APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN")
HOLD_BATCH = 20
"""Small, because each hold contains its message, which may be large."""
MAX_RESUME_TIME = timedelta(days=7)
"""The outbox does not retry an approved message for longer than this."""
RUN_INTERVAL = timedelta(minutes=10)
EVENT_BATCH = 200


class TenantRetention:
    """The policies of the settings file, which only the file changes, and those of the store."""

    def __init__(
        self,
        store: ConfigStore,
        *,
        settings_policies: Mapping[str, RetentionPolicy],
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._settings_policies = settings_policies
        self._now = now
        self._stored: dict[str, tuple[RetentionPolicy, int]] | None = None
        self._stale = False
        self._loading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the stored policies, now and after every change, also of another process."""
        await self.load()
        self._store.add_record_listener(self._on_records_changed)

    async def load(self) -> None:
        """Load the stored policies."""
        self._stored = {
            record.tenant: (_decode(record.body), record.rev)
            for record in await self._store.list_records("tenant")
        }

    def get_policy(self, tenant: str) -> RetentionPolicy:
        """Return the policy of a tenant."""
        from_settings = self._settings_policies.get(tenant)
        if from_settings is not None:
            return from_settings
        stored = (self._stored or {}).get(tenant)
        return DEFAULT if stored is None else stored[0]

    def is_in_settings(self, tenant: str) -> bool:
        """Return whether the settings file defines the policy of this tenant."""
        return tenant in self._settings_policies

    def get_payload_mode(self, tenant: str) -> PayloadMode:
        """Return how message bodies are stored. Before the policies are loaded, none are stored."""
        if self._stored is None:
            return "none"
        return self.get_policy(tenant).payloads

    def get_rev(self, tenant: str) -> int:
        """Return the revision of the tenant's stored policy, or 0 if there is none."""
        return (self._stored or {}).get(tenant, (DEFAULT, 0))[1]

    async def save(
        self,
        member: Membership,
        policy: RetentionPolicy,
        audit_log: AuditLog,
        *,
        check: Callable[[int], None] = lambda rev: None,
    ) -> RetentionPolicy:
        """Store the policy of the member's tenant, and return it.

        `check` is called with the current `rev`, and raises an error if the member has not seen it. Raises
        ValidationFailed for an invalid policy, and RelayConflict if the settings file defines the policy.
        """
        check_retention_policy(policy)
        tenant = member.tenant
        if self.is_in_settings(tenant):
            raise RelayConflict(
                f"The settings file defines the retention policy of tenant {tenant}. Change it there."
            )
        await self.load()
        before, rev = (self._stored or {}).get(tenant, (DEFAULT, 0))
        check(rev)
        record = ConfigRecord(
            tenant=tenant,
            kind="tenant",
            id=RECORD_ID,
            rev=rev + 1,
            body=msgspec.json.encode(policy),
            saved_at=self._now(),
        )
        changes: dict[str, Any] = {
            "before": msgspec.to_builtins(before),
            "after": msgspec.to_builtins(policy),
        }
        event = audit_log.build_change_event(
            member, f"{member.name} changed the retention policy.", metadata=changes
        )
        await self._store.change_records(save=[record], events=[event])
        await self.load()
        return policy

    def _on_records_changed(self, tenant: str | None) -> None:
        self._stale = True
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        while self._stale:
            self._stale = False
            try:
                await self.load()
            except PlacetError as error:  # the policies loaded before stay in force until the next change
                log.warning("tenant_retention_reload_failed error=%s", error.message)


class ResolvedHoldRedactor:
    """Removes the content of resolved holds, and remembers where to continue the next time."""

    def __init__(self, store: HoldStore) -> None:
        self._store = store
        self._done_until: dict[tuple[str, HoldStatus], datetime] = {}

    async def redact(self, tenant: str, *, before: datetime) -> int:
        """Remove the content of holds that were resolved before this time. Return the number of holds."""
        pending_since = await self._find_oldest_pending(tenant)
        return sum(
            [await self._redact(tenant, status, before, pending_since) for status in RESOLVED_STATUSES]
        )

    async def find_oldest_unfinished(
        self, tenant: str, *, before: datetime, now: datetime
    ) -> datetime | None:
        """Return when the oldest approved hold with an undelivered message was created; None without one."""
        filter = HoldFilter(status="APPROVED", until=before)
        async for hold in self._iterate_oldest_first(tenant, filter):
            resolved_at = hold.resolved_at or hold.created_at
            if decode_hold_body(hold).done_at is None and now - resolved_at < MAX_RESUME_TIME:
                return hold.created_at
        return None

    async def _redact(
        self, tenant: str, status: HoldStatus, before: datetime, pending_since: datetime | None
    ) -> int:
        filter = HoldFilter(status=status, since=self._done_until.get((tenant, status)), until=before)
        redacted, last_at, oldest_left_at = 0, None, pending_since
        async for hold in self._iterate_oldest_first(tenant, filter):
            last_at, body = hold.created_at, decode_hold_body(hold)
            if not _has_content(hold, body):
                continue
            if await self._clear(hold, body, before):
                redacted += 1
            elif oldest_left_at is None or oldest_left_at > hold.created_at:
                oldest_left_at = hold.created_at
        if last_at is not None:
            done_until = last_at if oldest_left_at is None else min(last_at, oldest_left_at)
            self._done_until[tenant, status] = done_until
        return redacted

    async def _find_oldest_pending(self, tenant: str) -> datetime | None:
        """Return when the oldest pending hold was created. Later runs start there, to redact it too."""
        pending, _ = await self._store.list_holds(
            tenant, HoldFilter(status="PENDING"), page=0, size=1, order="oldest"
        )
        return pending[0].created_at if pending else None

    async def _iterate_oldest_first(self, tenant: str, filter: HoldFilter) -> AsyncIterator[HoldRow]:
        page = 0
        while True:
            holds, _ = await self._store.list_holds(
                tenant, filter, page=page, size=HOLD_BATCH, order="oldest"
            )
            for hold in holds:
                yield hold
            if len(holds) < HOLD_BATCH:
                return
            page += 1

    async def _clear(self, hold: HoldRow, body: HoldBody, before: datetime) -> bool:
        """Remove the content of a hold unless it is still needed. Return whether it was removed."""
        if body.done_at is None or hold.resolved_at is None or hold.resolved_at >= before:
            return False
        try:
            await self._store.update_hold(strip_content(hold, body))
        except RelayConflict:  # the hold has just changed; the next run tries again
            return False
        return True


def strip_content(hold: HoldRow, body: HoldBody) -> HoldRow:
    """Return the hold without its message: parties, times, reason and decision remain."""
    frame = replace(body.frame, headers={}, query="")
    bare = replace(body, frame=frame, text="", data=NO_DATA, matched=None)
    return replace(hold, rev=hold.rev + 1, envelope=b"", body=msgspec.json.encode(bare))


def _has_content(hold: HoldRow, body: HoldBody) -> bool:
    return bool(hold.envelope or body.text or body.has_data or body.matched)


class RetentionJob:
    """Redacts and deletes expired data. Several processes may run it at once."""

    def __init__(self, store: RelayStore, policies: TenantRetention, *, now: Callable[[], datetime]) -> None:
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
        while rows := await self._store.list_events_to_redact(tenant, before=before, limit=EVENT_BATCH):
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
