"""Approval for any framework that calls your code before and after a tool call."""

import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypedDict, Unpack

from placet.cases.execution_outcomes import NotRunReason
from placet.errors import HookError
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook, State
from placet.hook.argument_checks import require_hooks, require_known_options, require_names, require_text
from placet.hook.gate import Gate, GateOptions
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import describe_failure, describe_result, to_text
from placet.hook.savers.saver import Saver
from placet.hook.thread_resumption import AgentThreads
from placet.hook.tool_call import Schemas, ToolCall

MAX_PASSED_TURNS = 1_000
"""How many turns without a review are remembered, so that their calls are not evaluated twice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Run exactly this call, which a reviewer may have edited; then report it with `finish` or `fail`."""

    call: ToolCall


@dataclass(frozen=True, kw_only=True, slots=True)
class Replace:
    """Do not run the call. The model reads `result` in place of the tool's."""

    result: str
    reason: NotRunReason | None = None
    """Why the call did not do its work; None if a person answered in its place, or if it ran before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Do not run the call now: a reviewer has not decided it. Ask again later."""

    interruption: InterruptionMetadata


CallPermission: TypeAlias = Run | Replace | Wait
"""What `Approver.ask` returns."""


class TurnContext(TypedDict, total=False):
    """What is known about a call beside the call itself."""

    turn: Sequence[ToolCall]
    """All calls of the model's reply, which are reviewed together; without it, the call is reviewed alone."""
    state: State
    """The agent's state, for conditions: at least its `messages`."""
    schemas: Schemas
    """Tool -> its JSON Schema, which edits must match."""


