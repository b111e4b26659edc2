"""A consistent copy of a database file, while a server may be writing to it."""

import os
from contextlib import closing, suppress
from pathlib import Path

import apsw

from placet.errors import SettingsError
from placet.stores.sqlite.connection import BUSY_FOR_MS

OWNER_ONLY = 0o600


def back_up(source: Path, target: Path) -> None:
    """Copy the database to a new file that only its owner can read.

    Raises SettingsError if the target exists, or if either file cannot be used; then there is no target.
    """
    _create_private(target)
    try:
        _copy(source, target)
    except BaseException as error:
        with suppress(OSError):
            target.unlink()
        if isinstance(error, apsw.Error):
            raise SettingsError(f"The database {source} cannot be copied to {target}: {error}.") from error
        raise


def _create_private(target: Path) -> None:
    """Create the file with its mode before anything is in it."""
    try:
        descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, OWNER_ONLY)
    except FileExistsError:
        raise SettingsError(f"{target} already exists. Name a new file.") from None
    except OSError as error:
        raise SettingsError(f"The backup cannot be written to {target}: {error.strerror}.") from error
    try:
        os.fchmod(descriptor, OWNER_ONLY)  # whatever the umask is
    finally:
        os.close(descriptor)


def _copy(source: Path, target: Path) -> None:
    with (
        closing(apsw.Connection(str(source.absolute()), flags=apsw.SQLITE_OPEN_READWRITE)) as origin,
        closing(apsw.Connection(str(target.absolute()), flags=apsw.SQLITE_OPEN_READWRITE)) as copy,
    ):
        origin.set_busy_timeout(BUSY_FOR_MS)
        with copy.backup("main", origin, "main") as backup:
            backup.step(-1)  # all pages in one read transaction: later writes do not restart the copy
