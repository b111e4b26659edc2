"""Draws the tables of errors: those that travel, by status and code, and those that stay in Python."""

from placet.errors import PlacetError
from placet.http.openapi import list_wire_errors
from scripts.drawing import code, table


def draw_wire() -> str:
    """Every code that a caller can be told."""
    errors = sorted(list_wire_errors(), key=lambda error: (error.status, error.code))
    rows = [(error.status, code(error.code), code(error.__name__), _sentence(error)) for error in errors]
    return table(("Status", "`error`", "In Python", "Meaning"), rows)


def draw_local() -> str:
    """What only a program that uses the package can meet."""
    rows = [(code(error.__name__), _sentence(error)) for error in _family(PlacetError) if error.status == 500]
    return table(("In Python", "Meaning"), rows)


def _family(error: type[PlacetError]) -> list[type[PlacetError]]:
    own = [kind for kind in error.__subclasses__() if kind.__module__ == PlacetError.__module__]
    return [error, *(member for kind in own for member in _family(kind))]


def _sentence(error: type[PlacetError]) -> str:
    return (error.__doc__ or "").strip().splitlines()[0]
