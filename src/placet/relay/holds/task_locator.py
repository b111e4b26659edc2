"""Find the task that a held message belongs to."""

from msgspec import Struct

from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.inspection.message_inspector import InspectionRequest
from placet.relay.task import HAS_ENDED, NOT_ANSWERED, WAITS_FOR_DECISION, Task, TaskStatus
from placet.relay.tasks.access import TASK_NOT_FOUND, TaskAccess
from placet.relay.tenants import Subscription


class HoldTarget(Struct, frozen=True, kw_only=True):
    """The task and context that a held message belongs to."""

    task: Task | None
    """The task; None if the relay has to create one."""
    context_id: str | None
    """The context that the caller named, or None."""


class TaskLocator:
    """Finds the task of a message."""

    def __init__(self, access: TaskAccess) -> None:
        self._access = access

    async def locate_call(self, request: InspectionRequest) -> HoldTarget:
        """Return the task of a call; raise A2AError if it cannot get messages."""
        subscription, call = request.subscription, request.call
        if request.task_id is not None:
            known = await self._find_or_create(request, request.task_id, call.context_id)
            return HoldTarget(task=known, context_id=known.context_id)
        task_id = call.target_task_id
        if task_id is None:
            if call.context_id is not None:
                await self._access.claim_context(subscription, call.context_id)
            return HoldTarget(task=None, context_id=call.context_id)
        task = await self.find_task(subscription, task_id)
        if task is None or task.owner != subscription.source.name:
            raise A2AError("task_not_found", TASK_NOT_FOUND)
        if task.is_kept_by_relay or not task.is_known_to_agent:
            raise build_unavailable_task_error(task)
        return HoldTarget(task=task, context_id=task.context_id or call.context_id)

    async def locate_reply(self, request: InspectionRequest, noted: A2AReply) -> HoldTarget:
        """Return the task of a response with the caller's ids."""
        task = None
        if request.task_id is not None:
            task = await self._find_or_create(request, request.task_id, noted.context_id)
        elif noted.task_id is not None:
            task = await self.find_task(request.subscription, noted.task_id)
        context_id = noted.context_id if task is None else task.context_id or noted.context_id
        return HoldTarget(task=task, context_id=context_id)

    async def _find_or_create(self, request: InspectionRequest, task_id: str, context_id: str | None) -> Task:
        """Return the task with an id that the relay has given; a new one if it is not stored yet."""
        task = await self.find_task(request.subscription, task_id)
        owner = request.subscription.source.name
        return task or Task(
            id=task_id, owner=owner, status=TaskStatus.RUNNING, upstream_id=None, context_id=context_id
        )

    async def find_task(self, subscription: Subscription, task_id: str) -> Task | None:
        """Return the task that the caller sees, by the caller's or the agent's id."""
        return await self._access.find_caller_task(subscription, task_id)


def build_unavailable_task_error(task: Task) -> A2AError:
    """Return the error for a message to a task that the agent cannot get now."""
    if task.has_ended:
        return A2AError("unsupported", HAS_ENDED)
    return A2AError("unsupported", WAITS_FOR_DECISION if task.is_held else NOT_ANSWERED)
