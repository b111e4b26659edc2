"""The settings and the database of a command that runs beside the server."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from placet.errors import SettingsError
from placet.ports.store import Store
from placet.settings import LoadedSettings, load

T = TypeVar("T")


def load_settings(config: Path | None = None, **flags: Any) -> LoadedSettings:
    """Return the effective settings: options first, then the environment, then the configuration file."""
    return load(environ=os.environ, flags=flags, file=config)


def run_with_store(db: str, work: Callable[[Store], Awaitable[T]], *, create: bool = False) -> T:
    """Run `work` on the store at this URL or path; without `create` the database must exist."""
    from placet.bootstrap.storage import open_store  # it needs the `server` extra

    if not create and not has_database(db):
        raise SettingsError(
            f"There is no database {hide_password(db)}. Pass its URL with --db, or start `placet serve`."
        )

    async def run() -> T:
        store = await open_store(db)
        try:
            return await work(store)
        finally:
            await store.aclose()

    return asyncio.run(run())


def hide_password(db: str) -> str:
    """Return the URL of a database as messages may show it."""
    from placet.bootstrap.storage import describe_database  # it needs the `server` extra

    return describe_database(db)


def has_database(db: str) -> bool:
    """Return whether there is a database at this URL or path."""
    from placet.bootstrap.storage import database_exists  # it needs the `server` extra

    return database_exists(db)
