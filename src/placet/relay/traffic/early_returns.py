"""Answer calls to slow agents with a task while the call continues."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from placet.relay.a2a.builders import build_task_reply
from placet.relay.a2a.reply import A2AReply
from placet.relay.holds.task_locator import get_target_task_id
from placet.relay.push.push_proxy import PushProxy
from placet.relay.tasks.background_calls import BackgroundCalls
from placet.relay.tasks.relay_tasks import RelayTasks
from placet.relay.tasks.task_repository import Task, TaskRepository
from placet.relay.tasks.task_view import task_view
from placet.relay.traffic.exchange import Exchange, RelayAnswer
from placet.relay.upstream.http_client import PendingRequest

POLL_S = 0.05


class EarlyReturns:
    """Answers calls that go on, and has their callers told how they end."""

    def __init__(
        self,
        *,
        book: TaskRepository,
        own: RelayTasks,
        overdue: BackgroundCalls,
        pushes: PushProxy,
        now: Callable[[], datetime],
    ) -> None:
        self._book = book
        self._own = own
        self._overdue = overdue
        self._pushes = pushes
        self._now = now

    async def answer_or_return_early(
        self,
        exchange: Exchange,
        answer: Callable[[], Coroutine[Any, Any, RelayAnswer]],
        early: float,
        asked: PendingRequest | None = None,
    ) -> RelayAnswer:
        """The answer, if it is there by then; after that the call goes on without its caller."""
        job = asyncio.create_task(answer())
        try:
            left_s = early - asyncio.get_running_loop().time()
            await asyncio.wait({job}, timeout=max(left_s, 0))
            while (
                not job.done() and exchange.handle.asking
            ):  # it may be held any moment, under a name of its own
                await asyncio.wait({job}, timeout=POLL_S)
            return job.result() if job.done() else await self.answer(exchange, job)
        except BaseException:  # nobody will come back for an answer
            job.cancel()
            if asked is not None:
                asked.give_up()
            raise

    async def answer(self, exchange: Exchange, job: "asyncio.Task[RelayAnswer]") -> RelayAnswer:
        """A task to come back to, for a call that goes on."""
        call, exchange.handle.goes_on = exchange.call, True
        known = await self._find_known_task(exchange)
        if known is not None:
            entry = known
            self._overdue.follow(job)
        else:
            entry = await self._overdue.keep(
                exchange.subscription,
                call,
                asyncio.ensure_future(_get_reply(job)),
                call.context_id,
                exchange.handle,
            )
            await self._bind_webhook(exchange, entry)
        document = build_task_reply(
            task_view(entry, call.dialect, self._now()), call.operation, call.dialect, call.rpc_id
        )
        reply = A2AReply(dialect=call.dialect, operation=call.operation, document=document)
        return RelayAnswer(body=reply.body(), content_type=call.dialect.content_type, reply=reply)

    def notify_when_done(self, exchange: Exchange, entry: Task, *, announce: bool) -> None:
        """Have the caller told when the call behind a task of our own has ended.

        An agent that goes on with the task tells of it itself, once the webhook was announced to it.
        """
        subscription = exchange.subscription

        async def has_ended() -> bool:
            await self._overdue.wait(subscription, entry.id)
            known = await self._own.find(subscription, entry.id)
            if known is None or known.hold_id is not None:
                return False
            return known.ending is not None or announce

        self._pushes.notify_later(has_ended(), subscription, entry.id, exchange.correlation_id)

    async def _find_known_task(self, exchange: Exchange) -> Task | None:
        """The task under the name that its caller has for it.

        That is the one that a message was sent to, or that the agent has pushed while the call went on.
        """
        task_id = get_target_task_id(exchange.call)
        if task_id is None and exchange.webhook is not None:
            task_id = await self._pushes.task_of(exchange.webhook)
        if task_id is None:
            return None
        return await self._book.find(
            exchange.subscription.tenant, exchange.subscription.sink.id, "task", task_id
        )

    async def _bind_webhook(self, exchange: Exchange, entry: Task) -> None:
        """Have the caller told of a task of our own by the webhook of its call."""
        if exchange.webhook is None:
            return
        await self._pushes.bind(exchange.webhook, task=None, shown=entry.id)
        self.notify_when_done(exchange, entry, announce=False)


async def _get_reply(job: "asyncio.Task[RelayAnswer]") -> A2AReply | None:
    return (await job).reply
