"""The store in PostgreSQL fulfils the contract."""

from collections.abc import AsyncIterator

import pytest

from placet.ports.store import Store
from placet.stores.postgres.connection import PostgresAddress
from placet.stores.postgres.store import PostgresStore
from placet.testing.contracts.store import StoreContract
from tests.stores.postgres_database import empty_database


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    await empty_database(postgres_url)
    postgres = await PostgresStore.open(PostgresAddress(url=postgres_url))
    yield postgres
    await postgres.aclose()


class TestPostgresStore(StoreContract):
    pass
