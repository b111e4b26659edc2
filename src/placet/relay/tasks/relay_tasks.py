"""Tasks that the relay answers for: held, taken over, or ended here."""

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from placet.relay.a2a.builders import build_task_reply
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Dialect, Operation
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.inspection.message_inspector import AnswerVerdict, InspectionRequest, RefuseVerdict
from placet.relay.registry.subscriptions import Subscription
from placet.relay.tasks.task_repository import Task, TaskRepository
from placet.relay.tasks.task_view import task_view

NOT_ANSWERED = "The agent has not answered yet; ask again later."
WAITS_FOR_DECISION = "The task waits for a person's decision; ask for it later."
ENDED = "The task has ended."
_NUMERIC_STATE = re.compile(rb'"state"\s*:\s*"?\s*[0-9]')
RELAY_OPERATIONS: frozenset[Operation] = frozenset({"get", "cancel", "subscribe", "send", "stream"})
"""What of a task the relay answers itself while it has it, whether or not the agent knows the task."""


class TaskHandle:
    """The relay's own name for what a call is about, as soon as there is one."""

    __slots__ = ("asking", "goes_on", "task_id", "upstream_id")

    def __init__(self, task_id: str | None = None) -> None:
        self.task_id = task_id
        self.upstream_id: str | None = None
        """The agent's own name for it."""
        self.asking = 0
        """How many look at the message right now: they may be about to hold it."""
        self.goes_on = False
        """Whether the call goes on without its caller, so that more may be found in it."""


class HoldGuard(Protocol):
    """Holds agents' requests for input, and withdraws holds that callers cancel."""

    async def hold_input_request(self, request: InspectionRequest) -> AnswerVerdict | RefuseVerdict | None:
        """Hold an answer in which the agent asks for input; None for any other."""
        ...

    async def withdraw(self, subscription: Subscription, entry: Task) -> Task:
        """End a task that waits for a person; raises A2AError if a person was faster."""
        ...

    async def list_relay_only_tasks(self, subscription: Subscription) -> Sequence[Task]:
        """Some of the caller's tasks that are or were held and of which the agent knows nothing."""
        ...


class RelayTasks:
    """Answers for these tasks, and lets callers wait for their outcome."""

    def __init__(self, book: TaskRepository, now: Callable[[], datetime]) -> None:
        self.guard: HoldGuard | None = None
        self._book = book
        self._now = now
        self._waiting: dict[tuple[str, str, str], set[asyncio.Event]] = {}

    def answers_for(self, entry: Task, call: A2ACall, *, besides: str | None = None) -> bool:
        """Whether the agent is not to be asked; `besides` is the task of which it is to be asked now."""
        if entry.upstream_id is None:
            return entry.id != besides
        return (entry.hold_id is not None or entry.ending is not None) and (
            call.operation in RELAY_OPERATIONS and entry.id != besides
        )

    async def answer(self, subscription: Subscription, call: A2ACall, entry: Task) -> Json:
        """What there is to say; raises A2AError for what cannot be done with the task."""
        told = NOT_ANSWERED if entry.hold_id is None else WAITS_FOR_DECISION
        if call.operation == "cancel":
            entry = await self._cancel(subscription, entry)
        elif call.operation not in ("get", "subscribe"):
            raise A2AError("unsupported", ENDED if self._has_ended(entry) else told)
        return self.build_answer(call, entry)

    def build_answer(self, call: A2ACall, entry: Task) -> Json:
        """The task as it stands, as an answer to this call."""
        return build_task_reply(self.view(call.dialect, entry), call.operation, call.dialect, call.rpc_id)

    def view(self, dialect: Dialect, entry: Task) -> Json:
        """The task as it stands."""
        return task_view(entry, dialect, self._now())

    async def _cancel(self, subscription: Subscription, entry: Task) -> Task:
        if self._has_ended(entry):
            raise A2AError("not_cancelable", ENDED)
        if entry.hold_id is None or self.guard is None:
            raise A2AError("not_cancelable", NOT_ANSWERED)
        return await self.guard.withdraw(subscription, entry)

    def _has_ended(self, entry: Task) -> bool:
        return entry.ending is not None or entry.is_abandoned(self._now())

    async def find(self, subscription: Subscription, task_id: str) -> Task | None:
        """The task as the book has it."""
        return await self._book.find(subscription.tenant, subscription.sink.id, "task", task_id)

    async def wait_until_released(self, subscription: Subscription, task_id: str) -> Task | None:
        """The task once the relay no longer holds it; None if there is no such task."""
        key = (subscription.tenant, subscription.sink.id, task_id)
        event = asyncio.Event()
        self._waiting.setdefault(key, set()).add(event)
        try:
            while (entry := await self.find(subscription, task_id)) is not None and entry.hold_id is not None:
                await event.wait()
                event.clear()
            return entry
        finally:
            self._waiting[key].discard(event)
            if not self._waiting[key]:
                del self._waiting[key]

    def wake(self, tenant: str, agent: str, task_id: str) -> None:
        """Wake whoever waits: the relay has let go of the task."""
        for event in self._waiting.get((tenant, agent, task_id), ()):
            event.set()

    def wake_all(self, case_id: str | None) -> None:
        """Wake everyone who waits if another process wrote (None): it may have let go of any task."""
        if case_id is None:
            for events in self._waiting.values():
                for event in events:
                    event.set()


def asks_for_input(reply: A2AReply) -> bool:
    """Whether an answer or an event says that the agent waits for input."""
    return reply.state == "input-required"


def may_ask_for_input(data: bytes) -> bool:
    """Whether events could say so, without reading them: a word of the state, its number, or escapes."""
    if b"nput" in data or b"NPUT" in data or b"\\u" in data:
        return True
    return b'"state"' in data and _NUMERIC_STATE.search(data) is not None
