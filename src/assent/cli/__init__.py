"""The command line: `assent …`."""

from assent.cli.main import main

__all__ = ["main"]
