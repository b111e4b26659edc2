"""A cache of the cases that this process created or changed last, since new cases are read most often.

Reading a row right after a commit is expensive, because each commit invalidates the page cache of the reading
connection. The cache holds committed rows only, encoded as they were written. It is cleared when another
process writes.
"""

from collections import OrderedDict
from typing import NamedTuple

MAX_CACHED_BYTES = 16 * 1024 * 1024


class EncodedCase(NamedTuple):
    """A case and its offer, encoded."""

    version: int
    state: bytes
    offer: bytes


class RecentCases:
    """Committed rows up to a number of bytes; the oldest are evicted first."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._used = 0
        self._rows: OrderedDict[str, EncodedCase] = OrderedDict()

    def get(self, case_id: str) -> EncodedCase | None:
        """Return the case and its offer, if they are cached."""
        return self._rows.get(case_id)

    def put(self, case_id: str, row: EncodedCase) -> None:
        """Cache what has just been committed, unless a newer version is cached."""
        known = self._rows.get(case_id)
        if known is not None:
            if known.version >= row.version:
                return
            self._used -= len(known.state) + len(known.offer)
        self._rows[case_id] = row
        self._used += len(row.state) + len(row.offer)
        while self._used > self._max_bytes:
            _, oldest = self._rows.popitem(last=False)
            self._used -= len(oldest.state) + len(oldest.offer)

    def remove(self, case_id: str) -> EncodedCase | None:
        """Evict a case that is about to change, and return what was cached."""
        row = self._rows.pop(case_id, None)
        if row is not None:
            self._used -= len(row.state) + len(row.offer)
        return row

    def clear(self) -> None:
        """Evict everything."""
        self._rows.clear()
        self._used = 0
