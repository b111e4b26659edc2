"""Whether work has its event loop to itself: then it may wait in place, since nobody else is held up."""

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_whose: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("placet_alone", default=None)


def run_alone(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end on a loop that runs for nothing else."""
    before = _whose.set(loop)
    try:
        return loop.run_until_complete(work)
    finally:
        _whose.reset(before)


def alone() -> bool:
    """Whether the running loop was given to this work alone."""
    loop = _whose.get()
    return loop is not None and loop is asyncio.get_running_loop()
