"""The statements of an engine by name, from its file `queries.sql`."""

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
TERMS = "{terms}"
"""Where the terms of a query stand that does not end with them."""


def load_queries(package: str) -> Mapping[str, str]:
    """Return the statements of the engine in this package."""
    return parse_queries(files(package).joinpath("queries.sql").read_text("utf-8"))


def parse_queries(text: str) -> Mapping[str, str]:
    """Return each statement by the name in the `-- name:` line above it."""
    _, *parts = _NAME.split(text)
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def complete_query(sql: str, terms: str) -> str:
    """Return the statement with its terms: in their place, or at its end."""
    return sql.replace(TERMS, terms) if TERMS in sql else f"{sql} {terms}"
