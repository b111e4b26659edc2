"""A real PostgreSQL for the tests of the store, and how to empty a database."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from placet.stores.postgres.connection import PostgresAddress
from placet.stores.postgres.migrate import migrate
from tests.hook.savers.servers import running_postgres

LIST_TABLES = "SELECT string_agg(format('%I', tablename), ', ') FROM pg_tables WHERE schemaname = 'public'"


@contextmanager
def running_database() -> Iterator[str]:
    """Start a server, and yield the URL of a database with our schema."""
    with running_postgres() as server:
        url = str(server.get_uri())
        asyncio.run(_create_schema(url))
        yield url


async def _create_schema(url: str) -> None:
    await migrate(PostgresAddress(url=url))


async def empty_database(url: str) -> None:
    """Remove all rows, past the triggers that protect the log."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetchval(LIST_TABLES)
        version = await connection.fetchval("SELECT version FROM placet_schema")
        await connection.execute(
            f"SET session_replication_role = replica; TRUNCATE {tables} RESTART IDENTITY;"
            f"INSERT INTO log_heads VALUES (0, 0, 0, 0, 0); INSERT INTO placet_schema VALUES ({version})"
        )
    finally:
        await connection.close()
