"""Choice of the storage engine by the database URL. No other module of the server imports an engine."""

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from placet.errors import MigrationError, SettingsError
from placet.ports.store import Store
from placet.stores.sqlite.backup import back_up
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.stores.sqlite.migrate import migrate, read_schema_state
from placet.stores.sqlite.store import SqliteStore
from placet.stores.sqlite.table_reader import open_tables

if TYPE_CHECKING:
    from placet.stores.postgres.connection import PostgresAddress

IN_MEMORY = ":memory:"
SQLITE = "sqlite://"
POSTGRES_SCHEMES = ("postgresql", "postgres")
DIRECT = "direct"
"""The part of a PostgreSQL URL that names the server behind a pooler: HOST:PORT, or a socket's folder."""


class SchemaChange(Struct, frozen=True, kw_only=True):
    """The schema version of a database before and after a migration; 0 for a new database."""

    before: int
    after: int


async def open_store(url: str) -> Store:
    """Open the database in the running event loop, and create it if it does not exist.

    `url` is `sqlite:///FILE`, a path, `:memory:` for a database that ends with the process, or
    `postgresql://USER@HOST/NAME`. Raises SettingsError for any other URL or an unusable path, and
    MigrationError for a schema of another version.
    """
    if _is_postgres(url):
        from placet.stores.postgres.store import PostgresStore

        return await PostgresStore.open(_read_address(url))
    path = _read_path(url)
    return open_memory_store() if path is None else await SqliteStore.open(path)


def open_memory_store() -> Store:
    """Create an empty database in memory. It needs no event loop until it is used."""
    return InMemorySqliteStore()


def find_file_beside(url: str, suffix: str) -> Path:
    """Return the path of a file with this suffix beside the database.

    Without a file of the database, that is a path in the current folder, or for a database in memory in a new
    temporary folder. Raises SettingsError like open_store.
    """
    if _is_postgres(url):
        return Path(f"placet{suffix}").absolute()
    path = _read_path(url)
    if path is None:
        return Path(tempfile.mkdtemp(prefix="placet-")) / f"placet{suffix}"
    return path.resolve().with_name(path.name + suffix)


def describe_database(url: str) -> str:
    """Return the URL without its password, for messages and logs."""
    if not _is_postgres(url):
        return url
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = [(name, "***" if name == "password" else value) for name, value in parse_qsl(parts.query)]
    return urlunsplit(
        parts._replace(netloc=user.partition(":")[0] + at + host, query=urlencode(query, safe=":/*"))
    )


def database_exists(url: str) -> bool:
    """Return whether there is a database at this URL. Raises SettingsError for an unsupported URL.

    Call it outside of an event loop.
    """
    if _is_postgres(url):
        from placet.stores.postgres.migrate import find_schema_state

        return not asyncio.run(find_schema_state(_read_address(url))).is_empty
    path = _read_path(url)
    return path is not None and path.is_file()


def migrate_database(url: str) -> SchemaChange:
    """Bring the schema up to this version. Raises SettingsError or MigrationError."""
    if _is_postgres(url):
        from placet.stores.postgres.migrate import migrate as migrate_postgres

        found = asyncio.run(migrate_postgres(_read_address(url)))
        return SchemaChange(before=found.version, after=found.known)
    path = _read_path(url)
    if path is None:
        raise SettingsError("db: a database in memory cannot be migrated. Name a file.")
    state = migrate(path)
    return SchemaChange(before=state.version, after=state.known)


def back_up_database(url: str, target: Path) -> None:
    """Copy the database to a new file that only its owner can read. Raises SettingsError."""
    if _is_postgres(url):
        raise SettingsError("db: `placet backup` copies SQLite files. Use pg_dump for a PostgreSQL database.")
    path = _read_path(url)
    if path is None:
        raise SettingsError("db: a database in memory cannot be copied. Name a file.")
    if not path.is_file():
        raise SettingsError(f"There is no database {url}. Pass its URL with --db.")
    back_up(path, target)


def copy_database(source: str, target: str) -> Mapping[str, int]:
    """Copy a SQLite file into an empty PostgreSQL database, and return how many rows of each table.

    Stop the servers first: what they write meanwhile is not copied. Raises SettingsError or MigrationError.
    Call it outside of an event loop.
    """
    path = None if _is_postgres(source) else _read_path(source)
    if path is None or not _is_postgres(target):
        raise SettingsError("A SQLite file can be copied into PostgreSQL, and nothing else.")
    if not path.is_file():
        raise SettingsError(f"There is no database {source}.")
    state = read_schema_state(path)
    if not state.is_current:
        raise MigrationError(
            f"{path} has schema {state.version}, and this version needs {state.known}. Run `placet migrate`."
        )
    from placet.stores.postgres.table_copy import copy_tables

    with open_tables(path) as tables:
        return asyncio.run(copy_tables(tables, _read_address(target)))


def _is_postgres(url: str) -> bool:
    return url.partition("://")[0] in POSTGRES_SCHEMES and "://" in url


def _read_address(url: str) -> "PostgresAddress":
    """Return the address of work, and the direct one if the URL names it."""
    from placet.stores.postgres.connection import PostgresAddress

    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    direct = [value for name, value in query if name == DIRECT]
    rest = urlencode([(name, value) for name, value in query if name != DIRECT], safe="/:")
    if not direct:
        return PostgresAddress(url=url)
    if len(direct) > 1 or not direct[0]:
        raise SettingsError(f"db: {DIRECT} names one server, as HOST or HOST:PORT.")
    user, at, _ = parts.netloc.rpartition("@")
    behind = parts._replace(netloc=user + at + quote(direct[0], safe=":[]"), query=rest)
    return PostgresAddress(url=urlunsplit(parts._replace(query=rest)), direct_url=urlunsplit(behind))


def _read_path(url: str) -> Path | None:
    """Return the SQLite file of a URL or path, or None for a database in memory."""
    if url.startswith("sqlite:") and not url.startswith(SQLITE):
        raise SettingsError(f"db: {url!r} has too few slashes. Use sqlite:///FILE, with three slashes.")
    scheme, separator, _ = url.partition("://")
    if not separator:
        return None if url == IN_MEMORY else _check_file(Path(url))
    if scheme != "sqlite":
        raise SettingsError(
            f"db: the storage engine {scheme!r} is not supported. Use sqlite:///FILE, a path, {IN_MEMORY}, or"
            " postgresql://USER@HOST/NAME."
        )
    rest = url.removeprefix(SQLITE)
    if "?" in rest:
        raise SettingsError(f"db: {url!r} has options. Use sqlite:///FILE, which has no options.")
    if rest in ("", "/", f"/{IN_MEMORY}"):
        return None
    if not rest.startswith("/"):
        raise SettingsError(f"db: {url!r} names a host. Use sqlite:///FILE, with three slashes.")
    return _check_file(Path(rest[1:]))


def _check_file(path: Path) -> Path:
    """Return the path; raise SettingsError if it cannot be a file, or if something else is there."""
    try:
        is_file = S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return path
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(f"The database {str(path)[:200]} cannot be used: {reason}.") from error
    if not is_file:
        raise SettingsError(f"The database {path} cannot be used: it is not a file.")
    return path
