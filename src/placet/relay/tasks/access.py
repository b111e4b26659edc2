"""Keep callers from each other's tasks, and translate task names between caller and agent."""

from msgspec.structs import replace

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.call_parsing import MAX_ID_LENGTH
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import CONTEXT_ID, Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.task_id_replacement import replace_task_id
from placet.relay.registry.subscriptions import Subscription
from placet.relay.tasks.task_repository import Task, TaskRepository

TASK_NOT_FOUND = "Task not found"
ID_TOO_LONG = (
    f"An id of the agent's is longer than {MAX_ID_LENGTH} characters, so that nobody could ask for it."
)
FOREIGN_TASK = "The agent's answer is about somebody else's task."


class TaskOwnedByRelay(Exception):
    """The relay answers for this task; the agent's reply about it is not passed on."""

    def __init__(self, entry: Task) -> None:
        super().__init__("the relay speaks for the task")
        self.entry = entry


class TaskAccess:
    """Checks that tasks belong to the caller, and translates task ids for each side."""

    def __init__(self, book: TaskRepository) -> None:
        self.book = book

    async def entries(self, subscription: Subscription, call: A2ACall) -> list[Task]:
        """The tasks a call names; raises A2AError for one that is not its caller's."""
        found = []
        for task_id in call.task_ids:
            entry = await self.book.find(subscription.tenant, subscription.sink.id, "task", task_id)
            if entry is None or entry.owner != subscription.source.name:
                raise A2AError("task_not_found", TASK_NOT_FOUND)
            found.append(entry)
        return found

    async def admit(self, subscription: Subscription, call: A2ACall, entries: list[Task]) -> A2ACall:
        """The call in the agent's own names; raises A2AError for a conversation that is another's."""
        for entry in entries:
            if entry.upstream_id is not None and entry.upstream_id != entry.id:
                call = _replace_call_task_id(call, entry.id, entry.upstream_id)
        if call.context_id is None:
            return call
        context = await self._context(subscription, call.context_id)
        if context.upstream_id is None or context.upstream_id == context.id:
            return call
        return _replace_context_id(call, context.upstream_id)

    async def note(self, subscription: Subscription, reply: A2AReply, *, own: str | None = None) -> A2AReply:
        """The answer in the caller's own names, its task and conversation the caller's from now on.

        Raises A2AError for an answer about a task or a conversation of somebody else, and SpokenFor for one
        about a task that the relay has, unless that is the caller's name `own`.
        """
        if reply.operation == "list":
            return await self._filter_listed(subscription, reply)
        if any(one is not None and len(one) > MAX_ID_LENGTH for one in (reply.task_id, reply.context_id)):
            raise A2AError("agent_response", ID_TOO_LONG)
        if reply.context_id is not None:
            await self._context(subscription, reply.context_id, FOREIGN_TASK)
        task_id = reply.task_id
        if task_id is None:
            return reply
        entry = await self.book.find(subscription.tenant, subscription.sink.id, "task", task_id)
        if entry is None:
            fresh = Task(
                id=task_id,
                owner=subscription.source.name,
                upstream_id=task_id,
                context_id=reply.context_id,
            )
            await self.book.write(subscription.tenant, subscription.sink.id, "task", fresh)
            return reply
        if entry.owner != subscription.source.name:
            raise A2AError("agent_response", FOREIGN_TASK)
        if entry.shown_as is None:
            return _check_not_held(entry, reply, own)
        shown = await self.book.find(subscription.tenant, subscription.sink.id, "task", entry.shown_as)
        renamed = replace(reply, document=replace_task_id(reply.document, task_id, entry.shown_as))
        return renamed if shown is None else _check_not_held(shown, renamed, own)

    async def conversation(self, subscription: Subscription, context_id: str) -> Task:
        """The caller's own conversation of this name; raises A2AError for another's."""
        return await self._context(subscription, context_id)

    async def _filter_listed(self, subscription: Subscription, reply: A2AReply) -> A2AReply:
        """A page with the caller's own tasks only; the others are not counted either."""
        listed = reply.result.get("tasks")
        if not isinstance(listed, list):
            return reply
        own: list[Json] = []
        for task in reply.tasks:
            task_id = task.get("id")
            if not isinstance(task_id, str):
                continue
            entry = await self.book.find(subscription.tenant, subscription.sink.id, "task", task_id)
            if entry is not None and entry.owner == subscription.source.name:
                own.append(replace_task_id(task, task_id, entry.shown_as) if entry.shown_as else task)
        if own == listed:
            return reply
        result = reply.result | {"tasks": own}
        if "totalSize" in result:
            result["totalSize"] = len(own)
        document = reply.document | {"result": result} if reply.dialect.rpc else result
        return replace(reply, document=document)

    async def _context(
        self, subscription: Subscription, context_id: str, foreign: str = "There is no such conversation."
    ) -> Task:
        entry = await self.book.find(subscription.tenant, subscription.sink.id, "context", context_id)
        if entry is None:
            entry = Task(id=context_id, owner=subscription.source.name, upstream_id=context_id)
            await self.book.write(subscription.tenant, subscription.sink.id, "context", entry, at_once=True)
        if entry.owner != subscription.source.name:
            raise A2AError("agent_response" if foreign is FOREIGN_TASK else "params", foreign)
        return entry


def _check_not_held(entry: Task, reply: A2AReply, own: str | None) -> A2AReply:
    if (entry.hold_id is not None or entry.ending is not None) and entry.id != own:
        raise TaskOwnedByRelay(entry)
    return reply


def _replace_call_task_id(call: A2ACall, old: str, new: str) -> A2ACall:
    path_task = new if call.path_task == old else call.path_task
    return replace(call, document=replace_task_id(call.document, old, new), path_task=path_task)


def _replace_context_id(call: A2ACall, context_id: str) -> A2ACall:
    params = call.params
    holder = call.message if call.message is not None else params
    for name in CONTEXT_ID:
        if name in holder:
            changed = holder | {name: context_id}
            place = next((key for key, value in params.items() if value is holder), None)
            params = params | {place: changed} if place else changed
    document = (call.document or {}) | {"params": params} if call.dialect.rpc else params
    return replace(call, document=document)
