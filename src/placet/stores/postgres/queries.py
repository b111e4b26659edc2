"""The statements of queries.sql by name."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import count

from msgspec import Struct

from placet.stores.sql.operation import WriteOperation
from placet.stores.sql.queries import complete_query, load_queries
from placet.stores.sql.rows import Params, Row, Value

QUERIES = load_queries("placet.stores.postgres")
ORDER = {name: place for place, name in enumerate(QUERIES)}
SET_STATEMENTS = frozenset(name for name, sql in QUERIES.items() if "::text[]" in sql)
"""Statements that write the rows of many operations at once."""
NUMBERED = frozenset(("insert_case", "insert_event"))
"""Statements whose rows get the next number of the log as their last parameter."""
LOG_STATEMENTS = NUMBERED | {"insert_grant"}


class RowKey(Struct, frozen=True):
    """What a statement's rows are identified by: the first parameters."""

    table: str
    length: int


_ESCAPED = re.compile("\1[\1\2]")

KEYS = {
    "insert_case": RowKey("cases", 1),
    "update_case": RowKey("cases", 1),
    "link_case": RowKey("cases", 1),
    "upsert_draft": RowKey("cases", 1),
    "delete_draft": RowKey("cases", 1),
    "insert_replay": RowKey("replays", 2),
    "insert_spent_evidence": RowKey("spent_evidence", 1),
    "insert_grant": RowKey("grants", 1),
    "insert_grant_use": RowKey("grant_uses", 2),
    "insert_hold": RowKey("holds", 1),
    "update_hold": RowKey("holds", 1),
    "insert_endpoint": RowKey("endpoints", 2),
    "disable_endpoint": RowKey("endpoints", 2),
    "settle_delivery": RowKey("deliveries", 1),
    "upsert_task": RowKey("relay_tasks", 4),
}


def list_keys(operation: WriteOperation) -> frozenset[tuple[object, ...]]:
    """Return what an operation writes. Two that share a key do not fit into one batch."""
    return frozenset(
        (key.table, *params[: key.length])
        for name, params in (*operation.guards, *operation.statements)
        if (key := KEYS.get(name)) is not None
    )


@lru_cache(maxsize=512)
def build_sql(query: str, terms: str) -> str:
    """Return the statement with this name, completed by terms with `?` for each parameter."""
    if not terms:
        return QUERIES[query]
    parts = complete_query(QUERIES[query], terms).split("?")
    numbers = count(1)
    return "".join([f"{part}${next(numbers)}" for part in parts[:-1]] + parts[-1:])


def transpose(rows: Sequence[Params]) -> list[list[object]]:
    """Return the parameters of a set statement: one array for each column."""
    return [list(map(escape, column)) for column in zip(*rows, strict=True)]


def escape(value: Value) -> Value:
    """Return a value that PostgreSQL can store: its text has no zero character."""
    if isinstance(value, str) and ("\0" in value or "\1" in value):
        return value.replace("\1", "\1\1").replace("\0", "\1\2")
    return value


def unescape(row: Row) -> Row:
    """Return a row as it was before `escape`."""
    if any(isinstance(value, str) and "\1" in value for value in row):
        return tuple(_unescape_text(value) if isinstance(value, str) else value for value in row)
    return row


def _unescape_text(value: str) -> str:
    return _ESCAPED.sub(lambda found: "\1" if found[0] == "\1\1" else "\0", value)
