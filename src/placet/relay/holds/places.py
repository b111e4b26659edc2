"""Which task a held message belongs to, as its caller names it; a new one where there is none yet."""

from msgspec import Struct

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.problems import A2AProblem
from placet.relay.a2a.reading import TASK_ID, text_of
from placet.relay.a2a.reply import A2AReply
from placet.relay.judging.inspection import Exchange
from placet.relay.membership.registry import Subscription
from placet.relay.tasks.access import NO_SUCH_TASK, Access
from placet.relay.tasks.own import ENDED, WAITS
from placet.relay.tasks.taskbook import Entry, TaskBook


class Place(Struct, frozen=True, kw_only=True):
    """Where a message is held."""

    entry: Entry | None
    """The task; None if the relay has yet to name one."""
    context_id: str | None
    """The conversation, as far as the caller has named one."""


class Places:
    """Finds them in the book."""

    def __init__(self, book: TaskBook, access: Access) -> None:
        self._book = book
        self._access = access

    async def of_call(self, exchange: Exchange) -> Place:
        """The task that a call is about; raises A2AProblem if it is not its caller's, or waits already."""
        subscription, call = exchange.subscription, exchange.call
        if exchange.task_id is not None:
            given = await self._given(exchange, exchange.task_id, call.context_id)
            return Place(entry=given, context_id=given.context_id)
        target = task_of(call)
        if target is None:
            if call.context_id is not None:
                await self._access.conversation(subscription, call.context_id)
            return Place(entry=None, context_id=call.context_id)
        entry = await self.named(subscription, target)
        if entry is None or entry.owner != subscription.source.name:
            raise A2AProblem("task_not_found", NO_SUCH_TASK)
        if entry.mask is not None or entry.ending is not None:
            raise waits_or_ended(entry)
        return Place(entry=entry, context_id=entry.context_id or call.context_id)

    async def of_reply(self, exchange: Exchange, noted: A2AReply) -> Place:
        """The task that an answer in the caller's own names is about."""
        entry = None
        if exchange.task_id is not None:
            entry = await self._given(exchange, exchange.task_id, noted.context_id)
        elif noted.task_id is not None:
            entry = await self.named(exchange.subscription, noted.task_id)
        context_id = noted.context_id if entry is None else entry.context_id or noted.context_id
        return Place(entry=entry, context_id=context_id)

    async def _given(self, exchange: Exchange, task_id: str, context_id: str | None) -> Entry:
        """The task that the relay has named before, known to the book or just about to be."""
        entry = await self.named(exchange.subscription, task_id)
        owner = exchange.subscription.source.name
        return entry or Entry(id=task_id, owner=owner, upstream_id=None, context_id=context_id)

    async def named(self, subscription: Subscription, task_id: str) -> Entry | None:
        """The entry that a caller sees, by either name of the task."""
        tenant, agent = subscription.tenant, subscription.sink.id
        entry = await self._book.find(tenant, agent, "task", task_id)
        if entry is None or entry.shown_as is None:
            return entry
        return await self._book.find(tenant, agent, "task", entry.shown_as)


def waits_or_ended(entry: Entry) -> A2AProblem:
    """Why nothing more can be said on a task that the relay speaks for."""
    return A2AProblem("unsupported", WAITS if entry.ending is None else ENDED)


def task_of(call: A2ACall) -> str | None:
    """The task that a call is about, or that its message is sent to; those it only refers to are others."""
    if call.message is None:
        return call.task_id
    return text_of(call.message, TASK_ID) or call.path_task or text_of(call.params, TASK_ID)
