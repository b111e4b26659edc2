"""The statements of queries.sql by name."""

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def parse_queries(text: str) -> Mapping[str, str]:
    """Return each statement by the name in the `-- name:` line above it."""
    _, *parts = _NAME.split(text)
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


QUERIES = parse_queries(files("placet.stores.sqlite").joinpath("queries.sql").read_text("utf-8"))
