"""Migration of a database to the schema of this version, by numbered scripts."""

from collections.abc import Mapping
from importlib.resources import files

import asyncpg

from placet.errors import MigrationError, SettingsError
from placet.stores.postgres.connection import PostgresAddress, PostgresConnection, connect_directly
from placet.stores.postgres.outages import OUTAGES, describe
from placet.stores.sql.schema_state import SchemaState, list_scripts

MIGRATIONS: Mapping[int, str] = list_scripts(files("placet.stores.postgres").joinpath("migrations"))
LOCK = 0x506C6374
"""Of two processes that migrate at once, one waits. The lock ends with its transaction."""
CREATE_VERSION = "CREATE TABLE IF NOT EXISTS placet_schema (version integer NOT NULL)"
VERSION = "SELECT version FROM placet_schema"


async def read_schema_state(connection: PostgresConnection) -> SchemaState:
    """Return the state of a database."""
    if await connection.fetchval("SELECT to_regclass('placet_schema')") is None:
        return SchemaState(version=0, known=max(MIGRATIONS))
    version = await connection.fetchval(VERSION)
    return SchemaState(version=version or 0, known=max(MIGRATIONS))


async def find_schema_state(address: PostgresAddress) -> SchemaState:
    """Return the state of the database at this address. Raises SettingsError if it cannot be reached."""
    connection = await _connect(address)
    try:
        return await read_schema_state(connection)
    finally:
        await connection.close()


async def migrate(address: PostgresAddress, *, only_new: bool = False) -> SchemaState:
    """Run every migration that the database lacks, and return its state before.

    `only_new`: do nothing to a database that has a schema already. Raises SettingsError if the database
    cannot be reached, MigrationError if its schema is too new.
    """
    connection = await _connect(address)
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            state = await read_schema_state(connection)
            if state.version > state.known:
                raise MigrationError(
                    f"The database has schema {state.version}, and this version knows {state.known}. "
                    "Upgrade Placet, or restore a backup."
                )
            if state.is_current or (only_new and not state.is_empty):
                return state
            await connection.execute(CREATE_VERSION)
            for number in range(state.version + 1, state.known + 1):
                await connection.execute(MIGRATIONS[number])
            await connection.execute("DELETE FROM placet_schema")
            await connection.execute("INSERT INTO placet_schema VALUES ($1)", state.known)
            return state
    except (asyncpg.SyntaxOrAccessError, asyncpg.IntegrityConstraintViolationError) as error:
        raise MigrationError(f"The database could not be migrated: {error}. Nothing was changed.") from error
    finally:
        await connection.close()


async def _connect(address: PostgresAddress) -> PostgresConnection:
    try:
        return await connect_directly(address)
    except OUTAGES as error:
        raise SettingsError(f"db: the database cannot be reached: {describe(error)}.") from error
    except ValueError as error:
        raise SettingsError(f"db: {describe(error)}.") from error
