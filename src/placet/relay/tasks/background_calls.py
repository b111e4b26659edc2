"""Calls that continue after their caller got a task, and how they end."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from placet.errors import Unavailable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.registry.subscriptions import Subscription
from placet.relay.tasks.relay_tasks import TaskHandle
from placet.relay.tasks.task_repository import Task, TaskEnding, TaskRepository
from placet.relay.tasks.task_view import BAD_ANSWER

LEASE_RENEWAL_S = 20.0
LEASE = timedelta(minutes=1)
"""How long after the last renewal a call counts as given up: its server has stopped, and nobody will know."""


class BackgroundCalls:
    """Tracks background calls and stores how each ended."""

    def __init__(
        self, book: TaskRepository, now: Callable[[], datetime], *, renew_s: float = LEASE_RENEWAL_S
    ) -> None:
        self.book = book
        self.now = now
        self._renew_s = renew_s
        self._settling: dict[tuple[str, str, str], asyncio.Task[None]] = {}
        self._followed: set[asyncio.Task[Any]] = set()

    async def keep(
        self,
        subscription: Subscription,
        call: A2ACall,
        job: "asyncio.Future[A2AReply | None]",
        context_id: str | None,
        handle: TaskHandle,
    ) -> Task:
        """A task of our own for a call that goes on, whose `handle` names it from now on."""
        entry = Task(
            id=str(uuid.uuid4()),
            owner=subscription.source.name,
            upstream_id=None,
            context_id=context_id or str(uuid.uuid4()),
            until=self.now() + LEASE,
        )
        handle.task_id = entry.id
        await self.book.write(subscription.tenant, subscription.sink.id, "task", entry)
        key = (subscription.tenant, subscription.sink.id, entry.id)
        settling = asyncio.create_task(
            self._settle(subscription, call, entry, job, handle, minted=context_id is None)
        )
        self._settling[key] = settling
        settling.add_done_callback(lambda _: self._settling.pop(key, None))
        return entry

    async def wait(self, subscription: Subscription, task_id: str) -> None:
        """Wait until the call behind a task has ended; at once if none goes on."""
        settling = self._settling.get((subscription.tenant, subscription.sink.id, task_id))
        if settling is not None:
            await asyncio.wait({settling})

    def follow(self, job: "asyncio.Task[Any]") -> None:
        """Let a call go on whose task the caller knows by the agent's own name."""
        self._followed.add(job)
        job.add_done_callback(self._followed.discard)
        job.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def aclose(self) -> None:
        """Give up what is under way."""
        tasks = [*self._settling.values(), *self._followed]
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _settle(
        self,
        subscription: Subscription,
        call: A2ACall,
        entry: Task,
        job: "asyncio.Future[A2AReply | None]",
        handle: TaskHandle,
        *,
        minted: bool,
    ) -> None:
        tenant, agent, owner = subscription.tenant, subscription.sink.id, entry.owner
        await self._renew_until(job, tenant, agent, entry.id)
        reply, failure = await _await_outcome(job)
        known = await self.book.find(tenant, agent, "task", entry.id)
        if known is not None and known.hold_id is not None:
            return  # the answer is held: whoever holds it says how it ends
        theirs = reply.task_id if reply is not None and reply.task is not None else None
        theirs = handle.upstream_id if theirs == entry.id else theirs
        if theirs is None:
            ending = TaskEnding(
                dialect=call.dialect, message=None if reply is None else reply.message, failure=failure
            )
            await self.book.write(tenant, agent, "task", _finish_task(entry, ending=ending))
            return
        # First the name the caller will see, then the way to it: nobody may meet the agent's own name.
        known = await self.book.find(tenant, agent, "task", theirs)
        if known is None:
            known = Task(id=theirs, owner=owner, upstream_id=theirs)
        if (
            known.hold_id is None and known.ending is None
        ):  # or the caller has it, and the relay speaks for it
            joined = replace(known, shown_as=entry.id, context_id=entry.context_id)
            await self.book.write(tenant, agent, "task", joined)
        if minted and reply is not None and reply.context_id and entry.context_id:
            context = Task(id=entry.context_id, owner=owner, upstream_id=reply.context_id)
            await self.book.write(tenant, agent, "context", context)
        await self.book.write(tenant, agent, "task", _finish_task(entry, upstream_id=theirs))

    async def _renew_until(
        self, job: "asyncio.Future[A2AReply | None]", tenant: str, agent: str, task_id: str
    ) -> None:
        """Say again and again that somebody waits, until the call has ended."""
        while not job.done():
            try:
                await asyncio.wait({job}, timeout=self._renew_s)
            except asyncio.CancelledError:
                job.cancel()
                raise
            with suppress(A2AError, Unavailable):  # the disk takes nothing; it may the next time
                known = await self.book.find(tenant, agent, "task", task_id)
                if known is not None and known.hold_id is None and known.ending is None and not job.done():
                    await self.book.write(tenant, agent, "task", replace(known, until=self.now() + LEASE))


async def _await_outcome(job: "asyncio.Future[A2AReply | None]") -> tuple[A2AReply | None, str | None]:
    """The agent's answer, or words on why there is none."""
    try:
        reply = await job
    except A2AError as problem:
        return None, problem.message
    except Exception:
        return None, BAD_ANSWER
    if reply is None:
        return None, BAD_ANSWER
    if reply.error is not None:
        said = reply.error.get("message") if isinstance(reply.error, dict) else None
        return None, said if isinstance(said, str) else BAD_ANSWER
    return reply, None if reply.message is not None or reply.task is not None else BAD_ANSWER


def _finish_task(entry: Task, *, upstream_id: str | None = None, ending: TaskEnding | None = None) -> Task:
    return Task(
        id=entry.id,
        owner=entry.owner,
        upstream_id=upstream_id,
        context_id=entry.context_id,
        ending=ending,
    )
