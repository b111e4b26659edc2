"""Waiting for an awaitable in code that blocks: on the event loop of the caller, if that loop is free."""

from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T = TypeVar("T")
_waiting_loop: "ContextVar[AbstractEventLoop | None]" = ContextVar("placet_waiting_loop", default=None)
"""The event loop on which a task waits for this thread."""


@contextmanager
def offer_event_loop(loop: "AbstractEventLoop") -> Iterator[None]:
    """Let threads that are started here await on this loop, whose connections their awaitables may need."""
    before = _waiting_loop.set(loop)
    try:
        yield
    finally:
        _waiting_loop.reset(before)


def find_waiting_loop() -> "AbstractEventLoop | None":
    """Return the event loop on which a task waits for this thread, or that runs in this thread."""
    import asyncio

    loop = asyncio.get_running_loop() if is_on_loop() else _waiting_loop.get()
    return loop if loop is not None and loop.is_running() else None


def wait_for_value(awaitable: Awaitable[T]) -> T:
    """Return the value of the awaitable. Raises what it raises."""
    import asyncio

    loop = _waiting_loop.get()
    if loop is None or not loop.is_running() or is_on_loop():
        return run_coroutine(await_value(awaitable))
    return asyncio.run_coroutine_threadsafe(await_value(awaitable), loop).result()


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine to its end on a loop of its own."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor
    from contextvars import copy_context

    if not is_on_loop():
        return asyncio.run(work)
    # A notebook already runs a loop in this thread, so the coroutine needs a loop in another thread.
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(copy_context().run, asyncio.run, work).result()


async def await_value(awaitable: Awaitable[T]) -> T:
    """Return the value of any awaitable, as a coroutine."""
    return await awaitable


def is_on_loop() -> bool:
    """Return whether an event loop runs in this thread."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
