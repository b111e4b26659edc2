"""Runs that wait inside a call, in a thread, until the test has decided."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from placet.hook import InterruptionMetadata
from placet.hook.frameworks.waiting_calls import WaitingCalls
from placet.testing.waiting import wait_until


@contextmanager
def running(work: Callable[[], Any]) -> Iterator[Future[Any]]:
    """Run the work in a thread; fail if it does not end."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        yield done
        done.result(60)


def next_waiting(approval: WaitingCalls, done: Future[Any], count: int = 1) -> InterruptionMetadata:
    """Wait until so many calls wait for a reviewer; return the first one."""
    wait_until(lambda: done.done() or len(approval.waiting()) >= count)
    if done.done():
        done.result()
    return approval.waiting()[0]
