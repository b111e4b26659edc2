"""Execution receipts: agents report what became of approved calls, at least once.

A receipt is stored in the agent's saver before the call's result is, and sent in the background. It is
deleted when the case has it. What could not be sent is sent after the next receipt that can be, and when
threads are resumed, in any process with that saver. No failure here reaches a tool or the agent.
"""

import atexit
import inspect
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from placet.cases.execution_outcomes import ExecutionOutcome
from placet.errors import CheckpointConflict
from placet.hook.async_values import find_waiting_loop
from placet.hook.checkpoint import Checkpoint
from placet.hook.json_text import digest_json
from placet.hook.workers import Workers

if TYPE_CHECKING:
    from asyncio import Task

    from placet.hook.savers.saver import Saver

logger = logging.getLogger(__name__)
RECEIPTS = "receipts:"
"""Begins the ids of the saver's threads that hold unsent receipts, and the names of their agents."""
EXIT_WAIT_S = 2.0
"""How long a program that ends waits for receipts that are being sent."""
_outboxes: "weakref.WeakSet[ReceiptOutbox]" = weakref.WeakSet()
Receipt = Mapping[str, str]
"""`call_id`, `outcome` and `at`, as the server takes them."""


class ReceivesReceipts(Protocol):
    """Reviews that take receipts; the method may be async. Without it, nothing is reported."""

    def report_calls(self, case: Mapping[str, Any], receipts: Sequence[Receipt]) -> Awaitable[None] | None:
        """Report what became of calls. A case that will never take them is no error; other errors are."""
        ...


class ReceiptOutbox:
    """Stores receipts in a saver, and sends them to the reviews of one agent."""

    def __init__(self, *, name: str, reviews: object, saver: "Saver", clock: Callable[[], datetime]) -> None:
        self._name = RECEIPTS + name
        self._report: Callable[..., Any] | None = getattr(reviews, "report_calls", None)
        self._saver = saver
        self._clock = clock
        self._workers = Workers()
        self._tasks: set[Task[None]] = set()
        self._sending: list[str] = []
        self._may_have_left = True
        """Whether earlier attempts or dead processes may have left entries."""
        self._is_idle = threading.Condition()
        _outboxes.add(self)

    @property
    def is_used(self) -> bool:
        """Whether anyone takes receipts."""
        return self._report is not None

    def report(self, case: Mapping[str, Any], outcomes: Mapping[str, ExecutionOutcome]) -> None:
        """Store what became of these calls, and send it in the background."""
        entry = self.store(case, outcomes)
        if entry is not None:
            self.send_later(entry)

    def store(self, case: Mapping[str, Any], outcomes: Mapping[str, ExecutionOutcome]) -> Checkpoint | None:
        """Store what became of these calls; None if it is stored already, or if nobody takes it."""
        if self._report is None or "case_id" not in case or not outcomes:
            return None
        prefix, at = case.get("prefix", ""), self._clock().isoformat()
        receipts = [
            {"call_id": prefix + call_id, "outcome": str(outcome), "at": at}
            for call_id, outcome in outcomes.items()
        ]
        name = digest_json(sorted(receipt["call_id"] for receipt in receipts))[:16]
        entry = Checkpoint(
            thread_id=f"{RECEIPTS}{case['case_id']}:{name}",
            agent=self._name,
            rev=1,
            stage="running",
            case={"case_id": case["case_id"]},
            messages=tuple(receipts),
        )
        try:
            self._saver.unsynced.put(entry)
        except CheckpointConflict:
            return None  # another process reported the same calls
        except Exception as error:
            logger.warning("receipt_not_stored case=%s error=%r", case["case_id"], error)
        return entry

    def send_later(self, entry: Checkpoint) -> None:
        """Send an entry in the background: on the caller's event loop if the reviews are async."""
        with self._is_idle:
            self._sending.append(entry.thread_id)
        if not inspect.iscoroutinefunction(self._report):
            self._workers.begin(partial(self._send_with_stored, entry), partial(self._end_sending, entry))
        elif (loop := find_waiting_loop()) is not None:
            loop.call_soon_threadsafe(self._start_task, entry)
        else:
            self._end_sending(entry)  # no loop: it is sent when threads are resumed

    def _start_task(self, entry: Checkpoint) -> None:
        import asyncio

        task = asyncio.get_running_loop().create_task(self._asend_with_stored(entry))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(partial(self._end_sending, entry))

    def _end_sending(self, entry: Checkpoint, *_: object) -> None:
        with self._is_idle:
            self._sending.remove(entry.thread_id)
            self._is_idle.notify_all()

    def wait_until_sent(self, at_most: float) -> bool:
        """Return whether everything that is being sent ended within this many seconds."""
        with self._is_idle:
            return self._is_idle.wait_for(lambda: not self._sending, at_most)

    def send_stored(self) -> None:
        """Send what earlier attempts and dead processes left."""
        for entry in self._list_stored():
            self._send(entry)

    async def asend_stored(self) -> None:
        """Async version of `send_stored`."""
        for entry in await self._workers.run(lambda: list(self._list_stored())):
            await self._asend(entry)

    def _send_with_stored(self, entry: Checkpoint) -> None:
        if self._send(entry) and self._may_have_left:
            self._may_have_left = False
            self.send_stored()

    async def _asend_with_stored(self, entry: Checkpoint) -> None:
        if await self._asend(entry) and self._may_have_left:
            self._may_have_left = False
            await self.asend_stored()

    def _list_stored(self) -> Iterator[Checkpoint]:
        """Yield the entries of this agent's name that nobody in this process is sending."""
        if self._report is None:
            return
        for thread_id in self._saver.list_threads("running"):
            with self._is_idle:
                is_left = thread_id.startswith(RECEIPTS) and thread_id not in self._sending
            saved = self._saver.get(thread_id) if is_left else None
            if saved is not None and saved.checkpoint.agent == self._name:
                yield saved.checkpoint

    def _send(self, entry: Checkpoint) -> bool:
        """Return whether the case has the entry."""
        try:
            sent = self._call_report(entry)
            if inspect.isawaitable(sent):
                from placet.hook.async_values import wait_for_value

                wait_for_value(sent)
            self._saver.unsynced.release(entry.thread_id)
        except Exception as error:
            return self._log_failure(entry, error)
        return True

    async def _asend(self, entry: Checkpoint) -> bool:
        """Async version of `_send`."""
        try:
            sent = await self._workers.run(partial(self._call_report, entry))
            if inspect.isawaitable(sent):
                await sent
            await self._workers.run(partial(self._saver.unsynced.release, entry.thread_id))
        except Exception as error:
            return self._log_failure(entry, error)
        return True

    def _log_failure(self, entry: Checkpoint, error: Exception) -> bool:
        self._may_have_left = True
        case_id = (entry.case or {}).get("case_id")
        logger.info("receipt_not_sent case=%s state=stored error=%s", case_id, error)
        return False

    def _call_report(self, entry: Checkpoint) -> Any:
        return None if self._report is None else self._report(entry.case, entry.messages)


def is_receipt_entry(thread_id: str) -> bool:
    """Return whether a saver's thread is none, but holds receipts that were not sent yet."""
    return thread_id.startswith(RECEIPTS)


@atexit.register
def _wait_at_exit() -> None:
    for outbox in list(_outboxes):
        outbox.wait_until_sent(EXIT_WAIT_S)
