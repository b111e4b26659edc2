"""Let callers wait until a held task is released."""

import asyncio

from placet.relay.task import Task
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tenants import Subscription


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
