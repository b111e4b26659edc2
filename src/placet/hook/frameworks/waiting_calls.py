"""Calls that wait for their decision inside the run, for frameworks whose runs cannot stop and continue."""

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from placet.errors import HookError, ThreadBusy, Unavailable
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook
from placet.hook.approver import Approver, Replace, Run, Wait
from placet.hook.argument_checks import require_number, require_text
from placet.hook.gate import GateOptions
from placet.hook.interruption import InterruptionMetadata
from placet.hook.savers.saver import Saver
from placet.hook.tool_call import ToolCall
from placet.hook.waiting import SAFETY_INTERVAL_S, wait_for_case
from placet.hook.workers import Workers

logger = logging.getLogger(__name__)
CALL_ID = "call"
POLL_INTERVAL_S = 1.0


@dataclass(frozen=True, kw_only=True)
class DecidedCall:
    """A call with its decision. Report a call that ran with `WaitingCalls.finish` or `fail`."""

    key: str
    asked: ToolCall
    permission: Run | Replace


class WaitingCalls:
    """Decides the calls of one run, each alone, and waits for a reviewer where one must decide.

    A call is identified by the `run_id`, its tool, its arguments, and how often the run made it before. A run
    that is repeated after its process died finds the decisions and results of the calls that it makes again.
    While another process runs a call, this one waits for its result.
    """

    def __init__(
        self,
        *hooks: Hook,
        saver: Saver,
        run_id: str,
        repeatable: Collection[str] = (),
        ask: Callable[[InterruptionMetadata], Feedback | None] | None = None,
        poll_interval: float = POLL_INTERVAL_S,
        **options: Unpack[GateOptions],
    ) -> None:
        require_text("run_id", run_id)
        require_number("poll_interval", poll_interval)
        self.approver = Approver(*hooks, saver=saver, repeatable=repeatable, **options)
        self._run_id, self._ask, self._poll_interval = run_id, ask, poll_interval
        self._made: Counter[str] = Counter()
        self._waiting: dict[str, InterruptionMetadata] = {}
        self._changed = threading.Condition()
        self._followed: set[str] = set()
        self._workers = Workers()

    def restart(self) -> None:
        """Begin the run again: its first call is again the first one."""
        with self._changed:
            self._made.clear()

    def waiting(self) -> list[InterruptionMetadata]:
        """Return what waits for a reviewer in this process."""
        with self._changed:
            return list(self._waiting.values())

    def answer(self, feedback: InterruptionMetadata) -> None:
        """Store decisions from another thread of this process; the call continues at once."""
        self.approver.answer(feedback.thread_id, feedback)
        with self._changed:
            self._changed.notify_all()

    def decide(
        self, name: str, arguments: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> DecidedCall:
        """Return what happens with a call; waits until it is decided."""
        call = ToolCall(id=CALL_ID, name=name, arguments=_copy_as_json(name, arguments))
        key = self._name_call(call)
        while True:
            permission = self._poll(key, call, {name: schema})
            if isinstance(permission, Run | Replace):
                with self._changed:
                    self._waiting.pop(key, None)
                return DecidedCall(key=key, asked=call, permission=permission)

    def was_stopped(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether an earlier run already asked about this call, the next one of its kind."""
        call = ToolCall(id=CALL_ID, name=name, arguments=_copy_as_json(name, arguments))
        return self.approver.waiting(self._name_call(call, is_made=False)) is not None

    def finish(self, decided: DecidedCall, result: Any) -> str:
        """Record that the call ran; return the text for the model, which mentions an edit."""
        return self.approver.finish(decided.key, decided.asked, result)

    def fail(self, decided: DecidedCall, error: Exception) -> str:
        """Record that the call failed; return the text for the model."""
        return self.approver.fail(decided.key, decided.asked, error)

    def _poll(self, key: str, call: ToolCall, schemas: Any) -> Run | Replace | None:
        """Ask once; without a decision, ask the reviewer or wait."""
        try:
            permission = self.approver.ask(key, call, schemas=schemas)
            if not isinstance(permission, Wait):
                return permission
            with self._changed:
                self._waiting[key] = permission.interruption
            if self._ask is not None:
                self.approver.answer(key, self._ask(permission.interruption))
                return None
        except ThreadBusy:  # another run makes this call; its result will be found
            logger.info("call_runs_elsewhere tool=%s state=waiting", call.name)
            with self._changed:
                self._waiting.pop(key, None)
                self._changed.wait(self._poll_interval)
            return None
        except Unavailable:
            if key not in self._waiting:
                raise
            logger.warning("reviews_unavailable tool=%s state=waiting", call.name)
        with self._changed:  # held until it waits, so that no wake-up is missed
            self._follow_case(key)
            self._changed.wait(self._poll_interval)
        return None

    def _follow_case(self, key: str) -> None:
        """Have the waiting call ask again as soon as its case closes, if the reviews can tell."""
        reviews, case = self.approver.gate.reviews, self._waiting[key].case
        if case is None or key in self._followed or not hasattr(reviews, "wait_for_case"):
            return
        self._followed.add(key)

        def wake(*_: object) -> None:
            with self._changed:
                self._followed.discard(key)
                self._changed.notify_all()

        self._workers.begin(partial(wait_for_case, reviews, case, SAFETY_INTERVAL_S), wake)

    def _name_call(self, call: ToolCall, *, is_made: bool = True) -> str:
        """Return a key that is the same when the run is repeated; count the call if it is made now."""
        same = json.dumps([self._run_id, call.name, call.arguments], sort_keys=True)
        with self._changed:
            number = self._made[same] + 1
            if is_made:
                self._made[same] = number
            return json.dumps([same, number])


def _copy_as_json(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as the reviewer sees them; raises HookError if they are not JSON."""
    try:
        text = json.dumps(dict(arguments), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise HookError(f"The arguments of {name} cannot be shown to a reviewer: {error}.") from error
    shown: dict[str, Any] = json.loads(text)
    return shown
