"""Changes by other servers: notifications wake this one, and the log tells what it missed.

A notification names the cases of a commit and the numbers of its events. The log's numbers have no gaps, so
a missing notification shows as a gap, and the cases of the gap are read from the log. While notifications do
not arrive, the log is read several times a second.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from placet.errors import Unavailable
from placet.stores.postgres.batch import EventRange
from placet.stores.postgres.connection import (
    PostgresAddress,
    PostgresConnection,
    PostgresPool,
    connect_directly,
)
from placet.stores.postgres.outages import OUTAGES, describe
from placet.stores.postgres.reader import PooledReader
from placet.stores.postgres.writer import BatchWriter

CHANNEL = "placet_changes"
MAX_NAMES = 120
"""How many cases one notification names: PostgreSQL sends at most 8,000 bytes."""
MAX_GAP = 2_000
"""Of a longer gap, all cases are reported as changed at once."""
CHECK_EVERY_S = 1.0
CHECK_WITHOUT_NOTIFICATIONS_EVERY_S = 0.1
BEAT_EVERY_S = 2.0
MAX_MISSED_BEATS = 2

log = logging.getLogger("placet.store")


class ChangeNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server sends to the others after its commits. Without events and names it is a heartbeat."""

    sender: str
    ranges: tuple[tuple[int, int], ...] = ()
    cases: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()


class SeenEvents:
    """The numbers of events that are known up to here, without a gap."""

    def __init__(self, last: int) -> None:
        self.last = last
        self._beyond: dict[int, int] = {}

    def add(self, first: int, last: int) -> None:
        """Add the events of one commit."""
        if last < first:
            return
        self._beyond[first] = max(last, self._beyond.get(first, 0))
        while (end := self._beyond.pop(self.last + 1, None)) is not None:
            self.last = end

    def skip_to(self, last: int) -> None:
        """Take everything up to here as known."""
        self.last = max(self.last, last)
        self._beyond = {first: end for first, end in self._beyond.items() if end > self.last}


