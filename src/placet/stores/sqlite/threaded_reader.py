"""Reads that may take long, such as counting the rows that match a filter, in threads."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from placet.errors import Unavailable
from placet.sqlite_outages import SQLITE_OUTAGES
from placet.stores.sql.reader import LongReader, SqlReader
from placet.stores.sqlite.connection import checkpoint_log, connect_reader
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.storage_monitor import StorageMonitor

THREADS = 2  # a short read does not wait behind a long one
BEGIN_READING, COMMIT = QUERIES["begin_reading"], QUERIES["commit"]
T = TypeVar("T")


class FileReader(LongReader, Protocol):
    """Runs reads that may take long, and copies the log."""

    async def checkpoint_log(self) -> None:
        """Copy the write-ahead log into the database file, as far as readers and writers allow."""
        ...


class ThreadedReader:
    """A `FileReader` that does not block the event loop. Each thread opens the file at its first read."""

    def __init__(self, path: Path, monitor: StorageMonitor | None = None) -> None:
        self._path = path
        self._monitor = monitor or StorageMonitor()
        self._local = threading.local()
        self._readers: list[Reader] = []
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="placet-reads")
        self._closed = False

    async def run(self, read: Callable[[SqlReader], Awaitable[T]], *, at_once: bool = False) -> T:
        """Run `read` in a thread; see `LongReader`."""
        return await self._submit(lambda: run_read(read, self._get_thread_reader(), at_once=at_once))

    async def checkpoint_log(self) -> None:
        """See `LongReader`."""
        await self._submit(self._checkpoint_log)

    async def aclose(self) -> None:
        """See `LongReader`."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        for reader in self._readers:
            reader.close()

    async def _submit(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable("The store is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _get_thread_reader(self) -> Reader:
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._open_reader()
            self._readers.append(reader)
        return reader

    def _open_reader(self) -> Reader:
        try:
            connection = connect_reader(self._path)
            self._monitor.require_in_place()  # it may have opened another file
        except SQLITE_OUTAGES as error:
            self._monitor.reads.report_failure(error)
            raise Unavailable(f"The database cannot be read right now ({error}).") from error
        return Reader(connection, self._monitor)

    def _checkpoint_log(self) -> None:
        self._monitor.require_in_place()
        checkpoint_log(self._path)


def run_read(read: Callable[[SqlReader], Awaitable[T]], reader: Reader, *, at_once: bool) -> T:
    """Return what `read` returns. It awaits nothing but this reader, so it ends without an event loop."""
    if not at_once:
        return _run_without_loop(read(reader))
    reader.fetch(BEGIN_READING)
    try:
        return _run_without_loop(read(reader))
    finally:
        reader.fetch(COMMIT)


def _run_without_loop(awaitable: Awaitable[T]) -> T:
    try:
        next(awaitable.__await__())
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise RuntimeError("a read has to await its reader only")
