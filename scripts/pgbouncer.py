"""Finds pgbouncer, which the tests of the PostgreSQL store start, or installs it; nothing here starts one."""

import os
import shutil
import sys
from pathlib import Path

from scripts import packages

SYSTEM_PATH = "/usr/sbin/pgbouncer"


class PgbouncerMissing(Exception):
    """pgbouncer was not found; install it with the system's packages (apt install pgbouncer, brew install
    pgbouncer), or set PGBOUNCER to an executable.
    """


def find() -> str:
    """The path of pgbouncer, or PgbouncerMissing."""
    found = os.environ.get("PGBOUNCER") or shutil.which("pgbouncer")
    if found is None and Path(SYSTEM_PATH).is_file():
        found = SYSTEM_PATH
    if found is None:
        raise PgbouncerMissing(" ".join((PgbouncerMissing.__doc__ or "").split()))
    return found


def main() -> None:
    """Make sure that pgbouncer is there, or leave with a message that says what to do."""
    try:
        find()
    except PgbouncerMissing:
        packages.install("pgbouncer")
    try:
        find()
    except PgbouncerMissing as missing:
        sys.exit(f"pgbouncer: {missing}")


if __name__ == "__main__":
    main()
