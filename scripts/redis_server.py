"""Finds redis-server, which the tests of RedisSaver start, or installs it; nothing here starts one."""

import os
import shutil
import sys

from scripts import packages


class RedisMissing(Exception):
    """redis-server was not found; install it with the system's packages (apt install redis-server, brew
    install redis), or set REDIS_SERVER to an executable.
    """


def find() -> str:
    """The path of redis-server, or RedisMissing."""
    found = os.environ.get("REDIS_SERVER") or shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        raise RedisMissing(" ".join((RedisMissing.__doc__ or "").split()))
    return found


def main() -> None:
    """Make sure that redis-server is there, or leave with a message that says what to do."""
    try:
        find()
    except RedisMissing:
        packages.install("redis-server")
    try:
        find()
    except RedisMissing as missing:
        sys.exit(f"redis: {missing}")


if __name__ == "__main__":
    main()
