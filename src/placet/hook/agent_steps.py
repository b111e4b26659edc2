"""Code of yours around an agent's steps: before and after agent and model, and around each tool call."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

from placet.errors import HookError
from placet.hook.argument_checks import refuse, require_function, require_list, require_parameters
from placet.hook.checkpoint import Message
from placet.hook.events import AgentResult
from placet.hook.tool_call import ToolCall

ToolInterceptor: TypeAlias = Callable[[ToolCall, Callable[[], Any]], Any]
"""(call, run) -> the answer; sync or async, and then `run()` is awaited.

`run` runs exactly the call that was decided, and once, or repeatedly if the tool is repeatable.
"""


class AgentSteps:
    """Base class of hooks that act before and after steps; override any of the methods, sync or async.

    What a method raises ends the run; the thread stays as it was saved last.
    """

    def before_agent(self, messages: Sequence[Message]) -> Any:
        """Called when a message begins a run, with the thread so far; the message is the last one."""

    def after_agent(self, result: AgentResult) -> Any:
        """Called when the agent has finished; not when it is interrupted."""

    def before_model(self, messages: Sequence[Message]) -> Any:
        """Return the messages that the model reads instead, or None. The thread itself is not changed."""

    def after_model(self, reply: Any) -> Any:
        """Return another reply, or None. The other hooks evaluate its calls as if the model had made them."""


def split_hooks(hooks: Iterable[Any]) -> tuple[list[Any], list[AgentSteps]]:
    """Return the hooks that stop calls, and those that act around steps."""
    everything = list(hooks)
    steps = [hook for hook in everything if isinstance(hook, AgentSteps)]
    return [hook for hook in everything if not isinstance(hook, AgentSteps)], steps


def require_interceptors(value: Any) -> tuple[ToolInterceptor, ...]:
    """Return the interceptors; raises ValueError for anything else."""
    expected = "functions of a call and of what runs it"
    interceptors = require_list("interceptors", value, f"a list of {expected}")
    for each in interceptors:
        if isinstance(each, AgentSteps):
            refuse("interceptors", f"{expected}; pass AgentSteps in hooks", each)
        require_function("interceptors", each, expected)
        require_parameters("interceptors", each, "call", "run")
    return tuple(interceptors)


def run_step(steps: Iterable[AgentSteps], name: str, value: Any, wait: Callable[[Any], Any]) -> Any:
    """Return the value after all hooks have seen it; `wait` returns the result of an awaitable."""
    for each in steps:
        changed = getattr(each, name)(value)
        if inspect.isawaitable(changed):
            changed = wait(changed)
        value = value if changed is None else changed
    return value


async def arun_step(
    steps: Iterable[AgentSteps], name: str, value: Any, call: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> Any:
    """Async version of `run_step`; `call` calls a method that may block."""
    for each in steps:
        method = getattr(each, name)
        is_async = inspect.iscoroutinefunction(method)
        changed = method(value) if is_async else await call(lambda method=method, value=value: method(value))  # type: ignore[misc]
        if inspect.isawaitable(changed):
            changed = await changed
        value = value if changed is None else changed
    return value


class SingleRun:
    """What an interceptor calls to run the tool; a call that is not repeatable runs once."""

    def __init__(self, call: ToolCall, *, is_repeatable: bool) -> None:
        self._call = call
        self._is_repeatable = is_repeatable
        self._has_run = False

    def start(self) -> None:
        """Raise HookError if the call has run and may not run again."""
        if self._has_run and not self._is_repeatable:
            raise HookError(
                f"{self._call.name} is not repeatable, so an interceptor may run it once."
                " Mark it with @tool(repeatable=True) to retry it."
            )
        self._has_run = True


def intercept(
    interceptors: Sequence[ToolInterceptor],
    call: ToolCall,
    run: Callable[[], Any],
    *,
    is_repeatable: bool,
    wait: Callable[[Any], Any],
) -> Any:
    """Run a call inside the interceptors, the first one outermost."""
    once = SingleRun(call, is_repeatable=is_repeatable)

    def run_tool() -> Any:
        once.start()
        return run()

    chain = run_tool
    for each in reversed(interceptors):
        chain = _wrap(each, call, chain, wait)
    return chain()


def _wrap(
    interceptor: ToolInterceptor, call: ToolCall, inner: Callable[[], Any], wait: Callable[[Any], Any]
) -> Callable[[], Any]:
    async def run_inner() -> Any:
        return inner()

    def run() -> Any:
        answer = interceptor(call, run_inner if inspect.iscoroutinefunction(interceptor) else inner)
        return wait(answer) if inspect.isawaitable(answer) else answer

    return run


async def aintercept(
    interceptors: Sequence[ToolInterceptor],
    call: ToolCall,
    run: Callable[[], Awaitable[Any]],
    *,
    is_repeatable: bool,
) -> Any:
    """Async version of `intercept`, for interceptors that are all async."""
    once = SingleRun(call, is_repeatable=is_repeatable)

    async def run_tool() -> Any:
        once.start()
        return await run()

    chain: Callable[[], Awaitable[Any]] = run_tool
    for each in reversed(interceptors):
        chain = _await_in(each, call, chain)
    return await chain()


def _await_in(
    interceptor: ToolInterceptor, call: ToolCall, inner: Callable[[], Awaitable[Any]]
) -> Callable[[], Awaitable[Any]]:
    async def run() -> Any:
        return await interceptor(call, inner)

    return run
