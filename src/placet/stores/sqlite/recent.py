"""The cases that this process opened or moved last: a case is looked at most while it is young.

Reading a row right after a commit is dear: every commit makes the reading connection forget its pages. Only
what has been committed is kept, encoded as it was written, and when another process writes all is forgotten.
"""

from collections import OrderedDict
from typing import NamedTuple

ROOM_BYTES = 16 * 1024 * 1024


class Row(NamedTuple):
    """A case and its offer, encoded."""

    version: int
    state: bytes
    offer: bytes


class RecentCases:
    """Rows as they were committed, up to so many bytes; the oldest go first."""

    def __init__(self, room: int = ROOM_BYTES) -> None:
        self._room = room
        self._used = 0
        self._rows: OrderedDict[str, Row] = OrderedDict()

    def get(self, case_id: str) -> Row | None:
        """The case and its offer, if they are kept."""
        return self._rows.get(case_id)

    def keep(self, case_id: str, row: Row) -> None:
        """Keep what has just been committed, unless something newer is kept already."""
        known = self._rows.get(case_id)
        if known is not None:
            if known.version >= row.version:
                return
            self._used -= len(known.state) + len(known.offer)
        self._rows[case_id] = row
        self._used += len(row.state) + len(row.offer)
        while self._used > self._room:
            _, oldest = self._rows.popitem(last=False)
            self._used -= len(oldest.state) + len(oldest.offer)

    def drop(self, case_id: str) -> Row | None:
        """Forget a case that is about to change; returns what was kept of it."""
        row = self._rows.pop(case_id, None)
        if row is not None:
            self._used -= len(row.state) + len(row.offer)
        return row

    def clear(self) -> None:
        """Forget all: someone else has written."""
        self._rows.clear()
        self._used = 0
