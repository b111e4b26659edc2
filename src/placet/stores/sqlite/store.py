"""The store in a SQLite file."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from placet.errors import Unavailable
from placet.ports.outbox_store import RETAIN_NOTICES_FOR
from placet.ports.store_maintenance import OperationHealth
from placet.sqlite_outages import SQLITE_OUTAGES
from placet.stores.sql.operation import WriteOperation
from placet.stores.sql.recent_cases import RecentCases
from placet.stores.sql.rows import to_micros
from placet.stores.sql.store import SqlStore
from placet.stores.sql.write_probe import WriteProbe
from placet.stores.sqlite.connection import connect_reader, connect_writer
from placet.stores.sqlite.database_file import DatabaseFile
from placet.stores.sqlite.file_writer import FileWriter
from placet.stores.sqlite.group_commit import GroupCommitWriter
from placet.stores.sqlite.migrate import prepare_file
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.storage_monitor import StorageMonitor
from placet.stores.sqlite.threaded_reader import FileReader, ThreadedReader

DELETE_REPLAYS = "delete_replays"
DELETE_GRANT_USES = "delete_grant_uses"
DELETE_NOTICES = "delete_notices"
DELETE_ATTEMPTS = "delete_expired_verification_attempts"
SELECT_RECORD_CHANGES = QUERIES["select_record_changes"]
SELECT_NOTHING = QUERIES["select_nothing"]


class SqliteStore(SqlStore):
    """Implements `Store` in one file. Other processes may read and write the file at the same time."""

    _reader: Reader
    _writer: FileWriter
    _long_reader: FileReader

    def __init__(
        self,
        reader: Reader,
        writer: FileWriter,
        long_reader: FileReader,
        monitor: StorageMonitor | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._long_reader = long_reader
        self._monitor = monitor or StorageMonitor()
        self._probe = WriteProbe(writer, self._monitor.writes)
        self._record_changes = self._count_record_changes()
        self._recent = RecentCases()
        writer.add_change_listener(self._evict)

    @classmethod
    async def open(cls, path: Path | str) -> Self:
        """Open the store at `path` in the running event loop, and create it if it does not exist.

        Raises SettingsError if the path cannot be used, MigrationError if the schema has another version.
        """
        path = Path(path)
        prepare_file(path)
        connection = connect_writer(path)
        monitor = StorageMonitor(DatabaseFile(path, connection))
        reader, writer = Reader(connect_reader(path), monitor), GroupCommitWriter(connection, monitor)
        return cls(reader, writer, ThreadedReader(path, monitor), monitor)

    async def check_ready(self) -> None:
        """Raise Unavailable if the file cannot be read or written, was replaced, or was found damaged."""
        self._monitor.check_files()
        self._reader.fetch(SELECT_NOTHING)
        await self._probe.run()
        if any(operation.is_failing for operation in self.read_health().values()):
            raise Unavailable()

    def read_health(self) -> Mapping[str, OperationHealth]:
        """See `StoreMaintenance`."""
        return self._monitor.read_health()

    async def purge(self, now: datetime) -> int:
        """Delete expired rows and remove erased content from the log; see `StoreMaintenance`."""
        expired, settled = (to_micros(now),), (to_micros(now - RETAIN_NOTICES_FOR),)
        deletions = WriteOperation(
            statements=(
                (DELETE_ATTEMPTS, expired),
                (DELETE_GRANT_USES, expired),
                (DELETE_NOTICES, settled),
                (DELETE_REPLAYS, expired),
            )
        )
        deleted = len(await self._writer.submit(deletions))
        with suppress(*SQLITE_OUTAGES):  # the next purge tries again
            await self._long_reader.checkpoint_log()  # most of the work, without blocking writers
            await self._writer.truncate_log()
        return deleted

    async def aclose(self) -> None:
        """Finish the accepted writes and close."""
        await self._writer.finish()
        await self._long_reader.aclose()
        self._reader.close()  # first: the last connection to close checkpoints the log, and a reader cannot
        self._writer.close()

    def _evict(self, case_id: str | None) -> None:
        if case_id is not None:
            # A commit can be read before it is reported, so the cached row may be older than the commit.
            self._recent.remove(case_id)
            return
        self._recent.clear()  # another process wrote, and may have changed any case
        self._check_records()

    def _check_records(self) -> None:
        """Notify the listeners if another process has changed records."""
        try:
            changes = self._count_record_changes()
        except Unavailable:
            changes = -1  # the listeners read the records, and get the error
        if changes != self._record_changes:
            self._record_changes = changes
            self._writer.notify_record_listeners(None)

    def _count_record_changes(self) -> int:
        found = self._reader.fetch(SELECT_RECORD_CHANGES)
        return int(found[0][0]) if found else 0
