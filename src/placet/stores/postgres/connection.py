"""Connections to PostgreSQL: a pool for work, and the settings that the store relies on."""

from typing import Any

import asyncpg
from msgspec import Struct

MAX_CONNECTIONS = 10
CONNECT_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 15.0
CACHED_STATEMENTS = 256

PostgresConnection = Any  # asyncpg.PostgresConnection or its proxy: the package has no types
PostgresPool = Any


class PostgresAddress(Struct, frozen=True, kw_only=True):
    """Where the database is: for work, perhaps through a pooler, and directly, for notifications."""

    url: str
    direct_url: str | None = None
    """Needed if `url` leads to a pooler: a session that listens cannot share its connection."""

    @property
    def is_pooled(self) -> bool:
        """Whether work goes through a pooler, so that no session outlasts a transaction."""
        return self.direct_url is not None


async def open_pool(address: PostgresAddress, *, size: int = MAX_CONNECTIONS) -> PostgresPool:
    """Connect the first connection, and more when they are needed."""
    return await asyncpg.create_pool(
        address.url,
        min_size=1,
        max_size=size,
        timeout=CONNECT_TIMEOUT_S,
        command_timeout=COMMAND_TIMEOUT_S,
        statement_cache_size=0 if address.is_pooled else CACHED_STATEMENTS,
        reset=_keep_session,
    )


async def connect_directly(address: PostgresAddress) -> PostgresConnection:
    """Open a connection of its own session."""
    return await asyncpg.connect(
        address.direct_url or address.url, timeout=CONNECT_TIMEOUT_S, command_timeout=COMMAND_TIMEOUT_S
    )


async def _keep_session(connection: PostgresConnection) -> None:
    """Do not reset a connection that returns to the pool: the store changes no setting of a session."""
