"""The interface of the part of a store that writes."""

import asyncio
from typing import Any, Protocol

from placet.stores.listeners import ChangeListener
from placet.stores.sql.operation import WriteOperation

Rows = list[Any]


class Writer(Protocol):
    """Runs write operations, each in a transaction."""

    def submit(self, operation: WriteOperation) -> "asyncio.Future[Rows]":
        """Return the rows of the operation's last statement, once it is committed.

        Raises CaseConflict if the operation is refused, and Unavailable during an outage.
        """
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