class Approver:
    """Says before each tool call whether it runs, and records after it that it ran.

    `hooks` say which calls need a review. With `reviews`, each stopped turn opens a case under the name
    `agent`; with `grants`, pre-approved calls run without asking. `repeatable` names tools that may run again
    if their process died. A `key` names one turn of one thread: the same in every process, and different for
    every other turn.
    """

    def __init__(
        self, *hooks: Hook, saver: Saver, repeatable: Collection[str] = (), **options: Unpack[GateOptions]
    ) -> None:
        require_hooks(hooks)
        require_known_options(options, GateOptions.__annotations__)
        self._repeatable = frozenset(require_names("repeatable", repeatable))
        self.gate = Gate(hooks, saver, **options)
        self._passed: dict[str, tuple[ToolCall, ...]] = {}
        self._renewals: dict[tuple[str, str], AbstractContextManager[None]] = {}
        self._lock = threading.Lock()

    def ask(self, key: str, call: ToolCall, **context: Unpack[TurnContext]) -> CallPermission:
        """Return whether this call runs now. Of all callers that ask about it, one gets Run.

        Raises ThreadBusy while another caller runs the call, and HookError if other calls were stopped under
        this key.
        """
        require_text("key", key)
        calls = tuple(context.get("turn") or (call,))
        if call not in calls:
            raise HookError(f"The turn has no call {call.id} of {call.name} with these arguments.")
        if self._passed.get(key) == calls:
            return Run(call=call)
        state, schemas = context.get("state"), context.get("schemas")
        stopped = self.gate.stop(key, calls, state=state, schemas=schemas, is_bound=True)
        if stopped is None:
            self._remember(key, calls)
            return Run(call=call)
        if stopped.undecided:
            stopped = self.gate.answer(key, None)
        if stopped.undecided:
            return Wait(interruption=stopped)
        decided = _find_decided(stopped, call.id)
        begun = self.gate.begin(key, call.id, repeatable=decided.name in self._repeatable)
        if not begun.run:
            return Replace(result=begun.result, reason=self.gate.find_not_run_reason(key, call.id))
        self._renew(key, call.id)
        return Run(call=decided)

    async def aask(self, key: str, call: ToolCall, **context: Unpack[TurnContext]) -> CallPermission:
        """Async version of `ask`."""
        asking, undo = partial(self.ask, key, call, **context), partial(self._undo, key, call.id)
        return await self.gate.run_blocking(asking, on_cancel=undo)

    def finish(self, key: str, call: ToolCall, result: Any) -> str:
        """Record that the call ran; return what the model reads, which mentions an edit."""
        return self._end(key, call, to_text(result))

    async def afinish(self, key: str, call: ToolCall, result: Any) -> str:
        """Async version of `finish`."""
        return await self.gate.run_blocking(partial(self.finish, key, call, result))

    def fail(self, key: str, call: ToolCall, error: Exception) -> str:
        """Record that the call failed; return what the model reads. The call does not run again."""
        return self._end(key, call, describe_failure(error))

    async def afail(self, key: str, call: ToolCall, error: Exception) -> str:
        """Async version of `fail`."""
        return await self.gate.run_blocking(partial(self.fail, key, call, error))

    def give_back(self, key: str, call: ToolCall) -> None:
        """Record that a call that got Run has stopped to wait for something; it may be asked about again."""
        self._undo(key, call.id, Run(call=call))

    def waiting(self, key: str) -> InterruptionMetadata | None:
        """Return the stopped calls, with the decisions so far; None if nothing was stopped."""
        return self.gate.waiting(key)

    def answer(self, key: str, feedback: Feedback | None) -> InterruptionMetadata:
        """Store decisions, all or some; raises InvalidFeedback, and then stores nothing.

        A decision that contradicts an earlier one raises AlreadyDecided. Without feedback, the outcome of
        the case is applied, and expired calls are rejected.
        """
        return self.gate.answer(key, feedback)

    def wait_for_decisions(self, key: str, *, timeout: float | None = None) -> InterruptionMetadata:
        """Return the calls when all are decided, or as they are after `timeout` seconds."""
        return self.gate.wait_for_decisions(key, timeout=timeout)

    async def await_decisions(self, key: str, *, timeout: float | None = None) -> InterruptionMetadata:
        """Async version of `wait_for_decisions`."""
        return await self.gate.await_decisions(key, timeout=timeout)

    def threads_of(
        self, resume: Callable[[str], Any], *, aresume: Callable[[str], Awaitable[Any]] | None = None
    ) -> AgentThreads:
        """Return the waiting turns for `resume_pending`; `resume` continues the turn with this key."""
        return self.gate.threads_of(resume, aresume=aresume)

    def release(self, key: str) -> None:
        """Forget a turn that is over; withdraw its case if it still waits."""
        self._passed.pop(key, None)
        self.gate.abandon(key)

    def _end(self, key: str, call: ToolCall, text: str) -> str:
        with self._lock:
            renewal = self._renewals.pop((key, call.id), None)
        if renewal is not None:
            renewal.__exit__(None, None, None)
        stopped = self.gate.waiting(key)
        if stopped is None:  # it needed no review
            return str(text)
        asked = self.gate.find_asked_call(key, call.id) or call
        return self.gate.finish(key, call.id, describe_result(asked, _find_decided(stopped, call.id), text))

    def _remember(self, key: str, calls: tuple[ToolCall, ...]) -> None:
        """Remember a turn that needs no review: a condition that changes later does not stop half of it."""
        while len(self._passed) >= MAX_PASSED_TURNS:
            self._passed.pop(next(iter(self._passed), ""), None)
        self._passed[key] = calls

    def _renew(self, key: str, call_id: str) -> None:
        """Renew the turn's lease until the call is reported."""
        renewal = self.gate.renewing_lease(key)
        renewal.__enter__()
        with self._lock:
            self._renewals[key, call_id] = renewal

    def _undo(self, key: str, call_id: str, permission: CallPermission) -> None:
        """Give back a call whose caller was cancelled while it was claimed."""
        with self._lock:
            renewal = self._renewals.pop((key, call_id), None)
        if isinstance(permission, Run) and renewal is not None:
            renewal.__exit__(None, None, None)
            self.gate.undo_begin(key, call_id)


def _find_decided(stopped: InterruptionMetadata, call_id: str) -> ToolCall:
    """Return the call as it may run."""
    waiting = next((each for each in stopped.tool_feedbacks if each.id == call_id), None)
    if waiting is not None:
        return waiting.call
    return next(call for call in stopped.tools_automatically_approved if call.id == call_id)
