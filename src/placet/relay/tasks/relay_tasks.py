"""Answer for tasks that are held, that the relay created, or that ended in the relay."""

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import parse_qs

from msgspec.structs import replace

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Dialect, TaskState
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import (
    CONTEXT_ID,
    Json,
    build_message,
    build_task,
    build_task_reply,
    build_text_part,
    get_parts,
    get_state,
    translate_part,
    translate_task,
)
from placet.relay.a2a.reply import A2AReply
from placet.relay.task import (
    HAS_ENDED,
    NOT_ANSWERED,
    WAITS_FOR_DECISION,
    Task,
    TaskEnding,
    TaskStatus,
    build_reason_metadata,
)
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tenants import Subscription

BAD_ANSWER = "The agent's response is not valid."
ABANDONED = "The relay stopped while it waited for the agent's response. The outcome is unknown."


_NUMERIC_STATE = re.compile(rb'"state"\s*:\s*"?\s*[0-9]')
PAGE_TOKEN = ("pageToken", "page_token")


def task_view(task: Task, dialect: Dialect, now: datetime) -> Json:
    """Return the task as the caller sees it: working until the decision or the reply, then its end."""
    ending, at = task.ending, task.since or now
    if task.is_abandoned(now):
        status_message = _build_status_message(task, TaskEnding(dialect=dialect, failure=ABANDONED), dialect)
        return _build_task(task, "failed", task.until or at, dialect, status_message=status_message)
    if ending is None:
        metadata = task.hold_metadata if task.status is TaskStatus.HELD else build_reason_metadata("TIMEOUT")
        return _build_task(task, "working", at, dialect, metadata=metadata)
    if ending.task is not None:
        return translate_task(ending.task, ending.dialect, dialect)
    status_message = _build_status_message(task, ending, dialect)
    if ending.metadata is not None:
        return _build_task(
            task, "canceled", at, dialect, status_message=status_message, metadata=ending.metadata or None
        )
    return _build_task(
        task, "completed" if ending.failure is None else "failed", at, dialect, status_message=status_message
    )


def _build_status_message(task: Task, ending: TaskEnding, dialect: Dialect) -> Json:
    parts = [translate_part(part, dialect) for part in get_parts(ending.message or {})]
    return build_message(
        message_id=f"{task.id}-answer",
        role="agent",
        parts=parts or [build_text_part(ending.failure or BAD_ANSWER, dialect)],
        dialect=dialect,
        task_id=task.id,
        context_id=task.context_id,
    )


def _build_task(
    task: Task,
    state: TaskState,
    at: datetime,
    dialect: Dialect,
    *,
    status_message: Json | None = None,
    metadata: Json | None = None,
) -> Json:
    return build_task(
        task_id=task.id,
        context_id=task.context_id or task.id,
        state=state,
        at=at,
        dialect=dialect,
        metadata=metadata,
        status_message=status_message,
    )


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

    def __init__(self, tasks: TaskRepository, now: Callable[[], datetime], *, held_tasks: HeldTasks) -> None:
        self._tasks = tasks
        self._now = now
        self._held_tasks = held_tasks

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
        if not task.is_held:
            raise A2AError("not_cancelable", NOT_ANSWERED)
        return await self._held_tasks.withdraw(subscription, task)

    def _has_ended(self, task: Task) -> bool:
        return task.has_ended or task.is_abandoned(self._now())

    async def find(self, subscription: Subscription, task_id: str) -> Task | None:
        """Return the stored task, or None if it does not exist."""
        return await self._tasks.find(subscription.tenant, subscription.sink.id, "task", task_id)

    async def list_relay_only_tasks(self, subscription: Subscription) -> Sequence[Task]:
        """Return some of the caller's tasks that are or were held and that the agent does not know."""
        return await self._held_tasks.list_relay_only_tasks(subscription)


def may_ask_for_input(data: bytes) -> bool:
    """Return whether unparsed events may say so: they contain the state's name, a number or an escape."""
    if b"nput" in data or b"NPUT" in data or b"\\u" in data:
        return True
    return b'"state"' in data and _NUMERIC_STATE.search(data) is not None


