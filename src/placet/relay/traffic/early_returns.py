"""Answer calls to slow agents with a task, while the call continues in the background."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from placet.relay.a2a.json_format import build_task_reply
from placet.relay.a2a.reply import A2AReply
from placet.relay.push import PushProxy
from placet.relay.task import Task
from placet.relay.tasks.background_calls import BackgroundCalls
from placet.relay.tasks.relay_tasks import RelayTasks
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tasks.task_view import task_view
from placet.relay.traffic.exchange import Exchange, RelayAnswer
from placet.relay.traffic.task_notifier import TaskNotifier
from placet.relay.upstream.connection import PendingRequest

POLL_S = 0.05


class EarlyReturns:
    """Answers calls that continue, and notifies their callers when they end."""

    def __init__(
        self,
        *,
        tasks: TaskRepository,
        relay_tasks: RelayTasks,
        background_calls: BackgroundCalls,
        pushes: PushProxy,
        notifier: TaskNotifier,
        now: Callable[[], datetime],
    ) -> None:
        self._tasks = tasks
        self._relay_tasks = relay_tasks
        self._background_calls = background_calls
        self._pushes = pushes
        self._notifier = notifier
        self._now = now

    async def answer_or_return_early(
        self,
        exchange: Exchange,
        answer: Callable[[], Coroutine[Any, Any, RelayAnswer]],
        deadline: float,
        pending: PendingRequest | None = None,
    ) -> RelayAnswer:
        """Return the answer, or a task if there is no answer before the deadline."""
        job = asyncio.create_task(answer())
        try:
            left_s = deadline - asyncio.get_running_loop().time()
            await asyncio.wait({job}, timeout=max(left_s, 0))
            # An inspection in progress may hold the message, and the hold then gives the task its id.
            while not job.done() and exchange.handle.inspections:
                await asyncio.wait({job}, timeout=POLL_S)
            return job.result() if job.done() else await self.answer(exchange, job)
        except BaseException:  # the caller has no task to come back to
            job.cancel()
            if pending is not None:
                pending.give_up()
            raise

    async def answer(self, exchange: Exchange, job: "asyncio.Task[RelayAnswer]") -> RelayAnswer:
        """Return a task for a call that continues in the background."""
        call, exchange.handle.is_in_background = exchange.call, True
        task = await self._find_known_task(exchange)
        if task is not None:
            self._background_calls.track(job)
        else:
            task = await self._background_calls.create_task(
                exchange.subscription,
                call,
                asyncio.ensure_future(_get_reply(job)),
                call.context_id,
                exchange.handle,
            )
            await self._bind_webhook(exchange, task)
        document = build_task_reply(
            task_view(task, call.dialect, self._now()), call.operation, call.dialect, call.rpc_id
        )
        reply = A2AReply(dialect=call.dialect, operation=call.operation, document=document)
        return RelayAnswer(body=reply.body(), content_type=call.dialect.content_type, reply=reply)

    def notify_when_done(self, exchange: Exchange, task: Task, *, announce: bool) -> None:
        """Notify the caller when the background call of a task has ended.

        If the agent continues the task, the agent sends the notifications, once the webhook was announced
        to it.
        """
        subscription = exchange.subscription

        async def has_ended() -> bool:
            await self._background_calls.wait(subscription, task.id)
            stored = await self._relay_tasks.find(subscription, task.id)
            if stored is None or stored.is_held:
                return False
            return stored.has_ended or announce

        self._notifier.notify_later(has_ended(), subscription, task.id, exchange.correlation_id)

    async def _find_known_task(self, exchange: Exchange) -> Task | None:
        """Return the task that the caller knows already, or None.

        The caller sent the message to it, or the agent has pushed it during the call.
        """
        task_id = exchange.call.target_task_id
        if task_id is None and exchange.webhook is not None:
            task_id = await self._pushes.find_agent_task_id(exchange.webhook)
        if task_id is None:
            return None
        return await self._tasks.find(
            exchange.subscription.tenant, exchange.subscription.sink.id, "task", task_id
        )

    async def _bind_webhook(self, exchange: Exchange, task: Task) -> None:
        """Use the webhook of the call for notifications about a task that the relay created."""
        if exchange.webhook is None:
            return
        await self._pushes.bind(exchange.webhook, agent_task_id=None, caller_task_id=task.id)
        self.notify_when_done(exchange, task, announce=False)


async def _get_reply(job: "asyncio.Task[RelayAnswer]") -> A2AReply | None:
    return (await job).reply
