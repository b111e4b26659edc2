"""A framework run as a generator of steps, and drivers that execute it with or without streaming."""

import asyncio
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from placet.hook.blocking import run_on_owned_loop

T = TypeVar("T")
RunSteps: TypeAlias = Generator[Any, Any, T]
"""Yields steps: a callable is ours and may block; anything else is what the framework runs next."""


@dataclass(frozen=True, slots=True)
class StreamResult:
    """The result of a streamed run; it is sent to the steps, and not to the consumer."""

    result: Any


async def drive(
    flow: RunSteps[T], run: Callable[[Any], Awaitable[Any]], run_blocking: Callable[..., Awaitable[Any]]
) -> T:
    """Execute a run step by step; `run` starts the framework, `run_blocking` calls steps that may block."""
    try:
        step = next(flow)
        while True:
            try:
                value = await (run_blocking(step) if callable(step) else run(step))
            except (Exception, asyncio.CancelledError) as error:
                step = flow.throw(error)
            else:
                step = flow.send(value)
    except StopIteration as end:
        outcome: T = end.value
        return outcome


async def drive_streaming(
    flow: RunSteps[Any],
    run: Callable[[Any], AsyncGenerator[Any, None]],
    run_blocking: Callable[..., Awaitable[Any]],
) -> AsyncGenerator[Any, None]:
    """Like `drive`, but yield the events of `run`; the outcome is the last one."""
    try:
        step = next(flow)
        while True:
            value = None
            try:
                if callable(step):
                    value = await run_blocking(step)
                else:
                    async with aclosing(run(step)) as events:
                        async for event in events:
                            if isinstance(event, StreamResult):
                                value = event.result
                            else:
                                yield event
            except (Exception, asyncio.CancelledError) as error:
                step = flow.throw(error)
            else:
                step = flow.send(value)
    except StopIteration as end:
        yield end.value
    finally:
        await _close_steps(flow, run_blocking)


async def _close_steps(flow: RunSteps[Any], run_blocking: Callable[..., Awaitable[Any]]) -> None:
    """Let the steps release what they hold, because the consumer has stopped."""
    with suppress(StopIteration, asyncio.CancelledError):
        step = flow.throw(asyncio.CancelledError())
        while callable(step):
            step = flow.send(await run_blocking(step))


def run_on_thread_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on this thread's event loop, which stays open for the model's connections."""
    policy = asyncio.get_event_loop_policy()
    loop: asyncio.AbstractEventLoop | None = None
    with warnings.catch_warnings(), suppress(RuntimeError):
        warnings.simplefilter("ignore", DeprecationWarning)
        loop = policy.get_event_loop()
    if loop is None or loop.is_closed():
        loop = policy.new_event_loop()
        policy.set_event_loop(loop)
    return run_on_owned_loop(loop, work)
