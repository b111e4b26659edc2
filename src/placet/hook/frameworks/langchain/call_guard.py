"""A LangChain call that was decided, on its way through the middleware after the approval to its tool."""

import dataclasses
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager

from placet.errors import HookError
from placet.hook.frameworks.langchain.conversion import read_schema, snapshot_call, to_tool_call
from placet.hook.frozen_values import build_frozen, replace
from placet.hook.tool_call import ToolCall

CALL_CHANGED = (
    "{} was not run: other middleware made this call of another one, and a person must see it first."
    " Put what changes calls before the approval in the list."
)
_running: ContextVar[tuple["CallGuard", UUID] | None] = ContextVar("running", default=None)
"""The guard_request call whose tool runs here."""


class CallGuard(BaseCallbackHandler):
    """Holds a call to what was decided; raises HookError for another one that somebody must see first.

    As a callback it also sees the tool start: whatever request brought the call there, it is looked at.
    """

    raise_error = True
    run_inline = True

    def __init__(self, decided: ToolCall, tool: Any, needs_somebody: Callable[[ToolCall], bool]) -> None:
        self._decided = decided
        self._tool = tool
        self._needs_somebody = needs_somebody
        self._let_through = False
        self._started = False
        self.broken_late = False
        """Whether the call was found changed when the tool may have run."""

    def look(self, call: Mapping[str, Any]) -> None:
        """See whether it is still the same call, or one that needs nobody."""
        now = to_tool_call(call)
        if now != self._decided and self._needs_somebody(now):
            self.broken_late = self._let_through
            raise HookError(CALL_CHANGED.format(now.name))

    def let_through(self, call: Mapping[str, Any]) -> None:
        """As `look`, for the last time before the tool runs."""
        self.look(call)
        self._let_through = True

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **named: Any,
    ) -> None:
        """See whether what a tool is about to run with is still the same call, or one that needs nobody."""
        running = _running.get()
        if running is not None and running[0] is self:
            return  # what a tool calls that was let through is its own affair
        now = ToolCall(id=self._decided.id, name=serialized["name"], arguments=inputs or {})
        if not self._is_decided(now) and self._needs_somebody(now):
            self.broken_late = self._started
            raise HookError(CALL_CHANGED.format(now.name))
        self._started = True
        _running.set((self, run_id))

    def on_tool_end(self, output: Any, *, run_id: UUID, **named: Any) -> None:
        """The tool has run: what comes now is another call."""
        if _running.get() == (self, run_id):
            _running.set(None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **named: Any) -> None:
        """As `on_tool_end`."""
        self.on_tool_end(None, run_id=run_id)

    def _is_decided(self, now: ToolCall) -> bool:
        """Whether it is the decided call, as its tool gets it: LangGraph leaves out what no model may set."""
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
    """A request that becomes one for another call only if the seal allows it."""

    seal: CallGuard

    def __getattribute__(self, name: str) -> Any:
        # LangGraph takes the tool just before it runs, and never afterwards: a call that was changed in place
        # is seen then, while a tool may do with its arguments what it likes.
        if name == "tool":
            self.seal.let_through(self.tool_call)
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "tool_call" and "seal" in self.__dict__:
            self.seal.look(value)
        super().__setattr__(name, value)

    def override(self, **overrides: Any) -> ToolCallRequest:
        """The request with these members replaced."""
        self.seal.look(overrides.get("tool_call", self.tool_call))
        return replace(self, **overrides)


def guard_request(request: ToolCallRequest, needs_somebody: Callable[[ToolCall], bool]) -> GuardedRequest:
    """The same request; only a call that `needs_somebody` says no to may be made of its own."""
    seal = CallGuard(snapshot_call(request.tool_call), request.tool, needs_somebody)
    # LangGraph runs the tool with this very config, also if a later middleware hands on a request of its own.
    config: Any = request.runtime.config
    config["callbacks"] = _add_callback(seal, config.get("callbacks"))
    return build_frozen(GuardedRequest, {**request.__dict__, "seal": seal})


def _add_callback(seal: CallGuard, callbacks: Any) -> Any:
    if not isinstance(callbacks, BaseCallbackManager):
        return [*(callbacks or ()), seal]
    own = callbacks.copy()
    own.add_handler(seal, inherit=False)
    return own
