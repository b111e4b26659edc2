"""The admin key of a new database: written to a file that only its owner can read."""

import asyncio
import os
from pathlib import Path

from placet.bootstrap.storage import find_file_beside
from placet.desk import clock
from placet.desk.api_keys import create_key
from placet.errors import SettingsError
from placet.ports.key_store import KeyStore

SUFFIX = ".admin-key"
OWNER_ONLY = 0o600
OTHER_SERVER_TIMEOUT_S = 5.0
CHECK_INTERVAL_S = 0.05


async def write_first_admin_key(store: KeyStore, db: str) -> Path | None:
    """Create an admin key if the database has no key, and return the new file that contains it.

    Returns None if there is a key already. Raises SettingsError if the file exists or cannot be written.
    """
    if await store.list_api_keys():
        return None
    path = find_file_beside(db, SUFFIX)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, OWNER_ONLY)
    except FileExistsError:
        if await _has_key_soon(store):  # from another server that starts on the same database
            return None
        raise SettingsError(
            f"{path} already exists, but this database has no keys. The file contains the admin key of an"
            " earlier database: delete or move it, and start again."
        ) from None
    except OSError as error:
        raise SettingsError(f"The admin key cannot be written to {path}: {error.strerror}.") from error
    await _fill(descriptor, store, path)
    return path


async def _fill(descriptor: int, store: KeyStore, path: Path) -> None:
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, OWNER_ONLY)  # whatever the umask is
            secret = await create_key(store, "admin", scopes=("admin",), now=clock.now())
            file.write(f"{secret}\n")
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        os.unlink(path)
        raise SettingsError(
            f"The admin key cannot be written to {path}: {error.strerror}."
            " Create another one with `placet key create NAME --scope admin`."
        ) from error
    except BaseException:
        os.unlink(path)
        raise


async def _has_key_soon(store: KeyStore) -> bool:
    until = clock.monotonic() + OTHER_SERVER_TIMEOUT_S
    while not await store.list_api_keys():
        if clock.monotonic() > until:
            return False
        await asyncio.sleep(CHECK_INTERVAL_S)
    return True
