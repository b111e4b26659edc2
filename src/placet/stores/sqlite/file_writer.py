"""The interface of a writer of a database with a write-ahead log."""

from typing import Protocol

from placet.stores.sql.writer import Writer


class FileWriter(Writer, Protocol):
    """A `Writer` that can also empty the log and close its connection."""

    async def truncate_log(self) -> None:
        """Remove earlier writes from the write-ahead log."""
        ...

    def close(self) -> None:
        """Close the connection, once finished."""
        ...
