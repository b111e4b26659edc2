"""Remove message content from resolved holds."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from placet.errors import RelayConflict
from placet.ports.hold_store import HoldFilter, HoldRow, HoldStatus, HoldStore
from placet.relay.hold import HoldBody, decode_hold_body

RESOLVED_STATUSES: tuple[HoldStatus, ...] = ("APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN")
BATCH = 20
"""Small, because each hold contains its message, which may be large."""
MAX_RESUME_TIME = timedelta(days=7)
"""The outbox does not retry an approved message for longer than this."""


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
            holds, _ = await self._store.list_holds(tenant, filter, page=page, size=BATCH, order="oldest")
            for hold in holds:
                yield hold
            if len(holds) < BATCH:
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
    bare = replace(body, frame=frame, text="", data=None, matched=None)
    return replace(hold, rev=hold.rev + 1, envelope=b"", body=msgspec.json.encode(bare))


def _has_content(hold: HoldRow, body: HoldBody) -> bool:
    return bool(hold.envelope or body.text or body.data or body.matched)
