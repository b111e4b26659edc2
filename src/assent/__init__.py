"""Assent's public API: every name here is a promise, and is loaded only when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_EXPORTS: dict[str, str] = {}
"""Public name -> the module that defines it."""

__all__ = ["__version__", *sorted(_EXPORTS)]  # noqa: PLE0604 - the table holds strings only

# A type checker reads one `from module import Name as Name` for each entry of the table, and nothing that
# would let a misspelt name pass.
if TYPE_CHECKING:
    pass
else:

    def __getattr__(name: str) -> object:
        """Load a public name on first use: an agent never pays for the server, nor a server for the agent."""
        if name not in _EXPORTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
