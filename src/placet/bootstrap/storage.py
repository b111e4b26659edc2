"""Choice of the storage engine by the database URL. No other module of the server imports an engine."""

from pathlib import Path
from stat import S_ISREG

from msgspec import Struct

from placet.errors import SettingsError
from placet.ports.store import Store
from placet.stores.sqlite.backup import back_up
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.stores.sqlite.migrate import migrate
from placet.stores.sqlite.store import SqliteStore

IN_MEMORY = ":memory:"
SQLITE = "sqlite://"


class SchemaChange(Struct, frozen=True, kw_only=True):
    """The schema version of a database before and after a migration; 0 for a new database."""

    before: int
    after: int


async def open_store(url: str) -> Store:
    """Open the database in the running event loop, and create it if it does not exist.

    `url` is `sqlite:///FILE`, a path, or `:memory:` for a database that ends with the process. Raises
    SettingsError for any other URL or an unusable path, and MigrationError for a schema of another version.
    """
    path = _read_path(url)
    return open_memory_store() if path is None else await SqliteStore.open(path)


def open_memory_store() -> Store:
    """Create an empty database in memory. It needs no event loop until it is used."""
    return InMemorySqliteStore()


def find_database_file(url: str) -> Path | None:
    """Return the file of the database, or None for one in memory. Raises SettingsError like open_store."""
    return _read_path(url)


def database_exists(url: str) -> bool:
    """Return whether there is a database at this URL. Raises SettingsError for an unsupported URL."""
    path = _read_path(url)
    return path is not None and path.is_file()


def migrate_database(url: str) -> SchemaChange:
    """Bring the schema up to this version. Raises SettingsError or MigrationError."""
    path = _read_path(url)
    if path is None:
        raise SettingsError("db: a database in memory cannot be migrated. Name a file.")
    state = migrate(path)
    return SchemaChange(before=state.version, after=state.known)


def back_up_database(url: str, target: Path) -> None:
    """Copy the database to a new file that only its owner can read. Raises SettingsError."""
    path = _read_path(url)
    if path is None:
        raise SettingsError("db: a database in memory cannot be copied. Name a file.")
    if not path.is_file():
        raise SettingsError(f"There is no database {url}. Pass its URL with --db.")
    back_up(path, target)


def _read_path(url: str) -> Path | None:
    """Return the SQLite file of a URL or path, or None for a database in memory."""
    if url.startswith("sqlite:") and not url.startswith(SQLITE):
        raise SettingsError(f"db: {url!r} has too few slashes. Use sqlite:///FILE, with three slashes.")
    scheme, separator, _ = url.partition("://")
    if not separator:
        return None if url == IN_MEMORY else _check_file(Path(url))
    if scheme != "sqlite":
        raise SettingsError(
            f"db: the storage engine {scheme!r} is not supported. Use sqlite:///FILE, a path, or {IN_MEMORY}."
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
