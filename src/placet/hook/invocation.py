"""Calling models and tools of any kind: sync or async, returning whole replies or pieces."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from placet.hook.agent_steps import ToolInterceptor, aintercept, intercept
from placet.hook.async_values import offer_event_loop, run_coroutine, wait_for_value
from placet.hook.checkpoint import Message
from placet.hook.events import Model, ToolJob
from placet.hook.workers import Workers

ToolSchemas = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ModelCaller:
    """A model in the form in which drivers call it."""

    call: Callable[[list[Message], ToolSchemas], Any]
    never_blocks: bool
    """Whether calling it only returns something to await."""


def adapt_model(model: Model) -> ModelCaller:
    """Return the model as a function of messages and tools; tools are left out if it takes only messages."""
    return ModelCaller(call=_accept_tools(model), never_blocks=is_async(model))


def _accept_tools(model: Model) -> Callable[[list[Message], ToolSchemas], Any]:
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return model
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 1 or any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return model
    if any(one.kind is one.VAR_KEYWORD or one.name == "tools" for one in parameters):
        return lambda messages, tools: model(messages, tools=tools)
    return lambda messages, tools: model(messages)


def iterate_reply(reply: Any) -> Iterator[Any]:
    """Yield the pieces of a reply: texts, and last the message; a whole reply is its only piece."""
    if inspect.isgenerator(reply):
        yield from reply
    elif inspect.isasyncgen(reply) or inspect.isawaitable(reply):
        yield from run_coroutine(_collect_reply(reply))
    else:
        yield reply


async def aiterate_reply(reply: Any, workers: Workers) -> AsyncIterator[Any]:
    """Async version of `iterate_reply`; a blocking generator is advanced in a worker thread."""
    if inspect.isasyncgen(reply):
        async for piece in reply:
            yield piece
    elif inspect.isgenerator(reply):
        while (piece := await workers.run(partial(next, reply, None))) is not None:
            yield piece
    else:
        yield await reply if inspect.isawaitable(reply) else reply


def call_tool(job: ToolJob, interceptors: Sequence[ToolInterceptor] = ()) -> Any:
    """Run the tool in this thread, inside the interceptors, and return its answer."""
    if not interceptors:
        return _call_tool(job)
    return intercept(
        interceptors,
        job.call,
        partial(_call_tool, job),
        is_repeatable=job.tool.repeatable,
        wait=wait_for_value,
    )


def _call_tool(job: ToolJob) -> Any:
    answer = job.tool.function(**job.tool.prepare_arguments(job.call.arguments, job.key))
    if type(answer) is str:
        return answer
    if inspect.isgenerator(answer):
        return _join_pieces([*answer])
    if inspect.isasyncgen(answer):
        return _join_pieces(wait_for_value(_collect_reply(answer)))
    return wait_for_value(answer) if inspect.isawaitable(answer) else answer


async def acall_tool(job: ToolJob, workers: Workers, interceptors: Sequence[ToolInterceptor] = ()) -> Any:
    """Async version of `call_tool`; what may block runs in a worker thread."""
    if not interceptors:
        return await _acall_tool(job, workers)
    if all(map(inspect.iscoroutinefunction, interceptors)):
        run = partial(_acall_tool, job, workers)
        return await aintercept(interceptors, job.call, run, is_repeatable=job.tool.repeatable)
    from asyncio import get_running_loop

    with offer_event_loop(get_running_loop()):
        return await workers.run(partial(call_tool, job, interceptors))


async def _acall_tool(job: ToolJob, workers: Workers) -> Any:
    arguments = job.tool.prepare_arguments(job.call.arguments, job.key)
    if inspect.iscoroutinefunction(job.tool.function):
        return await job.tool.function(**arguments)
    answer = await workers.run(partial(job.tool.function, **arguments))
    if inspect.isgenerator(answer):
        return _join_pieces(await workers.run(partial(list, answer)))
    if inspect.isasyncgen(answer):
        return _join_pieces([piece async for piece in answer])
    return await answer if inspect.isawaitable(answer) else answer


def _join_pieces(pieces: list[Any]) -> Any:
    """Return the pieces of a tool's answer as one text, or as a list if not all are texts."""
    return "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else pieces


async def _collect_reply(reply: Any) -> list[Any]:
    return [piece async for piece in aiterate_reply(reply, Workers())]


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether calling this only returns something to await or to iterate."""
    called = (function, getattr(function, "__call__", None))  # noqa: B004 - the bound method itself is inspected
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in called)
