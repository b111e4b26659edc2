"""Check that callers only use their own tasks, and translate task ids between caller and agent."""

from collections.abc import Sequence

from msgspec.structs import replace

from placet.relay.a2a.call import MAX_ID_LENGTH, A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import CONTEXT_ID, Json, replace_task_id
from placet.relay.a2a.reply import A2AReply
from placet.relay.exchange import CallWrites
from placet.relay.task import Task
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tenants import Subscription

TASK_NOT_FOUND = "Task not found"
ID_TOO_LONG = (
    f"The agent's response has a task id or context id of more than {MAX_ID_LENGTH} characters. "
    "Callers could not send it back."
)
FOREIGN_TASK = "The agent's response is about a task or context of another caller."
CONTEXT_NOT_FOUND = "Context not found."


class TaskOwnedByRelay(Exception):
    """The relay answers for this task, so the agent's reply about it is not forwarded."""

    def __init__(self, task: Task) -> None:
        super().__init__("the relay answers for the task")
        self.task = task


class TaskAccess:
    """Checks that tasks belong to the caller, and translates task ids for each side."""

    def __init__(self, tasks: TaskRepository) -> None:
        self.tasks = tasks

    async def find_call_tasks(self, subscription: Subscription, call: A2ACall) -> list[Task]:
        """Return the tasks that a call names. Raises A2AError if one is not the caller's."""
        found = []
        for task_id in call.task_ids:
            task = await self.tasks.find(subscription.tenant, subscription.sink.id, "task", task_id)
            if task is None or task.owner != subscription.source.name:
                raise A2AError("task_not_found", TASK_NOT_FOUND)
            found.append(task)
        return found

    async def translate_call(
        self, subscription: Subscription, call: A2ACall, tasks: Sequence[Task]
    ) -> A2ACall:
        """Return the call with the agent's ids. Raises A2AError if the context is another caller's."""
        for task in tasks:
            if task.upstream_id is not None and task.upstream_id != task.id:
                call = _replace_call_task_id(call, task.id, task.upstream_id)
        if call.context_id is None:
            return call
        context = await self.claim_context(subscription, call.context_id)
        if context.upstream_id is None or context.upstream_id == context.id:
            return call
        return _replace_context_id(call, context.upstream_id)

    async def translate_reply(
        self,
        subscription: Subscription,
        reply: A2AReply,
        *,
        except_task_id: str | None = None,
        forwarded: str | None = None,
        call: CallWrites | None = None,
    ) -> A2AReply:
        """Return the reply with the caller's ids, and make its new task and context the caller's.

        `forwarded` is the digest of the message that the agent answers; it is stored in the task. A new task
        is written with the audit event of `call`. Raises A2AError if the task or context belongs
        to another caller, and TaskOwnedByRelay if the relay answers for the task, unless the caller's id of
        the task is `except_task_id`.
        """
        if reply.operation == "list":
            return await self._filter_listed(subscription, reply)
        if any(id is not None and len(id) > MAX_ID_LENGTH for id in (reply.task_id, reply.context_id)):
            raise A2AError("agent_response", ID_TOO_LONG)
        if reply.context_id is not None and not await self._is_own_context(subscription, reply.context_id):
            raise A2AError("agent_response", FOREIGN_TASK)
        task_id = reply.task_id
        if task_id is None:
            return reply
        task = await self.tasks.find(subscription.tenant, subscription.sink.id, "task", task_id)
        if task is None:
            new_task = Task(
                id=task_id,
                owner=subscription.source.name,
                upstream_id=task_id,
                context_id=reply.context_id,
            ).with_forwarded(forwarded)
            await self.tasks.write(subscription.tenant, subscription.sink.id, "task", new_task, call=call)
            return reply
        if task.owner != subscription.source.name:
            raise A2AError("agent_response", FOREIGN_TASK)
        if task.caller_task_id is None:
            await self.record_forwarded(subscription, task, forwarded, call=call)
            return _check_not_relay_task(task, reply, except_task_id)
        shown = await self.tasks.find(subscription.tenant, subscription.sink.id, "task", task.caller_task_id)
        if shown is not None:
            await self.record_forwarded(subscription, shown, forwarded, call=call)
        renamed = replace(reply, document=replace_task_id(reply.document, task_id, task.caller_task_id))
        return renamed if shown is None else _check_not_relay_task(shown, renamed, except_task_id)

    async def record_forwarded(
        self, subscription: Subscription, task: Task, digest: str | None, *, call: CallWrites | None
    ) -> None:
        """Store that the relay forwards a message to this task; `digest` is its digest."""
        changed = task.with_forwarded(digest)
        if changed is not task:
            await self.tasks.write(subscription.tenant, subscription.sink.id, "task", changed, call=call)

    async def find_caller_task(self, subscription: Subscription, task_id: str) -> Task | None:
        """Return the task that the caller sees, by the caller's or the agent's id; None if there is none."""
        tenant, agent = subscription.tenant, subscription.sink.id
        task = await self.tasks.find(tenant, agent, "task", task_id)
        if task is None or task.caller_task_id is None:
            return task
        return await self.tasks.find(tenant, agent, "task", task.caller_task_id)

    async def recognize_forwarded(
        self, subscription: Subscription, reply: A2AReply, *, sent: str | None, caller_task_id: str | None
    ) -> A2AReply:
        """Return the reply with the digests of the messages that the relay forwarded for its tasks.

        `sent` is the digest of the message that the reply answers, and `caller_task_id` the caller's id of
        its task, if the relay has given one. Returns the same object if no task has a history.
        """
        forwarded: dict[str, frozenset[str]] = {}
        for document in reply.tasks:
            task_id = document.get("id")
            if not isinstance(task_id, str) or not document.get("history"):
                continue
            digests = set() if sent is None else {sent}
            for known_id in (task_id, caller_task_id):
                task = None if known_id is None else await self.find_caller_task(subscription, known_id)
                if task is not None and task.owner == subscription.source.name:
                    digests.update(task.forwarded)
            forwarded[task_id] = frozenset(digests)
        return replace(reply, forwarded=forwarded) if forwarded else reply

    async def claim_context(self, subscription: Subscription, context_id: str) -> Task:
        """Return the caller's context with this id. A new id becomes the caller's.

        Raises A2AError if the context belongs to another caller.
        """
        context = await self._find_or_create_context(subscription, context_id)
        if context.owner != subscription.source.name:
            raise A2AError("params", CONTEXT_NOT_FOUND)
        return context

    async def _is_own_context(self, subscription: Subscription, context_id: str) -> bool:
        context = await self._find_or_create_context(subscription, context_id)
        return context.owner == subscription.source.name

    async def _find_or_create_context(self, subscription: Subscription, context_id: str) -> Task:
        """Return a context of any caller. A new one belongs to this caller, and is on disk."""
        tenant, agent = subscription.tenant, subscription.sink.id
        context = await self.tasks.find(tenant, agent, "context", context_id)
        if context is None:
            context = Task(id=context_id, owner=subscription.source.name, upstream_id=context_id)
            await self.tasks.write(tenant, agent, "context", context, at_once=True)
        return context

    async def _filter_listed(self, subscription: Subscription, reply: A2AReply) -> A2AReply:
        """Return the page with the caller's tasks only. The total does not count the others."""
        listed = reply.result.get("tasks")
        if not isinstance(listed, list):
            return reply
        kept: list[Json] = []
        for document in reply.tasks:
            task_id = document.get("id")
            if not isinstance(task_id, str):
                continue
            task = await self.tasks.find(subscription.tenant, subscription.sink.id, "task", task_id)
            if task is not None and task.owner == subscription.source.name:
                kept.append(
                    replace_task_id(document, task_id, task.caller_task_id)
                    if task.caller_task_id
                    else document
                )
        if kept == listed:
            return reply
        result = reply.result | {"tasks": kept}
        if "totalSize" in result:
            result["totalSize"] = len(kept)
        document = reply.document | {"result": result} if reply.dialect.rpc else result
        return replace(reply, document=document)


def _check_not_relay_task(task: Task, reply: A2AReply, except_task_id: str | None) -> A2AReply:
    if task.is_kept_by_relay and task.id != except_task_id:
        raise TaskOwnedByRelay(task)
    return reply


def _replace_call_task_id(call: A2ACall, old: str, new: str) -> A2ACall:
    path_task = new if call.path_task == old else call.path_task
    return replace(call, document=replace_task_id(call.document, old, new), path_task=path_task)


def _replace_context_id(call: A2ACall, context_id: str) -> A2ACall:
    params = call.params
    parent = call.message if call.message is not None else params
    for name in CONTEXT_ID:
        if name in parent:
            changed = parent | {name: context_id}
            field = next((key for key, value in params.items() if value is parent), None)
            params = params | {field: changed} if field else changed
    document = (call.document or {}) | {"params": params} if call.dialect.rpc else params
    return replace(call, document=document)
