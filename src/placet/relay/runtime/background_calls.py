"""Answer calls to slow agents with a task, and continue the calls in the background."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from placet.errors import Unavailable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import build_task_reply
from placet.relay.a2a.reply import A2AReply
from placet.relay.exchange import Exchange, ExchangeState, RelayAnswer
from placet.relay.push import PushProxy
from placet.relay.runtime.task_notifier import TaskNotifier
from placet.relay.task import EndCall, HandOver, RenewLease, Task, TaskEnding, TaskStatus, apply
from placet.relay.tasks.relay_tasks import BAD_ANSWER, RelayTasks, task_view
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tenants import Subscription
from placet.relay.upstream.connection import PendingRequest

POLL_S = 0.05


LEASE_RENEWAL_S = 20.0
LEASE = timedelta(minutes=1)
"""A call whose lease was not renewed for this long is abandoned: its server has stopped."""


class BackgroundCalls:
    """Tracks background calls and stores how each ended."""

    def __init__(self, tasks: TaskRepository, now: Callable[[], datetime]) -> None:
        self.tasks = tasks
        self.now = now
        self._running: dict[tuple[str, str, str], asyncio.Task[None]] = {}
        self._tracked: set[asyncio.Task[Any]] = set()

    async def create_task(
        self,
        subscription: Subscription,
        call: A2ACall,
        job: "asyncio.Future[A2AReply | None]",
        context_id: str | None,
        state: ExchangeState,
    ) -> Task:
        """Create a task for a call that continues, set it in `state`, and return it."""
        task = Task(
            id=str(uuid.uuid4()),
            owner=subscription.source.name,
            status=TaskStatus.RUNNING,
            upstream_id=None,
            context_id=context_id or str(uuid.uuid4()),
            until=self.now() + LEASE,
        ).with_forwarded(state.forwarded)
        state.assign_task(task.id)
        await self.tasks.write(subscription.tenant, subscription.sink.id, "task", task, call=state.writes)
        key = (subscription.tenant, subscription.sink.id, task.id)
        running = asyncio.create_task(
            self._store_outcome(subscription, call, task, job, state, is_new_context=context_id is None)
        )
        self._running[key] = running
        running.add_done_callback(lambda _: self._running.pop(key, None))
        return task

    async def wait(self, subscription: Subscription, task_id: str) -> None:
        """Wait until the background call of a task has ended. Return at once if there is none."""
        running = self._running.get((subscription.tenant, subscription.sink.id, task_id))
        if running is not None:
            await asyncio.wait({running})

    def track(self, job: "asyncio.Task[Any]") -> None:
        """Let a call continue whose task needs no new id, and cancel it when the server stops."""
        self._tracked.add(job)
        job.add_done_callback(self._tracked.discard)
        job.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def aclose(self) -> None:
        """Cancel all background calls."""
        jobs = [*self._running.values(), *self._tracked]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _store_outcome(
        self,
        subscription: Subscription,
        call: A2ACall,
        task: Task,
        job: "asyncio.Future[A2AReply | None]",
        state: ExchangeState,
        *,
        is_new_context: bool,
    ) -> None:
        """Wait for the end of the call, and store it in the call's task."""
        tenant, agent, owner = subscription.tenant, subscription.sink.id, task.owner
        await self._renew_until(job, tenant, agent, task.id)
        reply, failure = await _await_outcome(job)
        task = await self.tasks.find(tenant, agent, "task", task.id) or task
        if task.status is not TaskStatus.RUNNING:
            return  # the reply was held, and its resolution ends the task
        upstream_id = reply.task_id if reply is not None and reply.task is not None else None
        upstream_id = state.upstream_id if upstream_id == task.id else upstream_id
        if upstream_id is None:
            ending = TaskEnding(
                dialect=call.dialect, message=None if reply is None else reply.message, failure=failure
            )
            await self.tasks.write(tenant, agent, "task", apply(task, EndCall(ending=ending)))
            return
        # Write the alias of the agent's id first. Otherwise the caller could get the agent's id in a reply.
        alias = await self.tasks.find(tenant, agent, "task", upstream_id)
        if alias is None:
            alias = Task(id=upstream_id, owner=owner, upstream_id=upstream_id)
        if not alias.is_kept_by_relay:  # otherwise the caller knows the agent's id
            alias = replace(alias, caller_task_id=task.id, context_id=task.context_id)
            await self.tasks.write(tenant, agent, "task", alias)
        if is_new_context and reply is not None and reply.context_id and task.context_id:
            context = Task(id=task.context_id, owner=owner, upstream_id=reply.context_id)
            await self.tasks.write(tenant, agent, "context", context)
        handed_over = apply(task, HandOver(agent_task_id=upstream_id))
        await self.tasks.write(tenant, agent, "task", handed_over)

    async def _renew_until(
        self, job: "asyncio.Future[A2AReply | None]", tenant: str, agent: str, task_id: str
    ) -> None:
        """Renew the lease of the task until the call has ended."""
        while not job.done():
            try:
                await asyncio.wait({job}, timeout=LEASE_RENEWAL_S)
            except asyncio.CancelledError:
                job.cancel()
                raise
            with suppress(A2AError, Unavailable):  # the next renewal tries again
                task = await self.tasks.find(tenant, agent, "task", task_id)
                renewed = None if task is None else apply(task, RenewLease(until=self.now() + LEASE))
                if renewed is not None and renewed is not task and not job.done():
                    await self.tasks.write(tenant, agent, "task", renewed)


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
            while not job.done() and exchange.state.inspections:
                await asyncio.wait({job}, timeout=POLL_S)
            return job.result() if job.done() else await self.answer(exchange, job)
        except BaseException:  # the caller has no task to come back to
            job.cancel()
            if pending is not None:
                pending.give_up()
            raise

    async def answer(self, exchange: Exchange, job: "asyncio.Task[RelayAnswer]") -> RelayAnswer:
        """Return a task for a call that continues in the background."""
        call = exchange.call
        exchange.state.continue_in_background()
        task = await self._find_known_task(exchange)
        if task is not None:
            self._background_calls.track(job)
        else:
            task = await self._background_calls.create_task(
                exchange.subscription,
                call,
                asyncio.ensure_future(_get_reply(job)),
                call.context_id,
                exchange.state,
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


async def _await_outcome(job: "asyncio.Future[A2AReply | None]") -> tuple[A2AReply | None, str | None]:
    """Return the agent's reply, or a message that says why there is none."""
    try:
        reply = await job
    except A2AError as problem:
        return None, problem.message
    except Exception:
        return None, BAD_ANSWER
    if reply is None:
        return None, BAD_ANSWER
    if reply.error is not None:
        message = reply.error.get("message") if isinstance(reply.error, dict) else None
        return None, message if isinstance(message, str) else BAD_ANSWER
    return reply, None if reply.message is not None or reply.task is not None else BAD_ANSWER
