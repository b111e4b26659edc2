"""Folders that sync at no cost, for what is not a test of how a disk fails."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - the folder in it has a random name
ENOUGH = 512 * 2**20


@contextmanager
def make_memory_folder() -> Iterator[Path]:
    """In memory, where there is enough of it: savers and servers sync much, and no test pulls the plug.

    Not in pytest's folder: where the tests run as root PostgreSQL is another user, and must get in.
    """
    quick = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH
    folder = Path(tempfile.mkdtemp(prefix="placet-", dir=MEMORY if quick else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
