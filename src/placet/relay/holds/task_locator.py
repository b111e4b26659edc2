"""Find the task that a held message belongs to."""

from msgspec import Struct

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import TASK_ID, get_text
from placet.relay.a2a.reply import A2AReply
from placet.relay.inspection.message_inspector import InspectionRequest
from placet.relay.registry.subscriptions import Subscription
from placet.relay.tasks.access import TASK_NOT_FOUND, TaskAccess
from placet.relay.tasks.relay_tasks import ENDED, WAITS_FOR_DECISION
from placet.relay.tasks.task_repository import Task, TaskRepository


class HoldTarget(Struct, frozen=True, kw_only=True):
    """The task and context that a held message belongs to."""

    entry: Task | None
    """The task; None if the relay has yet to name one."""
    context_id: str | None
    """The conversation, as far as the caller has named one."""


class TaskLocator:
    """Finds the task of a message in the task repository."""

    def __init__(self, book: TaskRepository, access: TaskAccess) -> None:
        self._book = book
        self._access = access

    async def locate_call(self, request: InspectionRequest) -> HoldTarget:
        """The task that a call is about; raises A2AError if it is not its caller's, or waits already."""
        subscription, call = request.subscription, request.call
        if request.task_id is not None:
            given = await self._find_or_create(request, request.task_id, call.context_id)
            return HoldTarget(entry=given, context_id=given.context_id)
        target = get_target_task_id(call)
        if target is None:
            if call.context_id is not None:
                await self._access.conversation(subscription, call.context_id)
            return HoldTarget(entry=None, context_id=call.context_id)
        entry = await self.find_task(subscription, target)
        if entry is None or entry.owner != subscription.source.name:
            raise A2AError("task_not_found", TASK_NOT_FOUND)
        if entry.hold_id is not None or entry.ending is not None:
            raise unavailable_task_error(entry)
        return HoldTarget(entry=entry, context_id=entry.context_id or call.context_id)

    async def locate_reply(self, request: InspectionRequest, noted: A2AReply) -> HoldTarget:
        """The task that an answer in the caller's own names is about."""
        entry = None
        if request.task_id is not None:
            entry = await self._find_or_create(request, request.task_id, noted.context_id)
        elif noted.task_id is not None:
            entry = await self.find_task(request.subscription, noted.task_id)
        context_id = noted.context_id if entry is None else entry.context_id or noted.context_id
        return HoldTarget(entry=entry, context_id=context_id)

    async def _find_or_create(self, request: InspectionRequest, task_id: str, context_id: str | None) -> Task:
        """The task that the relay has named before, known to the book or just about to be."""
        entry = await self.find_task(request.subscription, task_id)
        owner = request.subscription.source.name
        return entry or Task(id=task_id, owner=owner, upstream_id=None, context_id=context_id)

    async def find_task(self, subscription: Subscription, task_id: str) -> Task | None:
        """The entry that a caller sees, by either name of the task."""
        tenant, agent = subscription.tenant, subscription.sink.id
        entry = await self._book.find(tenant, agent, "task", task_id)
        if entry is None or entry.shown_as is None:
            return entry
        return await self._book.find(tenant, agent, "task", entry.shown_as)


def unavailable_task_error(entry: Task) -> A2AError:
    """Why nothing more can be said on a task that the relay speaks for."""
    return A2AError("unsupported", WAITS_FOR_DECISION if entry.ending is None else ENDED)


def get_target_task_id(call: A2ACall) -> str | None:
    """The task that a call is about, or that its message is sent to; those it only refers to are others."""
    if call.message is None:
        return call.task_id
    return get_text(call.message, TASK_ID) or call.path_task or get_text(call.params, TASK_ID)
