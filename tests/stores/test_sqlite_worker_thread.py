"""The worker thread of the SQLite store never blocks the event loop."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from placet.stores.sqlite.worker_thread import WorkerThread

pytestmark = pytest.mark.anyio

Brought = asyncio.Queue[Exception | None]


@pytest.fixture
async def results() -> Brought:
    return asyncio.Queue()


@pytest.fixture
async def thread() -> WorkerThread:
    return WorkerThread(asyncio.get_running_loop())


@pytest.fixture
def disk_event(thread: WorkerThread) -> Iterator[threading.Event]:
    """Answers once it is set."""
    answer = threading.Event()
    yield answer
    answer.set()
    thread.stop()


def do_nothing() -> None:
    """Work that needs no disk."""


async def test_the_result_of_quick_work_is_collected(
    thread: WorkerThread, disk_event: threading.Event, results: Brought
) -> None:
    thread.run(do_nothing, results.put_nowait)
    assert results.empty()
    async with asyncio.timeout(60):
        assert await results.get() is None


async def test_the_loop_goes_on_while_the_disk_hesitates(
    thread: WorkerThread, disk_event: threading.Event, results: Brought
) -> None:
    thread.run(lambda: disk_event.wait(30), results.put_nowait)
    for _ in range(100):
        await asyncio.sleep(0)
    assert results.empty()
    disk_event.set()
    async with asyncio.timeout(60):
        assert await results.get() is None


async def test_results_after_slow_work_are_collected(
    thread: WorkerThread, disk_event: threading.Event, results: Brought
) -> None:
    thread.run(lambda: disk_event.wait(30), results.put_nowait)
    disk_event.set()
    async with asyncio.timeout(60):
        await results.get()
        for _ in range(100):
            thread.run(do_nothing, results.put_nowait)
            assert await results.get() is None


async def test_each_result_is_collected_once(
    thread: WorkerThread, disk_event: threading.Event, results: Brought
) -> None:
    async with asyncio.timeout(60):
        for _ in range(200):
            thread.run(lambda: disk_event.wait(0.002), results.put_nowait)
            await results.get()
    for _ in range(100):
        await asyncio.sleep(0)
    assert results.empty()


@pytest.mark.parametrize("wait_for_it", [False, True])
async def test_an_error_is_reported(
    thread: WorkerThread, disk_event: threading.Event, results: Brought, wait_for_it: bool
) -> None:
    def work() -> None:
        if wait_for_it:
            disk_event.wait(30)
        raise OSError("broken")

    thread.run(work, results.put_nowait)
    disk_event.set()
    async with asyncio.timeout(60):
        assert isinstance(await results.get(), OSError)


def test_the_thread_ends_when_its_loop_is_gone() -> None:
    loop = asyncio.new_event_loop()
    before = set(threading.enumerate())
    answer = threading.Event()
    thread = WorkerThread(loop)
    loop.call_soon(thread.run, lambda: answer.wait(30), print)
    loop.call_later(0, loop.stop)
    loop.run_forever()
    loop.close()
    answer.set()
    thread.stop()
    assert set(threading.enumerate()) <= before
