"""The store in a PostgreSQL database."""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Self

from placet.cases.case import Case, Offer
from placet.errors import MigrationError, SettingsError
from placet.ports.outbox_store import RETAIN_NOTICES_FOR
from placet.ports.store_maintenance import OperationHealth
from placet.stores.postgres.change_listener import ChangeNotifier, read_progress
from placet.stores.postgres.connection import PostgresAddress, PostgresPool, open_pool
from placet.stores.postgres.migrate import migrate
from placet.stores.postgres.outages import OUTAGES, describe
from placet.stores.postgres.reader import CaseBatchReader, PooledReader
from placet.stores.postgres.writer import BatchWriter
from placet.stores.sql import rows
from placet.stores.sql.operation import build_single_statement
from placet.stores.sql.outage_log import OutageLog
from placet.stores.sql.recent_cases import RecentCases
from placet.stores.sql.rows import to_micros
from placet.stores.sql.store import SqlStore
from placet.stores.sql.write_probe import WriteProbe

CLOSE_TIMEOUT_S = 5.0


class PostgresStore(SqlStore):
    """Implements `Store` in one database. Any number of servers may use it at the same time."""

    def __init__(self, address: PostgresAddress, pool: PostgresPool, progress: tuple[int, int]) -> None:
        self._pool = pool
        self._read_outages, self._write_outages = OutageLog("read"), OutageLog("write")
        self._reader = self._long_reader = self._pooled_reader = PooledReader(pool, self._read_outages)
        self._cases = CaseBatchReader(self._pooled_reader, "select_cases")
        self._cases_and_offers = CaseBatchReader(self._pooled_reader, "select_cases_and_offers")
        self._recent = RecentCases(max_bytes=0)  # other servers change cases too
        self._batch_writer = self._writer = BatchWriter(pool, self._write_outages)
        self._probe = WriteProbe(self._writer, self._write_outages)
        self._notifier = ChangeNotifier(
            address,
            pool,
            self._pooled_reader,
            self._batch_writer,
            sender=secrets.token_hex(8),
            progress=progress,
        )
        self._closed = False

    @classmethod
    async def open(cls, address: PostgresAddress) -> Self:
        """Open the store in the running event loop, and create its schema in an empty database.

        Raises SettingsError if the database cannot be reached, MigrationError if its schema has another
        version.
        """
        state = await migrate(address, only_new=True)
        if not state.is_current and not state.is_empty:
            raise MigrationError(
                f"The database has schema {state.version}, and this version needs {state.known}. "
                "Run `placet migrate`."
            )
        try:
            pool = await open_pool(address)
        except OUTAGES as error:
            raise SettingsError(f"db: the database cannot be reached: {describe(error)}.") from error
        progress = await read_progress(PooledReader(pool, OutageLog("read")))
        store = cls(address, pool, progress)
        store._notifier.start()
        return store

    async def get_case(self, case_id: str) -> Case | None:
        """Return the case's current state, or None if it does not exist."""
        row = await self._cases.row(case_id)
        return rows.case_from(row[0]) if row else None

    async def get_case_and_offer(self, case_id: str) -> tuple[Case, Offer] | None:
        """Return a case with its offer, or None if it does not exist or was erased."""
        row = await self._cases_and_offers.row(case_id)
        return rows.case_and_offer_from(row) if row else None

    async def check_ready(self) -> None:
        """Raise Unavailable if the database cannot be read or written."""
        await self._pooled_reader.rows("select_nothing")
        await self._probe.run()

    def read_health(self) -> Mapping[str, OperationHealth]:
        """See `StoreMaintenance`."""
        return {
            name: OperationHealth(refused=outages.refused, is_failing=outages.is_failing)
            for name, outages in (("read", self._read_outages), ("write", self._write_outages))
        }

    async def purge(self, now: datetime) -> int:
        """Delete expired rows and sum up the usage of owners; see `StoreMaintenance`."""
        expired, settled = (to_micros(now),), (to_micros(now - RETAIN_NOTICES_FOR),)
        deleted = 0
        for name, params in (
            ("delete_grant_uses", expired),
            ("delete_notices", settled),
            ("delete_expired_verification_attempts", expired),
            ("delete_replays", expired),
        ):
            deleted = len(await self._writer.submit(build_single_statement(name, params)))
        await self._writer.submit(build_single_statement("sum_usage"))
        return deleted

    async def aclose(self) -> None:
        """Finish the accepted writes and close."""
        if self._closed:
            return
        self._closed = True
        await self._writer.finish()
        await self._notifier.aclose()
        await self._pooled_reader.aclose()
        with suppress(*OUTAGES):
            await asyncio.wait_for(self._pool.close(), CLOSE_TIMEOUT_S)
