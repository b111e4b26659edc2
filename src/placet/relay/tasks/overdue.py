"""Calls whose caller has gone on with a task of the relay's own name, and how they end."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from placet.errors import Unavailable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.problems import A2AProblem
from placet.relay.a2a.reply import A2AReply
from placet.relay.membership.registry import Subscription
from placet.relay.tasks.faces import BROKEN
from placet.relay.tasks.own import Handle
from placet.relay.tasks.taskbook import Ending, Entry, TaskBook

RENEW_S = 20.0
KEEP = timedelta(minutes=1)
"""How long after the last renewal a call counts as given up: its server has stopped, and nobody will know."""


class OverdueCalls:
    """Keeps the calls that go on, and writes into the book how each ended."""

    def __init__(self, book: TaskBook, now: Callable[[], datetime], *, renew_s: float = RENEW_S) -> None:
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
        handle: Handle,
    ) -> Entry:
        """A task of our own for a call that goes on, whose `handle` names it from now on."""
        entry = Entry(
            id=str(uuid.uuid4()),
            owner=subscription.source.name,
            upstream_id=None,
            context_id=context_id or str(uuid.uuid4()),
            until=self.now() + KEEP,
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
        entry: Entry,
        job: "asyncio.Future[A2AReply | None]",
        handle: Handle,
        *,
        minted: bool,
    ) -> None:
        tenant, agent, owner = subscription.tenant, subscription.sink.id, entry.owner
        await self._renew_until(job, tenant, agent, entry.id)
        reply, failure = await _outcome(job)
        known = await self.book.find(tenant, agent, "task", entry.id)
        if known is not None and known.mask is not None:
            return  # the answer is held: whoever holds it says how it ends
        theirs = reply.task_id if reply is not None and reply.task is not None else None
        theirs = handle.upstream_id if theirs == entry.id else theirs
        if theirs is None:
            ending = Ending(
                dialect=call.dialect, message=None if reply is None else reply.message, failure=failure
            )
            await self.book.write(tenant, agent, "task", _replaced(entry, ending=ending))
            return
        # First the name the caller will see, then the way to it: nobody may meet the agent's own name.
        known = await self.book.find(tenant, agent, "task", theirs)
        if known is None:
            known = Entry(id=theirs, owner=owner, upstream_id=theirs)
        if known.mask is None and known.ending is None:  # or the caller has it, and the relay speaks for it
            joined = replace(known, shown_as=entry.id, context_id=entry.context_id)
            await self.book.write(tenant, agent, "task", joined)
        if minted and reply is not None and reply.context_id and entry.context_id:
            context = Entry(id=entry.context_id, owner=owner, upstream_id=reply.context_id)
            await self.book.write(tenant, agent, "context", context)
        await self.book.write(tenant, agent, "task", _replaced(entry, upstream_id=theirs))

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
            with suppress(A2AProblem, Unavailable):  # the disk takes nothing; it may the next time
                known = await self.book.find(tenant, agent, "task", task_id)
                if known is not None and known.mask is None and known.ending is None and not job.done():
                    await self.book.write(tenant, agent, "task", replace(known, until=self.now() + KEEP))


async def _outcome(job: "asyncio.Future[A2AReply | None]") -> tuple[A2AReply | None, str | None]:
    """The agent's answer, or words on why there is none."""
    try:
        reply = await job
    except A2AProblem as problem:
        return None, problem.message
    except Exception:
        return None, BROKEN
    if reply is None:
        return None, BROKEN
    if reply.error is not None:
        said = reply.error.get("message") if isinstance(reply.error, dict) else None
        return None, said if isinstance(said, str) else BROKEN
    return reply, None if reply.message is not None or reply.task is not None else BROKEN


def _replaced(entry: Entry, *, upstream_id: str | None = None, ending: Ending | None = None) -> Entry:
    return Entry(
        id=entry.id,
        owner=entry.owner,
        upstream_id=upstream_id,
        context_id=entry.context_id,
        ending=ending,
    )