class ChangeNotifier:
    """Tells other servers what this one changed, and its own listeners what the others changed."""

    def __init__(
        self,
        address: PostgresAddress,
        pool: PostgresPool,
        reader: PooledReader,
        writer: BatchWriter,
        *,
        sender: str,
        progress: tuple[int, int],
    ) -> None:
        """`progress`: the events and the changes of records that were committed when the store was opened."""
        self._address = address
        self._pool = pool
        self._reader = reader
        self._writer = writer
        self._sender = sender
        self._seen = SeenEvents(progress[0])
        self._record_changes = progress[1]
        self._outgoing: list[ChangeNotice] = []
        self._wake = asyncio.Event()
        self._missed_beats = MAX_MISSED_BEATS + 1
        self._connection: PostgresConnection | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_listening(self) -> bool:
        """Whether notifications arrive. Otherwise the log is read often."""
        return self._missed_beats <= MAX_MISSED_BEATS

    def start(self) -> None:
        """Begin to send and to listen."""
        self._writer.add_commit_listener(self.report)
        work = (self._send_notices(), self._listen(), self._beat(), self._check_log())
        self._tasks = [asyncio.create_task(one) for one in work]

    def report(self, events: EventRange, cases: tuple[str, ...], tenants: tuple[str, ...]) -> None:
        """Send what a commit of this server changed."""
        self._seen.add(events.first, events.last)
        if events.last < events.first and not tenants:
            return
        ranges = ((events.first, events.last),) if events.last >= events.first else ()
        self._outgoing.append(
            ChangeNotice(
                sender=self._sender, ranges=ranges, cases=cases, tenants=tuple(dict.fromkeys(tenants))
            )
        )
        self._wake.set()

    async def aclose(self) -> None:
        """Send what is left, and stop."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(*OUTAGES):
            await self._send()
        if self._connection is not None:
            with suppress(*OUTAGES):
                await self._connection.close(timeout=1)

    async def _send_notices(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            with suppress(*OUTAGES):  # the other servers find the gap
                await self._send()

    async def _send(self) -> None:
        """Send the notices of all commits since the last time in one statement, after their transactions."""
        notices, self._outgoing = self._outgoing, []
        payloads = [msgspec.json.encode(one).decode() for one in _join(self._sender, notices)]
        if payloads:
            async with self._pool.acquire() as connection:
                await connection.fetch("SELECT pg_notify($1, unnest($2::text[]))", CHANNEL, payloads)

    async def _beat(self) -> None:
        """Send a heartbeat through the pool: what arrives proves that notifications get through."""
        while True:
            self._missed_beats += 1
            self._outgoing.append(ChangeNotice(sender=self._sender))
            self._wake.set()
            await asyncio.sleep(BEAT_EVERY_S)

    async def _listen(self) -> None:
        while True:
            try:
                self._connection = await connect_directly(self._address)
                await self._connection.add_listener(CHANNEL, self._receive)
                await _wait_until_closed(self._connection)
            except OUTAGES as error:
                log.warning("notifications_lost error=%s", describe(error))
            self._missed_beats = MAX_MISSED_BEATS + 1
            await asyncio.sleep(CHECK_EVERY_S)

    def _receive(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        try:
            notice = msgspec.json.decode(payload, type=ChangeNotice)
        except msgspec.DecodeError:
            return  # not from a server of this version
        if notice.sender == self._sender:
            self._missed_beats = 0
            return
        for first, last in notice.ranges:
            self._seen.add(first, last)
        self._writer.notify_listeners(notice.cases, notice.tenants)

    async def _check_log(self) -> None:
        """Find what no notification told, and report it."""
        awaited = self._seen.last
        while True:
            await asyncio.sleep(CHECK_EVERY_S if self.is_listening else CHECK_WITHOUT_NOTIFICATIONS_EVERY_S)
            with suppress(Unavailable):
                events, record_changes = await self._read_progress()
                if self._seen.last < awaited or not self.is_listening:
                    await self._report_gap(events)
                awaited = events
                if record_changes != self._record_changes:
                    self._record_changes = record_changes
                    self._writer.notify_record_listeners(None)

    async def _report_gap(self, last: int) -> None:
        first = self._seen.last
        if first >= last:
            return
        changed: Sequence[str | None] = [None]
        if last - first <= MAX_GAP:
            found = await self._reader.rows("select_changed_cases", (first, last))
            changed = [case_id for (case_id,) in found]
        self._seen.skip_to(last)
        self._writer.notify_listeners(changed)

    async def _read_progress(self) -> tuple[int, int]:
        return await read_progress(self._reader)


async def read_progress(reader: PooledReader) -> tuple[int, int]:
    """Return how many events and changes of records have been committed."""
    events, record_changes = await reader.row("select_progress")
    return int(events), int(record_changes or 0)


async def _wait_until_closed(connection: PostgresConnection) -> None:
    closed = asyncio.Event()
    connection.add_termination_listener(lambda _: closed.set())
    if not connection.is_closed():
        await closed.wait()


def _join(sender: str, notices: Sequence[ChangeNotice]) -> Iterator[ChangeNotice]:
    """Return as few notices as carry the same, each small enough for one notification."""
    if notices and not any(one.ranges or one.tenants for one in notices):
        yield ChangeNotice(sender=sender)
        return
    cases = [case_id for one in notices for case_id in one.cases]
    ranges = [events for one in notices for events in one.ranges]
    tenants = [tenant for one in notices for tenant in one.tenants]
    size = MAX_NAMES
    for start in range(0, max(len(cases), len(ranges), len(tenants)), size):
        part = slice(start, start + size)
        yield ChangeNotice(
            sender=sender, ranges=tuple(ranges[part]), cases=tuple(cases[part]), tenants=tuple(tenants[part])
        )
