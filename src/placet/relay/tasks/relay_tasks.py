"""Answer for tasks that are held, that the relay created, or that ended in the relay."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json, build_task_reply
from placet.relay.a2a.reply import digest_message
from placet.relay.task import HAS_ENDED, NOT_ANSWERED, WAITS_FOR_DECISION, Task
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tasks.task_view import task_view
from placet.relay.tenants import Subscription
from placet.relay.write_queue import CallWrites

_NUMERIC_STATE = re.compile(rb'"state"\s*:\s*"?\s*[0-9]')


class TaskHandle:
    """The state of one call that changes while the call is handled."""

    __slots__ = (
        "forwarded",
        "inspections",
        "is_in_background",
        "released_events",
        "sent_message",
        "task_id",
        "upstream_id",
        "writes",
    )

    def __init__(self, task_id: str | None = None, *, writes: CallWrites | None = None) -> None:
        self.task_id = task_id
        """The relay's id for the task of the call; None if the relay has not created or held one."""
        self.writes = writes
        """The task rows that wait for the audit event of the call; None if rows are written at once."""
        self.upstream_id: str | None = None
        """The agent's id for the task."""
        self.forwarded: str | None = None
        """The digest of the message as the agent gets it (`digest_message`); None for other operations."""
        self.sent_message: Json | None = None
        """The message as the agent gets it."""
        self.released_events = 0
        """The number of events of a stream that the caller has got before it was inspected as a whole."""
        self.inspections = 0
        """How many inspections are in progress. Each of them may hold the message."""
        self.is_in_background = False
        """Whether the call continues after its caller was answered, so that more findings may follow."""

    @contextmanager
    def count_inspection(self) -> Iterator[None]:
        """Count an inspection while it is in progress."""
        self.inspections += 1
        try:
            yield
        finally:
            self.inspections -= 1

    def record_sent(self, message: Json) -> str:
        """Record the message as the agent gets it, and return its digest."""
        self.sent_message, self.forwarded = message, digest_message(message)
        return self.forwarded


class HeldTasks(Protocol):
    """Lists held tasks, and withdraws holds that callers cancel."""

    async def withdraw(self, subscription: Subscription, task: Task) -> Task:
        """Cancel a held task and return it. Raises A2AError if the decision was made before."""
        ...

    async def list_relay_only_tasks(self, subscription: Subscription) -> Sequence[Task]:
        """Return some of the caller's tasks that are or were held and that the agent does not know."""
        ...


class RelayTasks:
    """Answers calls about these tasks."""

    def __init__(
        self, tasks: TaskRepository, now: Callable[[], datetime], *, held_tasks: HeldTasks | None = None
    ) -> None:
        self._tasks = tasks
        self._now = now
        self._held_tasks = held_tasks

    @property
    def can_hold(self) -> bool:
        """Whether messages may be held."""
        return self._held_tasks is not None

    async def answer(self, subscription: Subscription, call: A2ACall, task: Task) -> Json:
        """Return the response to a call about a task. Raises A2AError if the operation is not possible."""
        reason = WAITS_FOR_DECISION if task.is_held else NOT_ANSWERED
        if call.operation == "cancel":
            task = await self._cancel(subscription, task)
        elif call.operation not in ("get", "subscribe"):
            raise A2AError("unsupported", HAS_ENDED if self._has_ended(task) else reason)
        return self.build_answer(call, task)

    def build_answer(self, call: A2ACall, task: Task) -> Json:
        """Return the current state of the task as the response to a call."""
        return build_task_reply(self.view(call.dialect, task), call.operation, call.dialect, call.rpc_id)

    def view(self, dialect: Dialect, task: Task) -> Json:
        """Return the current state of the task."""
        return task_view(task, dialect, self._now())

    async def _cancel(self, subscription: Subscription, task: Task) -> Task:
        if self._has_ended(task):
            raise A2AError("not_cancelable", HAS_ENDED)
        if not task.is_held or self._held_tasks is None:
            raise A2AError("not_cancelable", NOT_ANSWERED)
        return await self._held_tasks.withdraw(subscription, task)

    def _has_ended(self, task: Task) -> bool:
        return task.has_ended or task.is_abandoned(self._now())

    async def find(self, subscription: Subscription, task_id: str) -> Task | None:
        """Return the stored task, or None if it does not exist."""
        return await self._tasks.find(subscription.tenant, subscription.sink.id, "task", task_id)

    async def list_relay_only_tasks(self, subscription: Subscription) -> Sequence[Task]:
        """Return some of the caller's tasks that are or were held and that the agent does not know."""
        return [] if self._held_tasks is None else await self._held_tasks.list_relay_only_tasks(subscription)


def may_ask_for_input(data: bytes) -> bool:
    """Return whether unparsed events may say so: they contain the state's name, a number or an escape."""
    if b"nput" in data or b"NPUT" in data or b"\\u" in data:
        return True
    return b'"state"' in data and _NUMERIC_STATE.search(data) is not None
