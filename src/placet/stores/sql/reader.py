"""The interface of the parts of a store that read."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from placet.stores.sql.rows import Params

T = TypeVar("T")


class SqlReader(Protocol):
    """Runs the named queries of an engine on committed rows."""

    async def rows(
        self, query: str, params: Params = (), *, terms: str = "", index: str | None = None
    ) -> list[Any]:
        """Return all rows, or none if a parameter is a value that the engine cannot store.

        `terms` is SQL that completes the query, with `?` for each parameter. `index` names the index to use,
        for engines that do not choose it from statistics. Raises Unavailable.
        """
        ...

    async def row(self, query: str, params: Params = (), *, terms: str = "", index: str | None = None) -> Any:
        """Return the first row, or None."""
        ...


class LongReader(Protocol):
    """Runs reads that may take long, or that need several queries."""

    async def run(self, read: Callable[[SqlReader], Awaitable[T]], *, at_once: bool = False) -> T:
        """Return what `read` returns; `at_once`: all its queries see the same commit. Raises Unavailable."""
        ...

    async def aclose(self) -> None:
        """Finish the reads that were accepted, and close."""
        ...
