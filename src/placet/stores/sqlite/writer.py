"""The interface of the part of the store that writes."""

import asyncio
from typing import Protocol

from placet.stores.listeners import ChangeListener
from placet.stores.sqlite.batch import Rows
from placet.stores.sqlite.operation import WriteOperation


class Writer(Protocol):
    """Runs write operations, each in a transaction."""

    def submit(self, operation: WriteOperation) -> "asyncio.Future[Rows]":
        """Return the rows of the operation's last statement, once it is committed.

        Raises CaseConflict if the operation is refused, and Unavailable during an outage.
        """
        ...

    async def truncate_log(self) -> None:
        """Remove earlier writes from the write-ahead log."""
        ...

    def add_change_listener(self, listener: ChangeListener) -> None:
        """Call `listener` after each commit with every case that it changed; None: another process wrote."""
        ...

    def add_record_listener(self, listener: ChangeListener) -> None:
        """Call `listener` after each commit with every tenant whose records it changed."""
        ...

    def notify_record_listeners(self, tenant: str | None) -> None:
        """Report changed records of a tenant to the listeners; None: of any tenant."""
        ...

    async def finish(self) -> None:
        """Write what was submitted, and accept no more."""
        ...

    def close(self) -> None:
        """Close the connection, once finished."""
        ...
