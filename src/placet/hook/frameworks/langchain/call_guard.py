"""Guards a decided LangChain call against changes by middleware that runs after the approval."""

import dataclasses
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager

from placet.errors import HookError
from placet.hook.frameworks.langchain.inner_agents import InnerAgentGuard, find_task
from placet.hook.frameworks.langchain.messages import read_schema, snapshot_call, to_tool_call
from placet.hook.frozen_values import build_frozen, replace
from placet.hook.tool_call import ToolCall

CALL_CHANGED = (
    "{} was not run: other middleware changed the call after it was approved."
    " Put middleware that changes calls before the approval middleware."
)
_running: ContextVar[tuple["CallGuard", UUID] | None] = ContextVar("running", default=None)
"""The guarded call whose tool runs in this context."""


class CallGuard(BaseCallbackHandler):
    """Raises HookError if a decided call is changed into one that needs a review.

    As a callback it also checks the call when the tool starts, however the call got there.
    """

    raise_error = True
    run_inline = True

    def __init__(self, decided: ToolCall, tool: Any, needs_review: Callable[[ToolCall], bool]) -> None:
        self._decided = decided
        self._tool = tool
        self._needs_review = needs_review
        self._was_checked_last = False
        self._started = False
        self.detected_late = False
        """Whether the change was detected when the tool may have run already."""

    def check(self, call: Mapping[str, Any]) -> None:
        """Raise HookError unless this is the decided call, or one that needs no review."""
        now = to_tool_call(call)
        if now != self._decided and self._needs_review(now):
            self.detected_late = self._was_checked_last
            raise HookError(CALL_CHANGED.format(now.name))

    def check_last(self, call: Mapping[str, Any]) -> None:
        """Like `check`, for the last time before the tool runs."""
        self.check(call)
        self._was_checked_last = True

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **named: Any,
    ) -> None:
        """Check the call that a tool is about to run with."""
        running = _running.get()
        if running is not None and running[0] is self:
            return  # calls made by the approved tool itself are not checked
        now = ToolCall(id=self._decided.id, name=serialized["name"], arguments=inputs or {})
        if not self._is_decided(now) and self._needs_review(now):
            self.detected_late = self._started
            raise HookError(CALL_CHANGED.format(now.name))
        self._started = True
        _running.set((self, run_id))

    def on_tool_end(self, output: Any, *, run_id: UUID, **named: Any) -> None:
        """The tool has ended: the next start is another call."""
        if _running.get() == (self, run_id):
            _running.set(None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **named: Any) -> None:
        """Like `on_tool_end`."""
        self.on_tool_end(None, run_id=run_id)

    def _is_decided(self, now: ToolCall) -> bool:
        """Return whether it is the decided call; LangGraph removes arguments that no model may set."""
        if now == self._decided:
            return True
        gone = self._decided.arguments.keys() - now.arguments.keys()
        if not gone or self._tool is None:
            return False
        known = (read_schema(self._tool) or {}).get("properties", gone)
        left = {name: value for name, value in self._decided.arguments.items() if name not in gone}
        return gone.isdisjoint(known) and now == dataclasses.replace(self._decided, arguments=left)


@dataclasses.dataclass
class GuardedRequest(ToolCallRequest):
    """A request whose call can only be changed if the guard allows it."""

    guard: CallGuard

    def __getattribute__(self, name: str) -> Any:
        # LangGraph reads the tool just before running it and never afterwards: a call changed in place is
        # detected here, while the tool itself may still modify its arguments.
        if name == "tool":
            self.guard.check_last(self.tool_call)
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "tool_call" and "guard" in self.__dict__:
            self.guard.check(value)
        super().__setattr__(name, value)

    def override(self, **overrides: Any) -> ToolCallRequest:
        """Return the request with these members replaced."""
        self.guard.check(overrides.get("tool_call", self.tool_call))
        return replace(self, **overrides)


def guard_request(
    request: ToolCallRequest,
    needs_review: Callable[[ToolCall], bool],
    may_stop: Callable[[ToolCall], bool],
) -> GuardedRequest:
    """Return the request with a guard.

    `needs_review` says whether a changed call needs a review, `may_stop` whether a call of an inner agent
    does.
    """
    guard = CallGuard(snapshot_call(request.tool_call), request.tool, needs_review)
    # LangGraph runs the tool with this config even if later middleware passes on another request.
    config: Any = request.runtime.config
    inner = InnerAgentGuard(find_task(request), may_stop)
    config["callbacks"] = _add_callbacks(guard, inner, config.get("callbacks"))
    return build_frozen(GuardedRequest, {**request.__dict__, "guard": guard})


def _add_callbacks(guard: CallGuard, inner: InnerAgentGuard, callbacks: Any) -> Any:
    if not isinstance(callbacks, BaseCallbackManager):
        return [*(callbacks or ()), guard, inner]
    own = callbacks.copy()
    own.add_handler(guard, inherit=False)
    own.add_handler(inner, inherit=True)
    return own
