"""What the connections to one database know of its failures."""

from collections.abc import Mapping

from placet.ports.store_maintenance import OperationHealth
from placet.stores.sql.outage_log import OutageLog
from placet.stores.sqlite.database_file import CommitLost, DatabaseFile, DatabaseReplaced


class StorageMonitor:
    """Checks the files of a database, and records the outages of reads and writes."""

    def __init__(self, file: DatabaseFile | None = None) -> None:
        """Take the files of the database; None: it is in memory."""
        self._file = file
        self.reads = OutageLog("read")
        self.writes = OutageLog("write")

    @property
    def is_replaced(self) -> bool:
        """Whether the last check found that the database was deleted, moved or replaced."""
        return self._file is not None and self._file.is_replaced

    def require_in_place(self) -> None:
        """Raise DatabaseReplaced if a file of the database was deleted, moved or replaced."""
        if self._file is not None:
            self._file.require_in_place()

    def require_in_place_after_commit(self) -> None:
        """Raise CommitLost if the commit went to a file that was replaced."""
        try:
            self.require_in_place()
        except DatabaseReplaced as error:
            raise CommitLost(str(error)) from error

    def check_files(self) -> None:
        """Check the files between writes, and log it if they were replaced."""
        try:
            self.require_in_place()
        except DatabaseReplaced as error:
            self.writes.report_failure(error, refused=0)

    def read_health(self) -> Mapping[str, OperationHealth]:
        """Return what was refused so far, by operation."""
        return {
            name: OperationHealth(refused=outages.refused, is_failing=outages.is_failing)
            for name, outages in (("read", self.reads), ("write", self.writes))
        }
