"""The store in PostgreSQL fulfils the contract, also with several servers on one database."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from placet.desk.log_verification import LogTotals, verify_log
from placet.errors import CaseConflict
from placet.ports.store import Store
from placet.stores.postgres.connection import PostgresAddress
from placet.stores.postgres.store import PostgresStore
from placet.testing.contracts.case_store import create_sample_case, gather_outcomes
from placet.testing.contracts.store import StoreContract
from placet.testing.samples import (
    sample_approval,
    sample_creation,
    sample_idempotency_record,
    sample_update,
)
from tests.stores.postgres_database import empty_database

pytestmark = pytest.mark.anyio
PATIENCE_S = 60.0


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    await empty_database(postgres_url)
    postgres = await PostgresStore.open(PostgresAddress(url=postgres_url))
    yield postgres
    await postgres.aclose()


class TestPostgresStore(StoreContract):
    pass


@pytest.fixture
async def other(postgres_url: str, store: Store) -> AsyncIterator[Store]:
    """Another server on the same database."""
    postgres = await PostgresStore.open(PostgresAddress(url=postgres_url))
    yield postgres
    await postgres.aclose()


async def test_a_change_wakes_the_listeners_of_other_servers(store: Store, other: Store) -> None:
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    other.add_change_listener(heard.put_nowait)
    case = (await create_sample_case(store)).case
    async with asyncio.timeout(PATIENCE_S):
        while await heard.get() != case.id:
            pass
    assert await other.get_case(case.id) == case


async def test_a_change_without_a_notification_is_found_in_the_log(
    store: Store, other: Store, postgres_url: str
) -> None:
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("ALTER FUNCTION pg_notify(text, text) RENAME TO pg_notify_away")
    try:
        other.add_change_listener(heard.put_nowait)
        case = (await create_sample_case(store)).case
        async with asyncio.timeout(PATIENCE_S):
            while await heard.get() != case.id:
                pass
    finally:
        await connection.execute("ALTER FUNCTION pg_notify_away(text, text) RENAME TO pg_notify")
        await connection.close()


async def test_servers_that_write_at_once_leave_no_gap_in_the_log(store: Store, other: Store) -> None:
    creations = [sample_creation() for _ in range(100)]
    writes = [(store, other)[place % 2].create_case(one) for place, one in enumerate(creations)]
    assert await gather_outcomes(writes) == [None] * len(creations)
    answers = [sample_update(one.case, sample_approval()) for one in creations]
    outcomes = await gather_outcomes(
        [one.update_case(answer) for answer in answers for one in (store, other)]
    )
    assert outcomes.count(None) == len(creations)
    assert [error async for error in verify_log(store, [], LogTotals())] == []
    size = await store.count_log()
    assert [entry.number for entry in await other.list_log_entries(after=0)] == [*range(1, size.events + 1)]


async def test_a_refused_write_leaves_no_gap_in_the_log(store: Store) -> None:
    first = await create_sample_case(store, replay=sample_idempotency_record("key"))
    again = [sample_creation(replay=sample_idempotency_record("key")), sample_creation(id=first.case.id)]
    others = [sample_creation() for _ in range(3)]
    outcomes = await gather_outcomes(store.create_case(one) for one in (*again, *others))
    assert [type(one) for one in outcomes[:2]] == [CaseConflict] * 2
    assert outcomes[2:] == [None] * 3
    assert [stored.number for stored in await store.list_stored_cases(after=0)] == [1, 2, 3, 4]
    assert [error async for error in verify_log(store, [], LogTotals())] == []
