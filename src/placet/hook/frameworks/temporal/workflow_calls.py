"""Calls in a workflow: each runs as an activity once it is decided; until then the workflow waits by signal.

This module runs inside Temporal's sandbox. It does nothing that a replay would do differently.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow

from placet.errors import HookError
from placet.hook.tool_call import ToolCall

RUN_CALL, RELEASE = "placet_run_call", "placet_release"
DECIDED, WAITING = "placet_decided", "placet_waiting"
FIRST_CHECK, LAST_CHECK = timedelta(minutes=1), timedelta(hours=1)
EXPIRY_MARGIN_S = 1.0
RUN_ID_LENGTH = 36


@dataclass(frozen=True, kw_only=True)
class CallTask:
    """One call of a turn, as the activity gets it."""

    key: str
    call_id: str
    calls: list[dict[str, Any]]
    state: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class CallProgress:
    """What the model reads, or None while the call waits for a decision."""

    result: str | None = None
    expires_in: float | None = None
    """How many seconds reviewers have left."""


class ApprovedCalls:
    """Runs tool calls in a workflow after a reviewer has decided them. Create one for each workflow run.

    `start_to_close` is how long one call may run. If its worker dies, Temporal notices after
    `heartbeat_timeout`. `options` are further options of `workflow.execute_activity`, such as `task_queue`.
    """

    def __init__(
        self,
        *,
        start_to_close: timedelta = timedelta(minutes=10),
        heartbeat_timeout: timedelta = timedelta(seconds=30),
        **options: Any,
    ) -> None:
        self._options = {
            "start_to_close_timeout": start_to_close,
            "heartbeat_timeout": heartbeat_timeout,
            **options,
        }
        self._signals = 0
        self._waiting: str | None = None
        workflow.set_signal_handler(DECIDED, self._note_decision)
        workflow.set_query_handler(WAITING, lambda: self._waiting)

    async def run(
        self, turn: str, calls: Sequence[ToolCall], *, state: Mapping[str, Any] | None = None
    ) -> list[str]:
        """Run the calls of one reply of the model, in order, and return what the model reads for each.

        All of them are reviewed together. `turn` names the reply: another name for every other reply of this
        workflow. `state` is for conditions: at least the `messages`.
        """
        key = _build_key(turn)
        turns_calls = [call.to_dict() for call in calls]
        return [
            await self._run(CallTask(key=key, call_id=call.id, calls=turns_calls, state=dict(state or {})))
            for call in calls
        ]

    async def _run(self, task: CallTask) -> str:
        check = FIRST_CHECK
        while True:
            seen = self._signals
            progress = await workflow.execute_activity(
                RUN_CALL, task, result_type=CallProgress, **self._options
            )
            if progress.result is not None:
                return str(progress.result)
            self._waiting = task.key
            try:
                await self._wait_for_signal(seen, check, progress.expires_in)
            except asyncio.CancelledError:
                await workflow.execute_activity(RELEASE, task.key, **self._options)
                raise
            finally:
                self._waiting = None
            check = min(2 * check, LAST_CHECK)

    async def _wait_for_signal(self, seen: int, check: timedelta, expires_in: float | None) -> None:
        """Return after a signal, at the deadline of the review, or now and then: a signal may get lost."""
        left = check.total_seconds()
        if expires_in is not None:
            left = min(left, max(0.0, expires_in) + EXPIRY_MARGIN_S)
        try:
            await workflow.wait_condition(lambda: self._signals > seen, timeout=left)
        except asyncio.TimeoutError:  # noqa: UP041 - Temporal's own, in any version of Python
            return

    def _note_decision(self, key: str) -> None:
        """Wake the workflow. The signal decides nothing: what runs is what the reviewer decided."""
        self._signals += 1


def _build_key(turn: str) -> str:
    """Return the key of a turn: the same at every replay, and different in every other workflow."""
    if not turn or "/" in turn:
        raise HookError(f"turn must be a name without '/', not {turn!r}.")
    info = workflow.info()
    return f"{info.workflow_id}/{info.first_execution_run_id}/{turn}"


def read_workflow_id(key: str) -> str | None:
    """Return the workflow that a key belongs to; None if it is not a key of a workflow."""
    parts = key.rsplit("/", 2)
    return parts[0] if len(parts) == 3 and len(parts[1]) == RUN_ID_LENGTH else None
