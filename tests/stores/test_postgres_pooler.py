"""The store behind PgBouncer, which gives each transaction another session."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from examples.stage import find_free_port
from placet.bootstrap.storage import open_store
from placet.ports.store import Store
from placet.testing.contracts.case_store import create_answered_case, create_sample_case, gather_outcomes
from placet.testing.memory_folder import make_memory_folder
from placet.testing.samples import sample_creation
from scripts import pgbouncer
from tests.stores.postgres_database import empty_database
from tests.waiting import eventually

pytestmark = pytest.mark.anyio
PATIENCE_S = 60.0
SETTINGS = """
[databases]
postgres = host={socket} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


@pytest.fixture(scope="module")
def pooler_url(postgres_url: str) -> Iterator[str]:
    """A URL through a pooler with two sessions, with the server itself as its direct address."""
    socket, port = postgres_url.partition("host=")[2], find_free_port()
    with make_memory_folder() as folder:
        os.chmod(socket, 0o711)  # so that the pooler reaches the socket as another user
        settings = folder / "pgbouncer.ini"
        settings.write_text(SETTINGS.format(socket=socket, port=port))
        process = subprocess.Popen(build_command(folder, settings), stderr=subprocess.DEVNULL)
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            eventually(lambda: asyncio.run(answers(url)))
            yield f"{url}?direct={socket}"
        finally:
            process.terminate()
            process.wait()


def build_command(folder: Path, settings: Path) -> list[str]:
    """PgBouncer refuses to run as root, so there it runs as nobody."""
    command = [pgbouncer.find(), str(settings)]
    if os.geteuid() != 0:
        return command
    shutil.chown(folder, "nobody")
    shutil.chown(settings, "nobody")
    return [command[0], "-u", "nobody", command[1]]


async def answers(url: str) -> bool:
    try:
        connection = await asyncpg.connect(url, timeout=1, statement_cache_size=0)
    except (OSError, asyncpg.PostgresError, TimeoutError):
        return False
    await connection.close()
    return True


@pytest.fixture
async def store(postgres_url: str, pooler_url: str) -> AsyncIterator[Store]:
    await empty_database(postgres_url)
    postgres = await open_store(pooler_url)
    yield postgres
    await postgres.aclose()


async def test_many_writes_and_reads_share_two_sessions(store: Store) -> None:
    creations = [sample_creation() for _ in range(60)]
    assert await gather_outcomes(store.create_case(one) for one in creations) == [None] * len(creations)
    found = await gather_outcomes(store.get_case(one.case.id) for one in creations)
    assert found == [one.case for one in creations]
    case = await create_answered_case(store)
    assert len(await store.list_events(case.id)) == case.version
    await store.check_ready()


async def test_a_change_is_heard_through_the_direct_address(store: Store, pooler_url: str) -> None:
    other = await open_store(pooler_url)
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    other.add_change_listener(heard.put_nowait)
    case = (await create_sample_case(store)).case
    async with asyncio.timeout(PATIENCE_S):
        while await heard.get() != case.id:
            pass
    await other.aclose()
