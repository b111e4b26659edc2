"""A run as steps, and the drivers that work them off: one awaits the outcome, one tells what happens."""

import asyncio
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from placet.hook.alone import run_alone

T = TypeVar("T")
Flow: TypeAlias = Generator[Any, Any, T]
"""A callable is a step of ours and may block; anything else is what the framework shall run next."""


@dataclass(frozen=True, slots=True)
class Came:
    """What a streamed run came to; it goes back into the flow, and nobody else is told."""

    result: Any


async def adrive(
    flow: Flow[T], run: Callable[[Any], Awaitable[Any]], aside: Callable[..., Awaitable[Any]]
) -> T:
    """Work a run off, step by step; `run` is the framework's own way to run, `aside` calls what may block."""
    try:
        step = next(flow)
        while True:
            try:
                value = await (aside(step) if callable(step) else run(step))
            except (Exception, asyncio.CancelledError) as error:
                step = flow.throw(error)
            else:
                step = flow.send(value)
    except StopIteration as end:
        outcome: T = end.value
        return outcome


async def stream(
    flow: Flow[Any], run: Callable[[Any], AsyncGenerator[Any, None]], aside: Callable[..., Awaitable[Any]]
) -> AsyncGenerator[Any, None]:
    """As `adrive`, handing on what `run` tells; the outcome is the last thing."""
    try:
        step = next(flow)
        while True:
            value = None
            try:
                if callable(step):
                    value = await aside(step)
                else:
                    async with aclosing(run(step)) as events:
                        async for told in events:
                            if isinstance(told, Came):
                                value = told.result
                            else:
                                yield told
            except (Exception, asyncio.CancelledError) as error:
                step = flow.throw(error)
            else:
                step = flow.send(value)
    except StopIteration as end:
        yield end.value
    finally:
        await _abandon(flow, aside)


async def _abandon(flow: Flow[Any], aside: Callable[..., Awaitable[Any]]) -> None:
    """Nobody listens any more: let the flow give back what it holds."""
    with suppress(StopIteration, asyncio.CancelledError):
        step = flow.throw(asyncio.CancelledError())
        while callable(step):
            step = flow.send(await aside(step))


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Run it on this thread's own event loop, which stays open: a model's connections belong to it."""
    policy = asyncio.get_event_loop_policy()
    loop: asyncio.AbstractEventLoop | None = None
    with warnings.catch_warnings(), suppress(RuntimeError):
        warnings.simplefilter("ignore", DeprecationWarning)
        loop = policy.get_event_loop()
    if loop is None or loop.is_closed():
        loop = policy.new_event_loop()
        policy.set_event_loop(loop)
    return run_alone(loop, work)
