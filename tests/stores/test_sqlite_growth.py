"""Every statement uses an index, so its cost does not grow with the number of cases."""

import re
from pathlib import Path

import apsw
import pytest

from placet.stores.sql.queries import parse_queries
from placet.stores.sqlite.connection import connect_writer
from placet.stores.sqlite.migrate import prepare_file
from placet.stores.sqlite.queries import QUERIES

# Of these there are a handful, they are only the beginning of a query, or they verify the whole log.
SMALL = {
    "select_api_keys",
    "select_passkeys",
    "select_signing_keys",
    "select_endpoints",
    "select_deliveries",
    "select_grants",
    "select_state",
    "select_records",
    "select_records_of_tenant",
    "select_holds",
    "count_holds",
    "select_audit_events",
    "select_numbered_audit_events",
    "count_audit_events",
    "count_traces",
    "select_traces",
    "select_audit_heads",  # one row for each tenant
    "select_last_checkpoint",  # one row, from the end of the table
}
# The verification of the log reads everything, in a thread of its own.
WHOLE = {"select_stray_rows", "select_log_size"}
# Parts of a statement that have one row, or as many as its limit.
BOUNDED = "newest|json_each|audited|place|expired|oldest|CONSTANT ROW"
PLANNED = [
    name for name, sql in QUERIES.items() if re.match(r"(--.*\n)*(SELECT|INSERT|UPDATE|DELETE|WITH)", sql)
]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> apsw.Connection:
    path: Path = tmp_path_factory.mktemp("growth") / "placet.db"
    prepare_file(path)
    return connect_writer(path)


@pytest.mark.parametrize("name", [name for name in PLANNED if name not in SMALL | WHOLE])
def test_a_statement_finds_its_rows_through_an_index(connection: apsw.Connection, name: str) -> None:
    sql = re.sub(r"--.*", "", QUERIES[name])
    count = max((int(number) for number in re.findall(r"\?(\d+)", sql)), default=0)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * count)]
    assert [line for line in plan if re.match(rf"SCAN (?!{BOUNDED})|USE TEMP B-TREE", line)] == []


def test_queries_are_read_by_name() -> None:
    text = "-- name: one\nSELECT 1\n\n-- name: two\n-- because\nSELECT 2\n"
    assert parse_queries(text) == {"one": "SELECT 1", "two": "-- because\nSELECT 2"}
