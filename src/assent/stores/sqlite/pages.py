"""Reads that may take long, such as counting what fits a filter, in a thread of their own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from assent.errors import Unavailable
from assent.stores.sqlite.reader import Reader

T = TypeVar("T")


class PageReader:
    """A reader for one question at a time, so that the event loop goes on meanwhile; opened when needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader: Reader | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assent-pages")
        self._closed = False

    async def ask(self, question: Callable[[Reader], T]) -> T:
        """The answer to a question; raises Unavailable."""
        if self._closed:
            raise Unavailable("The store is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)

    async def aclose(self) -> None:
        """Answer what was asked, and let go of the file."""
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _answer(self, question: Callable[[Reader], T]) -> T:
        if self._reader is None:
            self._reader = Reader(self._path)
        return question(self._reader)

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
