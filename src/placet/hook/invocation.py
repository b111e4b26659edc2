"""How a model and a tool are called, whatever they are: async or not, whole or in pieces."""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from placet.hook.checkpoint import Message
from placet.hook.events import Model, ToolJob
from placet.hook.workers import Workers

ToolSchemas = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ModelCaller:
    """A model as it is to be called."""

    ask: Callable[[list[Message], ToolSchemas], Any]
    never_blocks: bool
    """Whether calling it only begins what is then awaited."""


def adapt_model(model: Model) -> ModelCaller:
    """The model as a function of messages and tools; one that wants only the messages gets only those."""
    return ModelCaller(ask=_accept_tools(model), never_blocks=_is_async(model))


def _accept_tools(model: Model) -> Callable[[list[Message], ToolSchemas], Any]:
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return model
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(places) > 1 or any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return model
    if any(one.kind is one.VAR_KEYWORD or one.name == "tools" for one in parameters):
        return lambda messages, tools: model(messages, tools=tools)
    return lambda messages, tools: model(messages)


def iterate_reply(reply: Any) -> Iterator[Any]:
    """The reply as it comes: texts, and at last the message; a whole reply is its own last piece."""
    if inspect.isgenerator(reply):
        yield from reply
    elif inspect.isasyncgen(reply) or inspect.isawaitable(reply):
        yield from _run_coroutine(_collect_reply(reply))
    else:
        yield reply


async def aiterate_reply(reply: Any, workers: Workers) -> AsyncIterator[Any]:
    """As `pieces`, on an event loop; a generator that blocks goes on in a thread of the workers."""
    if inspect.isasyncgen(reply):
        async for piece in reply:
            yield piece
    elif inspect.isgenerator(reply):
        while (piece := await workers.run(partial(next, reply, None))) is not None:
            yield piece
    else:
        yield await reply if inspect.isawaitable(reply) else reply


def call_tool(job: ToolJob) -> Any:
    """What the tool answers, run in this thread."""
    answer = job.tool.function(**job.tool.prepared(job.call.arguments, job.key))
    if type(answer) is str:
        return answer
    if inspect.isgenerator(answer):
        return _join_pieces([*answer])
    if inspect.isasyncgen(answer):
        return _join_pieces(_run_coroutine(_collect_reply(answer)))
    return _run_coroutine(_await_value(answer)) if inspect.isawaitable(answer) else answer


async def acall_tool(job: ToolJob, workers: Workers) -> Any:
    """What the tool answers; one that blocks runs in a thread of the workers."""
    arguments = job.tool.prepared(job.call.arguments, job.key)
    if inspect.iscoroutinefunction(job.tool.function):
        return await job.tool.function(**arguments)
    answer = await workers.run(partial(job.tool.function, **arguments))
    if inspect.isgenerator(answer):
        return _join_pieces(await workers.run(partial(list, answer)))
    if inspect.isasyncgen(answer):
        return _join_pieces([piece async for piece in answer])
    return await answer if inspect.isawaitable(answer) else answer


def _join_pieces(pieces: list[Any]) -> Any:
    """What a tool answered piece by piece."""
    return "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else pieces


def _run_coroutine(work: Coroutine[Any, Any, Any]) -> Any:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor
    from contextvars import copy_context

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # A notebook has a loop in this very thread, which must not wait for itself: the work gets its own.
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(copy_context().run, asyncio.run, work).result()


async def _collect_reply(reply: Any) -> list[Any]:
    return [piece async for piece in aiterate_reply(reply, Workers())]


async def _await_value(answer: Any) -> Any:
    return await answer


def _is_async(function: Callable[..., Any]) -> bool:
    called = (function, getattr(function, "__call__", None))  # noqa: B004 - the method itself is looked at
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in called)
