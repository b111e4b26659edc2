"""The store in one SQLite file, open in one process and one event loop."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from placet.ports.outbox_store import RETAIN_NOTICES_FOR
from placet.stores.sqlite.cases import SqliteCaseStore
from placet.stores.sqlite.connection import OUTAGES, connect_writer, fold_log
from placet.stores.sqlite.grants import SqliteGrantStore
from placet.stores.sqlite.inbox import SqliteInboxStore
from placet.stores.sqlite.keys import SqliteKeyStore
from placet.stores.sqlite.migrate import prepare
from placet.stores.sqlite.operation import Operation
from placet.stores.sqlite.outbox import SqliteOutboxStore
from placet.stores.sqlite.pages import PageReader
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.recent import RecentCases
from placet.stores.sqlite.relay import SqliteRelayStore
from placet.stores.sqlite.rows import micros
from placet.stores.sqlite.writer import Writer

LOOK_AROUND_S = 0.5
DELETE_REPLAYS = QUERIES["delete_replays"]
DELETE_GRANT_USES = QUERIES["delete_grant_uses"]
DELETE_NOTICES = QUERIES["delete_notices"]
SELECT_NOTHING = QUERIES["select_nothing"]


class SqliteStore(
    SqliteCaseStore,
    SqliteInboxStore,
    SqliteOutboxStore,
    SqliteKeyStore,
    SqliteGrantStore,
    SqliteRelayStore,
):
    """Everything a server keeps, in one file; other processes may read and write it at the same time."""

    def __init__(self, reader: Reader, writer: Writer, pages: PageReader) -> None:
        self._reader = reader
        self._writer = writer
        self._pages = pages
        self._record_changes = self._count_record_changes()
        self._recent = RecentCases()
        writer.on_change(self._forget)
        self._loop = asyncio.get_running_loop()
        self._look_around()

    @classmethod
    async def open(cls, path: Path | str) -> Self:
        """The store at `path`, created if there is none.

        Raises SettingsError when the place cannot be used, MigrationError when the schema does not fit.
        """
        path = Path(path)
        prepare(path)
        connection = connect_writer(path)
        return cls(Reader(path), Writer(connection), PageReader(path))

    def add_change_listener(self, listener: Callable[[str | None], None]) -> None:
        """Call `listener` in the event loop with each changed case's id; None: another process wrote."""
        self._writer.on_change(listener)

    async def check_ready(self) -> None:
        """Raises Unavailable when the file cannot be read or no transaction can be had."""
        self._reader.rows(SELECT_NOTHING)
        await self._writer.submit(Operation())

    async def purge(self, now: datetime) -> int:
        """Forget replays and keys of grants that have run out; returns how many replays."""
        over, settled = (micros(now),), (micros(now - RETAIN_NOTICES_FOR),)
        all_of_it = Operation(
            statements=((DELETE_GRANT_USES, over), (DELETE_NOTICES, settled), (DELETE_REPLAYS, over))
        )
        forgotten = len(await self._writer.submit(all_of_it))
        with suppress(*OUTAGES):  # the next time will do
            await self._pages.ask(lambda _: fold_log(self._pages.path))  # most of the work, beside writers
            await self._writer.cut_log()
        return forgotten

    async def aclose(self) -> None:
        """Finish what was accepted and close."""
        self._timer.cancel()
        await self._writer.finish()
        await self._pages.aclose()
        self._reader.close()  # first: the last to close folds the log into the file, and a reader cannot
        self._writer.close()

    def _forget(self, case_id: str | None) -> None:
        if case_id is not None:
            # A commit can be read before it is told of: what was read then and written since may be older.
            self._recent.drop(case_id)
            return
        self._recent.clear()  # another process wrote; it may have moved any case
        self._look_at_records()

    def _look_around(self) -> None:
        self._writer.look_around()
        self._timer = self._loop.call_later(LOOK_AROUND_S, self._look_around)
