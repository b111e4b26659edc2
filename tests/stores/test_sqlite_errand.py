"""The thread that waits for the disk never makes the loop wait long, and always comes back."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from placet.stores.sqlite.worker_thread import WorkerThread

pytestmark = pytest.mark.anyio

Brought = asyncio.Queue[Exception | None]


@pytest.fixture
async def brought() -> Brought:
    return asyncio.Queue()


@pytest.fixture
async def thread() -> WorkerThread:
    return WorkerThread(asyncio.get_running_loop())


@pytest.fixture
def disk(thread: WorkerThread) -> Iterator[threading.Event]:
    """Answers once it is set."""
    answer = threading.Event()
    yield answer
    answer.set()
    thread.stop()


def at_once() -> None:
    """An errand that needs no disk."""


async def test_a_quick_errand_is_collected(
    thread: WorkerThread, disk: threading.Event, brought: Brought
) -> None:
    thread.run(at_once, brought.put_nowait)
    assert brought.empty()
    async with asyncio.timeout(60):
        assert await brought.get() is None


async def test_the_loop_goes_on_while_the_disk_hesitates(
    thread: WorkerThread, disk: threading.Event, brought: Brought
) -> None:
    thread.run(lambda: disk.wait(30), brought.put_nowait)
    for _ in range(100):
        await asyncio.sleep(0)
    assert brought.empty()
    disk.set()
    async with asyncio.timeout(60):
        assert await brought.get() is None


async def test_errands_after_a_slow_one_are_collected_too(
    thread: WorkerThread, disk: threading.Event, brought: Brought
) -> None:
    thread.run(lambda: disk.wait(30), brought.put_nowait)
    disk.set()
    async with asyncio.timeout(60):
        await brought.get()
        for _ in range(100):
            thread.run(at_once, brought.put_nowait)
            assert await brought.get() is None


async def test_each_errand_is_collected_once(
    thread: WorkerThread, disk: threading.Event, brought: Brought
) -> None:
    async with asyncio.timeout(30):
        for _ in range(200):
            thread.run(lambda: disk.wait(0.002), brought.put_nowait)
            await brought.get()
    for _ in range(100):
        await asyncio.sleep(0)
    assert brought.empty()


@pytest.mark.parametrize("wait_for_it", [False, True])
async def test_what_went_wrong_is_told(
    thread: WorkerThread, disk: threading.Event, brought: Brought, wait_for_it: bool
) -> None:
    def work() -> None:
        if wait_for_it:
            disk.wait(30)
        raise OSError("broken")

    thread.run(work, brought.put_nowait)
    disk.set()
    async with asyncio.timeout(60):
        assert isinstance(await brought.get(), OSError)


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
