"""One call from its caller to an agent and back: the four legs, and agents that take their time."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec.structs import replace
from yarl import URL

from assent.relay.a2a.building import task_reply
from assent.relay.a2a.call import A2ACall
from assent.relay.a2a.dialects import Dialect
from assent.relay.a2a.problems import A2AProblem
from assent.relay.a2a.reply import A2AReply, read_reply
from assent.relay.access import Access, SpokenFor
from assent.relay.agent_headers import passed_back
from assent.relay.agent_http import Response
from assent.relay.directory import Directory
from assent.relay.faces import face_of
from assent.relay.inspection import (
    Changed,
    Inspector,
    Released,
)
from assent.relay.limits import RelayLimits
from assent.relay.listing import listed
from assent.relay.overdue import OverdueCalls
from assent.relay.own import OwnTasks, asks_for_input
from assent.relay.policies.policy import Leg
from assent.relay.push.pushes import Pushes, is_about_configs
from assent.relay.registry import Agent
from assent.relay.taskbook import Entry
from assent.relay.upstream import EVENTS_TYPE, JSON_TYPES, NETWORK, Upstream, explained, kind_of
from assent.relay.way import Answer, Taken, Way, checked, exchange_of

__all__ = ["Answer", "Calls", "Taken", "Way"]

SOON_S = 0.05

log = logging.getLogger("assent.relay")


@lru_cache(maxsize=4096)
def rpc_url(address: str) -> URL:
    """An address taken apart: there are as many as agents, and each is called again and again."""
    return URL(address, encoded=True)


class Calls:
    """Carries calls."""

    def __init__(
        self,
        *,
        upstream: Upstream,
        directory: Directory,
        access: Access,
        inspector: Inspector,
        limits: RelayLimits,
        pushes: Pushes,
        now: Callable[[], datetime],
    ) -> None:
        self.upstream = upstream
        self.limits = limits
        self.overdue = OverdueCalls(access.book, now)
        self.own = OwnTasks(access.book, now)
        self._directory = directory
        self._access = access
        self._inspector = inspector
        self._pushes = pushes
        self._now = now

    async def whole(self, way: Way) -> Answer:
        """The answer to a call that is not streamed; raises A2AProblem."""
        if way.call.operation != "send":
            return await self.exchange(way, within=self.limits.early_return_for.total_seconds())
        loop = asyncio.get_running_loop()
        job = loop.create_task(self.exchange(way, within=self.limits.call_for.total_seconds()))
        # As `asyncio.wait` does for many tasks; this is one, and every message comes by here.
        over = loop.create_future()
        early = loop.call_later(self.limits.early_return_for.total_seconds(), _end, over)
        job.add_done_callback(partial(_end, over))
        try:
            await over
        except asyncio.CancelledError:
            job.cancel()
            raise
        finally:
            early.cancel()
        while not job.done() and way.handle.asking:  # it may be held any moment, under a name of its own
            await asyncio.wait({job}, timeout=SOON_S)
        if job.done():
            return job.result()
        return await self.return_early(way, job)

    async def exchange(self, way: Way, *, within: float) -> Answer:
        """There and back."""
        try:
            call = await self.outward(way)
            url = await self.url_for(way, call)
            return await self._ask_agent(way, call, url, within)
        except Taken as taken:
            return await self.taken(way, taken)

    async def _ask_agent(self, way: Way, call: A2ACall, url: URL, within: float) -> Answer:
        sink = way.subscription.sink
        try:
            response = await self.upstream.begin(
                sink, call.method, url, headers=way.headers, body=call.body(), within=within
            )
            try:
                kind, body = await self.read_whole(response)
            finally:
                self.upstream.end(sink, response)
        except NETWORK as failure:
            raise explained(failure) from failure
        return await self.answer(way, response, kind, body)

    async def taken(self, way: Way, taken: Taken) -> Answer:
        """What the relay answers itself, in the caller's own names."""
        call = way.call
        reply = A2AReply(dialect=call.dialect, operation=call.operation, document=taken.document)
        noted = await self._access.note(way.subscription, reply, own=reply.task_id)
        if way.webhook is not None and noted.task_id is not None:
            await self._pushes.bind(way.webhook, task=None, shown=noted.task_id)
        return Answer(body=noted.body(), content_type=call.dialect.content_type, reply=noted)

    # The way there

    async def addressed(self, way: Way) -> Way:
        """The way with a webhook of the relay's, if the caller wants to be told of changes.

        Raises A2AProblem for an address that may not be called.
        """
        call, webhook = await self._pushes.take(way.subscription, way.call, way.correlation_id)
        return way if webhook is None else replace(way, call=call, webhook=webhook)

    async def outward(self, way: Way) -> A2ACall:
        """The call as the agent gets it; raises A2AProblem if it may not pass, Taken if the relay answers."""
        if way.past(Leg.REQUEST_TO_SINK):
            return way.call
        call = await self._ask_on_request(Leg.REQUEST_FROM_SOURCE, way, way.call)
        entries = await self._access.entries(way.subscription, call)
        for entry in entries:
            if self.own.speaks_for(entry, call, besides=way.handle.task_id):
                if is_about_configs(call):
                    raise Taken(await self._own_configs(way, call, entry))
                raise Taken(await self.own.answer(way.subscription, call, entry))
        call = await self._access.admit(way.subscription, call, entries)
        return await self._ask_on_request(Leg.REQUEST_TO_SINK, way, call)

    async def url_for(self, way: Way, call: A2ACall) -> URL:
        """Where the agent takes this call."""
        offer = await self._directory.offer(way.subscription.sink)
        address = offer.url(call.dialect, call.tenant)
        if call.dialect.rpc:
            return rpc_url(address)
        query = f"?{call.query}" if call.query else ""
        return URL(f"{address}{call.path}{query}", encoded=True)

    async def spoken(self, sink: Agent, preferred: Dialect) -> Dialect:
        """The dialect that is preferred, if the agent offers its binding, else one that it offers."""
        offered = [one.dialect for one in (await self._directory.offer(sink)).interfaces]
        if preferred in offered or not offered:
            return preferred
        return next((one for one in offered if one.binding == preferred.binding), offered[0])

    async def _ask_on_request(self, leg: Leg, way: Way, call: A2ACall) -> A2ACall:
        if way.past(leg) or not self._inspector.watches(leg, way.subscription):
            return call
        verdict = await checked(way, self._inspector.inspect(leg, exchange_of(way, call, None)))
        return replace(call, document=verdict.document) if isinstance(verdict, Changed) else call

    # The way back

    async def read_whole(self, response: Response) -> tuple[str, bytes]:
        """Media type and body of an answer that is no stream; raises A2AProblem for one that is."""
        kind = kind_of(response)
        if kind == EVENTS_TYPE:
            raise A2AProblem("agent_response", "The agent answered with a stream where none was asked for.")
        return kind, await self.upstream.read_whole(response)

    async def answer(self, way: Way, response: Response, kind: str, body: bytes) -> Answer:
        """A whole answer, checked; raises A2AProblem for what is none."""
        call, status = way.call, response.status
        headers = passed_back(response, way.headers)
        if not body and not call.dialect.rpc and status in (200, 202, 204):
            await self._pushes.deleted(way.subscription, call)
            return Answer(body=b"", status=status, content_type=call.dialect.content_type, headers=headers)
        if kind not in JSON_TYPES:
            raise _no_json(call, status)
        reply = read_reply(call.dialect, call.operation, body)
        back = await self.inward(way, reply)
        return Answer(
            body=body if back is reply else back.body(),
            content_type=kind,
            status=200 if call.dialect.rpc else status,
            headers=headers,
            reply=back,
        )

    async def inward(self, way: Way, reply: A2AReply) -> A2AReply:
        """An answer or an event as the caller gets it, the very same if nothing was changed.

        Raises A2AProblem if it may not pass, Taken if the relay answers instead.
        """
        watched = self._inspector.watches
        from_sink = watched(Leg.RESPONSE_FROM_SINK, way.subscription)
        to_source = watched(Leg.RESPONSE_TO_SOURCE, way.subscription)
        seen = from_sink or to_source
        back = reply
        if not way.past(Leg.RESPONSE_FROM_SINK):
            await self._join(way, reply)
            if from_sink:
                back = await self._ask_on_response(Leg.RESPONSE_FROM_SINK, way, back)
            back = await self._between(way, back)
        if to_source:
            back = await self._ask_on_response(Leg.RESPONSE_TO_SOURCE, way, back)
        await self._ask_a_person(way, back)
        # What was looked at is what travels: a second value of one name is in the bytes only.
        return back.again() if seen and back is reply else back

    async def inward_together(self, way: Way, replies: Sequence[A2AReply]) -> Sequence[A2AReply]:
        """All events of a stream as the caller gets them; raises as `inward` does."""
        for reply in replies:
            await self._join(way, reply)
        replies = await self._ask_on_stream(Leg.RESPONSE_FROM_SINK, way, replies)
        replies = [await self._between(way, reply) for reply in replies]
        replies = await self._ask_on_stream(Leg.RESPONSE_TO_SOURCE, way, replies)
        for reply in replies:
            await self._ask_a_person(way, reply)
        return replies

    async def _between(self, way: Way, reply: A2AReply) -> A2AReply:
        """An answer or an event between the two legs of its way back: in the caller's own names."""
        if reply.error is not None:
            if way.webhook is not None:
                await self._pushes.refused(way.webhook)
            return reply
        try:
            noted = await self._access.note(way.subscription, reply, own=way.handle.task_id)
        except SpokenFor as spoken_for:
            raise Taken(self.own.told(way.call, spoken_for.entry)) from None
        if is_about_configs(way.call):
            return await self._about_configs(way, noted)
        if way.webhook is not None and reply.task_id is not None and noted.task_id is not None:
            await self._pushes.bind(way.webhook, task=reply.task_id, shown=noted.task_id)
        if noted.operation == "list":
            return await listed(self.own, way.subscription, way.call, noted)
        return self._own_card(way, noted) if noted.operation == "extended_card" else noted

    async def _join(self, way: Way, reply: A2AReply) -> None:
        """Have the agent's name for a task lead to the one that the caller was given before."""
        shown, theirs = way.handle.task_id, reply.task_id
        if shown is None or theirs is None or theirs == shown or reply.error is not None:
            return
        way.handle.upstream_id = theirs
        place = (way.subscription.tenant, way.subscription.sink.id)
        if await self._access.book.find(*place, "task", theirs) is None:
            joined = Entry(
                id=theirs,
                owner=way.subscription.source.name,
                upstream_id=theirs,
                shown_as=shown,
                context_id=reply.context_id,
            )
            await self._access.book.write(*place, "task", joined, at_once=True)

    async def _ask_a_person(self, way: Way, reply: A2AReply) -> None:
        """Hold what the agent asks of people; whatever policies say of it was heard before."""
        guard = self.own.guard
        if guard is not None and asks_for_input(reply):
            await checked(way, guard.asks(exchange_of(way, way.call, reply)))

    async def _own_configs(self, way: Way, call: A2ACall, entry: Entry) -> dict[str, Any]:
        """What the relay says of the configs of a task that no agent knows."""
        found = await self._pushes.own(way.subscription, call, way.webhook, entry.id)
        if way.webhook is not None:
            self._tell_in_the_end(way, entry, announce=True)
        return found

    async def _about_configs(self, way: Way, reply: A2AReply) -> A2AReply:
        subscription, call = way.subscription, way.call
        [entry, *_] = await self._access.entries(subscription, call)
        return await self._pushes.answered(
            subscription, call, way.webhook, reply, entry.upstream_id or entry.id
        )

    def watched(self, way: Way) -> bool:
        """Whether anything looks at what the agent answers."""
        legs = (Leg.RESPONSE_FROM_SINK, Leg.RESPONSE_TO_SOURCE)
        return any(self._inspector.watches(leg, way.subscription) for leg in legs)

    def withheld(self, way: Way) -> bool:
        """Whether a stream must be seen whole before its caller gets any text of it."""
        return self._inspector.withholds(way.subscription)

    def _own_card(self, way: Way, reply: A2AReply) -> A2AReply:
        card = self._directory.shown(way.subscription.sink, reply.result)
        return replace(reply, document=reply.document | {"result": card} if reply.dialect.rpc else card)

    async def _ask_on_response(self, leg: Leg, way: Way, reply: A2AReply) -> A2AReply:
        if way.past(leg):
            return reply
        verdict = await checked(way, self._inspector.inspect(leg, exchange_of(way, way.call, reply)))
        return replace(reply, document=verdict.document) if isinstance(verdict, Changed) else reply

    async def _ask_on_stream(self, leg: Leg, way: Way, replies: Sequence[A2AReply]) -> Sequence[A2AReply]:
        if not self._inspector.watches(leg, way.subscription):
            return replies
        exchange = exchange_of(way, way.call, None)
        verdict = await checked(way, self._inspector.inspect_stream(leg, exchange, replies))
        return verdict.replies if isinstance(verdict, Released) else replies

    # Agents that take their time

    async def return_early(self, way: Way, job: "asyncio.Task[Answer]") -> Answer:
        """A task to come back to, for a call that goes on."""
        subscription, call = way.subscription, way.call
        told = await self._told_already(way)
        if told is not None:
            entry = told
            self.overdue.follow(job)
        else:
            entry = await self.overdue.keep(
                subscription, call, asyncio.ensure_future(self._reply_of(job)), call.context_id, way.handle
            )
            await self._tell_of(way, entry)
        document = task_reply(
            face_of(entry, call.dialect, self._now()), call.operation, call.dialect, call.rpc_id
        )
        return Answer(body=msgspec.json.encode(document), content_type=call.dialect.content_type)

    async def _told_already(self, way: Way) -> Entry | None:
        """The task by the name that the agent has pushed to its caller while the call went on."""
        task_id = await self._pushes.task_of(way.webhook) if way.webhook is not None else None
        if task_id is None:
            return None
        place = (way.subscription.tenant, way.subscription.sink.id)
        return await self._access.book.find(*place, "task", task_id)

    async def _tell_of(self, way: Way, entry: Entry) -> None:
        """Have the caller told of a task of our own by the webhook of its call."""
        if way.webhook is None:
            return
        await self._pushes.bind(way.webhook, task=None, shown=entry.id)
        self._tell_in_the_end(way, entry, announce=False)

    def _tell_in_the_end(self, way: Way, entry: Entry, *, announce: bool) -> None:
        """Have the caller told when the call behind a task of our own has ended.

        An agent that goes on with the task tells of it itself, once the webhook was announced to it.
        """
        subscription = way.subscription

        async def ended() -> bool:
            await self.overdue.wait(subscription, entry.id)
            known = await self.own.now(subscription, entry.id)
            if known is None or known.mask is not None:
                return False
            return known.ending is not None or announce

        self._pushes.tell_later(ended(), subscription, entry.id, way.correlation_id)

    @staticmethod
    async def _reply_of(job: "asyncio.Task[Answer]") -> A2AReply | None:
        return (await job).reply

    async def aclose(self) -> None:
        """Give up what is under way."""
        await self._pushes.aclose()
        await self.overdue.aclose()


def _end(over: "asyncio.Future[None]", *_: object) -> None:
    if not over.done():
        over.set_result(None)


def _no_json(call: A2ACall, status: int) -> A2AProblem:
    """Over HTTP+JSON an agent's framework speaks for it where it has no such route, and seldom in JSON."""
    if not call.dialect.rpc and status == 405:
        return A2AProblem("not_allowed", "The agent does not take that method.")
    if not call.dialect.rpc and status == 404:
        return A2AProblem("method", "The agent has no such method.")
    return A2AProblem("agent_response", "The agent's answer is not JSON.")
