"""Takes the content out of holds that are settled and done with, once its time is over."""

from datetime import datetime

import msgspec
from msgspec.structs import replace

from assent.errors import RelayConflict
from assent.ports.relay_store import HoldFilter, HoldRow, HoldStatus, RelayStore
from assent.relay.holds.body import HoldBody, body_of

SETTLED: tuple[HoldStatus, ...] = ("APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN")
BATCH = 100


class SettledHolds:
    """Remembers how far it came, so that holds without content are not read again and again."""

    def __init__(self, store: RelayStore) -> None:
        self._store = store
        self._done_until: dict[tuple[str, HoldStatus], datetime] = {}

    async def redact(self, tenant: str, *, before: datetime) -> int:
        """Take the content out of what was settled before then; returns of how many holds."""
        return sum([await self._redact(tenant, status, before) for status in SETTLED])

    async def _redact(self, tenant: str, status: HoldStatus, before: datetime) -> int:
        asked = HoldFilter(status=status, since=self._done_until.get((tenant, status)), until=before)
        page, redacted, left_at = 0, 0, None
        while True:
            holds, _ = await self._store.holds(tenant, asked, page=page, size=BATCH, order="oldest")
            for hold in holds:
                body = body_of(hold)
                if not _has_content(hold, body):
                    continue
                if await self._clear(hold, body, before):
                    redacted += 1
                elif left_at is None:
                    left_at = hold.created_at
            if holds:
                self._done_until[tenant, status] = left_at or holds[-1].created_at
            if len(holds) < BATCH:
                return redacted
            page += 1

    async def _clear(self, hold: HoldRow, body: HoldBody, before: datetime) -> bool:
        """Take its content out, unless it is still needed."""
        if body.done_at is None or hold.resolved_at is None or hold.resolved_at >= before:
            return False
        try:
            await self._store.change_hold(without_content(hold, body))
        except RelayConflict:  # somebody works on it; the next round looks again
            return False
        return True


def without_content(hold: HoldRow, body: HoldBody) -> HoldRow:
    """The hold as it stays: who, when, why and what was decided, and nothing of the message."""
    frame = replace(body.frame, headers={}, query="")
    bare = replace(body, frame=frame, text="", data=None, matched=None)
    return replace(hold, rev=hold.rev + 1, envelope=b"", body=msgspec.json.encode(bare))


def _has_content(hold: HoldRow, body: HoldBody) -> bool:
    return bool(hold.envelope or body.text or body.data or body.matched)
