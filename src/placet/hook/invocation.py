"""Calling models and tools of any kind: sync or async, returning whole replies or pieces."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from placet.hook.async_values import await_value, run_coroutine
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


def call_tool(job: ToolJob) -> Any:
    """Run the tool in this thread and return its answer."""
    answer = job.tool.function(**job.tool.prepare_arguments(job.call.arguments, job.key))
    if type(answer) is str:
        return answer
    if inspect.isgenerator(answer):
        return _join_pieces([*answer])
    if inspect.isasyncgen(answer):
        return _join_pieces(run_coroutine(_collect_reply(answer)))
    return run_coroutine(await_value(answer)) if inspect.isawaitable(answer) else answer


async def acall_tool(job: ToolJob, workers: Workers) -> Any:
    """Run the tool and return its answer; a blocking tool runs in a worker thread."""
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
