"""Remove message content from resolved holds."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from placet.errors import RelayConflict
from placet.ports.hold_store import HoldFilter, HoldRow, HoldStatus, HoldStore
from placet.relay.holds.hold_body import HoldBody, decode_hold_body

RESOLVED_STATUSES: tuple[HoldStatus, ...] = ("APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN")
BATCH = 20
"""Each brings its message along, which may be large."""
MAX_RESUME_TIME = timedelta(days=7)
"""No approved message is tried for longer than that."""


class ResolvedHoldRedactor:
    """Remembers how far it came, so that holds without content are not read again and again."""

    def __init__(self, store: HoldStore) -> None:
        self._store = store
        self._done_until: dict[tuple[str, HoldStatus], datetime] = {}

    async def redact(self, tenant: str, *, before: datetime) -> int:
        """Take the content out of what was settled before then; returns of how many holds."""
        waiting = await self._waiting_since(tenant)
        return sum([await self._redact(tenant, status, before, waiting) for status in RESOLVED_STATUSES])

    async def under_way_since(self, tenant: str, *, before: datetime, now: datetime) -> datetime | None:
        """When the oldest was held of those that were let go on and are not through; None if all are."""
        asked = HoldFilter(status="APPROVED", until=before)
        async for hold in self._oldest_first(tenant, asked):
            resolved_at = hold.resolved_at or hold.created_at
            if decode_hold_body(hold).done_at is None and now - resolved_at < MAX_RESUME_TIME:
                return hold.created_at
        return None

    async def _redact(
        self, tenant: str, status: HoldStatus, before: datetime, waiting: datetime | None
    ) -> int:
        asked = HoldFilter(status=status, since=self._done_until.get((tenant, status)), until=before)
        redacted, last_at, left_at = 0, None, waiting
        async for hold in self._oldest_first(tenant, asked):
            last_at, body = hold.created_at, decode_hold_body(hold)
            if not _has_content(hold, body):
                continue
            if await self._clear(hold, body, before):
                redacted += 1
            elif left_at is None or left_at > hold.created_at:
                left_at = hold.created_at
        if last_at is not None:
            self._done_until[tenant, status] = last_at if left_at is None else min(last_at, left_at)
        return redacted

    async def _waiting_since(self, tenant: str) -> datetime | None:
        """The oldest that waits: it is settled some day, and must not lie behind what was looked at then."""
        waiting, _ = await self._store.list_holds(
            tenant, HoldFilter(status="PENDING"), page=0, size=1, order="oldest"
        )
        return waiting[0].created_at if waiting else None

    async def _oldest_first(self, tenant: str, asked: HoldFilter) -> AsyncIterator[HoldRow]:
        page = 0
        while True:
            holds, _ = await self._store.list_holds(tenant, asked, page=page, size=BATCH, order="oldest")
            for hold in holds:
                yield hold
            if len(holds) < BATCH:
                return
            page += 1

    async def _clear(self, hold: HoldRow, body: HoldBody, before: datetime) -> bool:
        """Take its content out, unless it is still needed."""
        if body.done_at is None or hold.resolved_at is None or hold.resolved_at >= before:
            return False
        try:
            await self._store.update_hold(strip_content(hold, body))
        except RelayConflict:  # somebody works on it; the next round looks again
            return False
        return True


def strip_content(hold: HoldRow, body: HoldBody) -> HoldRow:
    """The hold as it stays: who, when, why and what was decided, and nothing of the message."""
    frame = replace(body.frame, headers={}, query="")
    bare = replace(body, frame=frame, text="", data=None, matched=None)
    return replace(hold, rev=hold.rev + 1, envelope=b"", body=msgspec.json.encode(bare))


def _has_content(hold: HoldRow, body: HoldBody) -> bool:
    return bool(hold.envelope or body.text or body.data or body.matched)
