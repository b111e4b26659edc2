"""Refuses gated calls of inner agents without a rule for them, such as subagents of a deep agent."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.callbacks import BaseCallbackHandler

from placet.errors import HookError
from placet.hook.approval_rules import Hook, have_rule_for
from placet.hook.tool_call import ToolCall

INNER_AGENT_NOT_GATED = (
    "Calls of {0} need a review, but an inner agent calls it without. Give that agent approval middleware"
    " with a rule for {0}."
)
_guarded_task: ContextVar[tuple[str | None, Sequence[Hook]] | None] = ContextVar(
    "placet_guarded_task", default=None
)
"""The LangGraph task whose tool call is under the approval middleware, and the hooks of that."""


class InnerAgentGuard(BaseCallbackHandler):
    """Sees every tool that starts inside a call, and raises HookError for gated ones without a rule.

    Tools that the called tool invokes itself, and not through an agent, are its own business.
    """

    raise_error = True
    run_inline = True

    def __init__(self, task: str | None, may_stop: Callable[[ToolCall], bool]) -> None:
        self._task = task
        self._may_stop = may_stop

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **named: Any,
    ) -> None:
        """Check a tool that is about to start."""
        task, name = (metadata or {}).get("langgraph_checkpoint_ns"), serialized["name"]
        guarded, hooks = _guarded_task.get() or (None, ())
        if task in (None, self._task) or (task == guarded and have_rule_for(hooks, name)):
            return
        call = ToolCall(id=str(run_id), name=name, arguments=inputs or {})
        if self._may_stop(call):
            raise HookError(INNER_AGENT_NOT_GATED.format(call.name))


def find_task(request: ToolCallRequest) -> str | None:
    """Return the name of the LangGraph task that runs this call."""
    config: Any = request.runtime.config
    task: str | None = config.get("configurable", {}).get("checkpoint_ns")
    return task


@contextmanager
def guarding_task(request: ToolCallRequest, hooks: Sequence[Hook]) -> Iterator[None]:
    """Mark the calls of this task as under approval middleware with these hooks."""
    before = _guarded_task.set((find_task(request), hooks))
    try:
        yield
    finally:
        _guarded_task.reset(before)
