"""The statements of queries.sql by name, so that SQL is read and written as SQL."""

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def named_queries(text: str) -> Mapping[str, str]:
    """Each statement under the `-- name:` line that introduces it."""
    _, *parts = _NAME.split(text)
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


QUERIES = named_queries(files("placet.stores.sqlite").joinpath("queries.sql").read_text("utf-8"))
