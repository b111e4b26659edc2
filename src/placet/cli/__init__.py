"""The command line: `placet …`."""

from placet.cli.main import main

__all__ = ["main"]
