"""Finds wrk, the load generator of the bench, or installs it."""

import shutil
import sys

from scripts import packages


class LoadGeneratorMissing(Exception):
    """wrk was not found; install it with the system's packages (apt install wrk, brew install wrk)."""


def find() -> str:
    """The path of wrk, or LoadGeneratorMissing."""
    found = shutil.which("wrk")
    if found is None:
        raise LoadGeneratorMissing(LoadGeneratorMissing.__doc__)
    return found


def main() -> None:
    """Make sure that wrk is there, or leave with a message that says what to do."""
    if shutil.which("wrk") is None:
        packages.install("wrk")
    try:
        find()
    except LoadGeneratorMissing as missing:
        sys.exit(f"wrk: {missing}")


if __name__ == "__main__":
    main()
