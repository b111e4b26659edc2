"""Reads that may take long, such as counting what fits a filter, in threads of their own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from placet.errors import Unavailable
from placet.stores.sqlite.reader import Reader

THREADS = 2  # one may be long at work, and a short question still has its turn
T = TypeVar("T")


class PageReader:
    """Answers questions while the event loop goes on; each thread opens the file when it is first asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own = threading.local()
        self._readers: list[Reader] = []
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="placet-pages")
        self._closed = False

    async def ask(self, question: Callable[[Reader], T]) -> T:
        """The answer to a question; raises Unavailable."""
        if self._closed:
            raise Unavailable("The store is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question)

    async def aclose(self) -> None:
        """Answer what was asked, and let go of the file."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        for reader in self._readers:
            reader.close()

    def _answer(self, question: Callable[[Reader], T]) -> T:
        reader: Reader | None = getattr(self._own, "reader", None)
        if reader is None:
            reader = self._own.reader = Reader(self.path)
            self._readers.append(reader)
        return question(reader)
