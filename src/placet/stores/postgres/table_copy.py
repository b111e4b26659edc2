"""Copies the tables of another database into an empty PostgreSQL database, in one transaction."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from placet.errors import SettingsError
from placet.stores.postgres.connection import PostgresAddress, PostgresConnection, connect_directly
from placet.stores.postgres.migrate import migrate
from placet.stores.postgres.queries import escape
from placet.stores.sql.rows import Row

OWN_TABLES = ("placet_schema", "log_heads", "owner_usage")
"""Tables that the other engine does not have, or that triggers fill."""
LIST_COLUMNS = """
SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position), bool_or(is_identity = 'YES')
FROM information_schema.columns WHERE table_schema = current_schema() GROUP BY table_name
"""
MOVE_LOG = """
UPDATE log_heads SET
  cases = (SELECT count(*) FROM cases), events = (SELECT count(*) FROM events),
  grants = (SELECT count(*) FROM grants), checkpoints = (SELECT count(*) FROM checkpoints),
  audit_events = (SELECT coalesce(max(number), 0) FROM audit_events)
"""


class SourceTables(Protocol):
    """The tables of the other database."""

    def has_table(self, table: str) -> bool:
        """Return whether there is a table with this name."""
        ...

    def count_rows(self, table: str) -> int:
        """Return how many rows a table has."""
        ...

    def iterate_rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Yield every row of a table, in the order in which rows with a number were added."""
        ...


async def copy_tables(source: SourceTables, address: PostgresAddress) -> Mapping[str, int]:
    """Copy all tables, and return how many rows of each were copied.

    Raises SettingsError, and changes no row, if the database is not empty or a table does not arrive whole.
    """
    await migrate(address, only_new=True)
    connection = await connect_directly(address)
    try:
        async with connection.transaction():
            return await _copy(source, connection)
    finally:
        await connection.close()


async def _copy(source: SourceTables, connection: PostgresConnection) -> Mapping[str, int]:
    copied: dict[str, int] = {}
    tables = {table: (columns, identity) for table, columns, identity in await connection.fetch(LIST_COLUMNS)}
    names = [table for table in tables if table not in OWN_TABLES and source.has_table(table)]
    for table in sorted(names, key=lambda name: (name != "cases", name)):  # the others refer to cases
        if await _count_rows(connection, table):
            raise SettingsError(f"The database is not empty: it has rows in {table}. Name an empty database.")
        columns, has_identity = tables[table]
        rows = (tuple(map(escape, row)) for row in source.iterate_rows(table, columns))
        await connection.copy_records_to_table(table, records=rows, columns=columns, timeout=None)
        copied[table] = await _count_rows(connection, table)
        if copied[table] != source.count_rows(table):
            raise SettingsError(f"The table {table} did not arrive whole. Nothing was copied; try again.")
        if has_identity:
            last = await connection.fetchval(f'SELECT max(number) FROM "{table}"')  # noqa: S608
            await connection.execute("SELECT setval(pg_get_serial_sequence($1, 'number'), $2)", table, last)
    await connection.execute(MOVE_LOG)
    return copied


async def _count_rows(connection: PostgresConnection, table: str) -> int:
    """Return how many rows a table has; its name comes from the schema."""
    count: int = await connection.fetchval(f'SELECT count(*) FROM "{table}"')  # noqa: S608
    return count