async def add_relay_tasks(
    relay_tasks: RelayTasks, subscription: Subscription, call: A2ACall, reply: A2AReply
) -> A2AReply:
    """Return a page of the caller's tasks. Held tasks are shown as held; tasks of the relay come first."""
    tasks = reply.result.get("tasks")
    if not isinstance(tasks, list):
        return reply
    listed = [await _build_listed_view(relay_tasks, subscription, call, task) for task in tasks]
    listed_ids = {task.get("id") for task in listed if isinstance(task, dict)}
    added = [
        task
        for task in await _list_relay_only_tasks(relay_tasks, subscription, call)
        if task["id"] not in listed_ids
    ]
    if not added and all(new is old for new, old in zip(listed, tasks, strict=True)):
        return reply
    result = reply.result | {"tasks": [*added, *listed]}
    if isinstance(result.get("totalSize"), int):
        result["totalSize"] += len(added)
    document = reply.document | {"result": result} if reply.dialect.rpc else result
    return replace(reply, document=document)


async def _build_listed_view(
    relay_tasks: RelayTasks, subscription: Subscription, call: A2ACall, listed: Any
) -> Any:
    """Return a listed task as the caller may see it."""
    task_id = listed.get("id") if isinstance(listed, dict) else None
    if not isinstance(task_id, str):
        return listed
    task = await relay_tasks.find(subscription, task_id)
    if task is None or not task.is_kept_by_relay:
        return _hide_input_request(listed) if subscription.sink.input_required == "hold" else listed
    return relay_tasks.view(call.dialect, task)


def _hide_input_request(task: Json) -> Json:
    """Return the task without its input request, which could not be held yet."""
    status = task.get("status")
    if get_state(status) != "input-required" or not isinstance(status, dict):
        return task
    working = "working" if status["state"] == "input-required" else "TASK_STATE_WORKING"
    kept = {name: value for name, value in status.items() if name != "message"}
    return task | {"status": kept | {"state": working}}


async def _list_relay_only_tasks(
    relay_tasks: RelayTasks, subscription: Subscription, call: A2ACall
) -> Sequence[Json]:
    """Return the tasks that the agent does not know, for the first page only."""
    params = _get_list_params(call)
    if any(params.get(name) for name in PAGE_TOKEN):
        return []
    context_id = next((params[name] for name in CONTEXT_ID if params.get(name)), None)
    views = [
        relay_tasks.view(call.dialect, task) for task in await relay_tasks.list_relay_only_tasks(subscription)
    ]
    return [
        view
        for view in views
        if (context_id is None or view["contextId"] == context_id)
        and params.get("status") in (None, "", "TASK_STATE_UNSPECIFIED", view["status"]["state"])
    ]


def _get_list_params(call: A2ACall) -> dict[str, Any]:
    if call.dialect.rpc:
        return call.params
    return {name: values[-1] for name, values in parse_qs(call.query).items()}


class TaskWaiters:
    """Callers that wait for the outcome of held tasks."""

    def __init__(self, tasks: TaskRepository) -> None:
        self._tasks = tasks
        self._waiting: dict[tuple[str, str, str], set[asyncio.Event]] = {}

    async def wait_until_released(self, subscription: Subscription, task_id: str) -> Task | None:
        """Wait until the task is not held, and return it. Return None if it does not exist."""
        tenant, agent = subscription.tenant, subscription.sink.id
        key = (tenant, agent, task_id)
        event = asyncio.Event()
        self._waiting.setdefault(key, set()).add(event)
        try:
            task = await self._tasks.find(tenant, agent, "task", task_id)
            while task is not None and task.is_held:
                await event.wait()
                event.clear()
                task = await self._tasks.find(tenant, agent, "task", task_id)
            return task
        finally:
            self._waiting[key].discard(event)
            if not self._waiting[key]:
                del self._waiting[key]

    def wake(self, tenant: str, agent: str, task_id: str) -> None:
        """Wake the callers that wait for this task, because it is no longer held."""
        for event in self._waiting.get((tenant, agent, task_id), ()):
            event.set()

    def wake_all(self, case_id: str | None) -> None:
        """Wake all callers if another process wrote (None), because it may have released any task."""
        if case_id is None:
            for events in self._waiting.values():
                for event in events:
                    event.set()
