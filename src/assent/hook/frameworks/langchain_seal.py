"""A LangChain call that was decided, on its way through the middleware after the approval to its tool."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest

from assent.errors import HookError
from assent.hook.calls import ToolCall
from assent.hook.frameworks.langchain_wire import as_it_is, call_of
from assent.hook.values import made, replace

CHANGED = (
    "{} was not run: other middleware made this call of another one, and a person must see it first."
    " Put what changes calls before the approval in the list."
)


class Seal:
    """Holds a call to what was decided; raises HookError for another one that somebody must see first."""

    def __init__(self, decided: ToolCall, needs_somebody: Callable[[ToolCall], bool]) -> None:
        self._decided = decided
        self._needs_somebody = needs_somebody
        self._let_through = False
        self.broken_late = False
        """Whether the call was found changed when the tool may have run."""

    def look(self, call: Mapping[str, Any]) -> None:
        """See whether it is still the same call, or one that needs nobody."""
        now = call_of(call)
        if now != self._decided and self._needs_somebody(now):
            self.broken_late = self._let_through
            raise HookError(CHANGED.format(now.name))

    def let_through(self, call: Mapping[str, Any]) -> None:
        """As `look`, for the last time before the tool runs."""
        self.look(call)
        self._let_through = True


@dataclasses.dataclass
class SealedRequest(ToolCallRequest):
    """A request that becomes one for another call only if the seal allows it."""

    seal: Seal

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


def sealed(request: ToolCallRequest, needs_somebody: Callable[[ToolCall], bool]) -> SealedRequest:
    """The same request; only a call that `needs_somebody` says no to may be made of its own."""
    seal = Seal(as_it_is(request.tool_call), needs_somebody)
    return made(SealedRequest, {**request.__dict__, "seal": seal})
