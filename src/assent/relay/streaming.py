"""Streams on their way back: event by event as they come, no faster than the caller takes them in."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import aiohttp
from yarl import URL

from assent.relay.a2a.building import task_reply
from assent.relay.a2a.call import A2ACall
from assent.relay.a2a.problems import A2AProblem, error_body
from assent.relay.a2a.reply import read_reply
from assent.relay.a2a.sse import EventSplitter, event_data, frame, with_data
from assent.relay.calls import Answer, Calls, Taken, Way
from assent.relay.faces import face_of
from assent.relay.taskbook import Entry
from assent.relay.upstream import EVENTS_TYPE, NETWORK, explained, kind_of

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Write = Callable[[bytes], Awaitable[None]]
"""Sends a piece of the stream; the first one begins it."""


class CallerLeft(Exception):
    """The caller went away; nothing is left to tell."""


class Streams:
    """Relays the streams of one server."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._open: set[asyncio.Task[Any]] = set()
        self._ending = False

    def __len__(self) -> int:
        return len(self._open)

    async def relay(self, way: Way, receive: Receive, write: Write) -> Answer | None:
        """Relay a stream to its end; returns a whole answer instead if that is what the agent gave.

        Raises A2AProblem while nothing has been written; later problems become the stream's last event.
        """
        calls = self._calls
        try:
            call = await calls.outward(way)
            url = await calls.url_for(way, call)
            response = await self._begin(way, call, url)
        except Taken as taken:
            return await self._own(way, taken, receive, write)
        try:
            if kind_of(response) == EVENTS_TYPE and response.status == 200:
                await self._pump(way, response, receive, write)
                return None
            return await self._whole(way, response)
        finally:
            calls.upstream.end(way.subscription.sink, response)

    async def _begin(self, way: Way, call: A2ACall, url: URL) -> aiohttp.ClientResponse:
        upstream, limits = self._calls.upstream, self._calls.limits
        try:
            async with asyncio.timeout(limits.stream_idle_for.total_seconds()):
                return await upstream.begin(
                    way.subscription.sink, call.method, url, headers=way.headers, body=call.body()
                )
        except NETWORK as failure:
            raise explained(failure) from failure

    async def _whole(self, way: Way, response: aiohttp.ClientResponse) -> Answer:
        """What the agent says instead of a stream."""
        calls = self._calls
        try:
            async with asyncio.timeout(calls.limits.early_return_for.total_seconds()):
                kind, body = await calls.read_whole(response)
        except NETWORK as failure:
            raise explained(failure) from failure
        try:
            return await calls.answer(way, response, kind, body)
        except Taken as taken:
            return await calls.taken(way, taken)

    async def close(self) -> None:
        """End every stream, so that a stopping server need not wait."""
        self._ending = True
        for task in list(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(set(self._open), timeout=2.0)

    async def _pump(self, way: Way, response: aiohttp.ClientResponse, receive: Receive, write: Write) -> None:
        """Read and write until one side ends."""
        limits = self._calls.limits
        pass_on = _EventPasser(self._calls, way)
        watch = self._watch(receive, response.close)
        try:
            async with asyncio.timeout(limits.stream_for.total_seconds()):
                await write(b"")
                while chunk := await _next(response, limits.stream_idle_for.total_seconds()):
                    ready = await pass_on(chunk)
                    if ready:
                        await _write_within(write, ready, limits.read_for.total_seconds())
                    pass_on.check()
        except Taken as taken:
            await write(_event((await self._calls.taken(way, taken)).body))
        except (A2AProblem, TimeoutError) as failure:
            if not watch.done():
                await write(_last_words(_problem(failure), way.call))
        except CallerLeft:
            pass
        finally:
            watch.cancel()

    async def _own(self, way: Way, taken: Taken, receive: Receive, write: Write) -> Answer | None:
        """A task the relay knows by itself: told at once, and again when its call has ended."""
        calls, call = self._calls, way.call
        answer = await calls.taken(way, taken)
        task_id = call.task_id
        if answer.reply is None or answer.reply.final or task_id is None:
            await write(_event(answer.body))
            return None
        ended = asyncio.ensure_future(calls.overdue.wait(way.subscription, task_id))
        watch = self._watch(receive, ended.cancel)
        try:
            await write(_event(answer.body))
            async with asyncio.timeout(calls.limits.stream_for.total_seconds()):
                await ended
            await write(await self._ended(way, task_id))
        except (asyncio.CancelledError, TimeoutError):
            if not watch.done():
                raise
        finally:
            watch.cancel()
            ended.cancel()
        return None

    async def _ended(self, way: Way, task_id: str) -> bytes:
        calls, call = self._calls, way.call
        tenant, agent = way.subscription.tenant, way.subscription.sink.id
        entry: Entry | None = await calls.overdue.book.find(tenant, agent, "task", task_id)
        if entry is None or entry.upstream_id is not None:
            return b""  # the agent knows it by now: whoever asks again is told by the agent
        task = face_of(entry, call.dialect, calls.overdue.now())
        return frame(task_reply(task, call.operation, call.dialect, call.rpc_id))

    def _watch(self, receive: Receive, left: Callable[[], object]) -> "asyncio.Task[None]":
        """Notice a caller that leaves; a server that stops makes all of them leave."""

        async def look() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        watch = asyncio.create_task(look())
        self._open.add(watch)
        watch.add_done_callback(self._open.discard)
        watch.add_done_callback(lambda _: left())
        if self._ending:
            watch.cancel()
        return watch


class _EventPasser:
    """Whole events in, what the caller gets out.

    Each event is read until the stream's task is known; from then on only if somebody looks at it, or if the
    caller knows the task by another name.
    """

    def __init__(self, calls: Calls, way: Way) -> None:
        self._calls = calls
        self._way = way
        self._splitter = EventSplitter(limit=calls.limits.max_message_bytes)
        self._read_all = calls.watched(way)
        self._known = False

    async def __call__(self, chunk: bytes) -> bytes:
        """What can be passed on by now; raises A2AProblem for what cannot be read."""
        if self._known and not self._read_all:
            return self._splitter.feed_whole(chunk)
        events = self._splitter.feed(chunk)
        return b"".join([await self._pass(event) for event in events])

    def check(self) -> None:
        """Raise A2AProblem for an event that does not end."""
        if self._splitter.overrun:
            raise A2AProblem("agent_response", "An event of the agent's is too large.")

    async def _pass(self, event: bytes) -> bytes:
        data = event_data(event)
        if data is None or (self._known and not self._read_all):
            return event
        call = self._way.call
        reply = read_reply(call.dialect, call.operation, data)
        back = await self._calls.inward(self._way, reply)
        if back is not reply:
            self._read_all = True
            return with_data(event, back.document)
        self._known = self._known or reply.task_id is not None
        return event


async def _next(response: aiohttp.ClientResponse, within: float) -> bytes:
    try:
        async with asyncio.timeout(within):
            return await response.content.readany()
    except NETWORK as failure:
        raise explained(failure) from failure


async def _write_within(write: Write, data: bytes, within: float) -> None:
    try:
        async with asyncio.timeout(within):
            await write(data)
    except TimeoutError:
        raise CallerLeft from None


def _event(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"


def _problem(failure: A2AProblem | TimeoutError) -> A2AProblem:
    if isinstance(failure, A2AProblem):
        return failure
    return A2AProblem("timeout", "The stream has lasted as long as it may.")


def _last_words(problem: A2AProblem, call: A2ACall) -> bytes:
    event = frame(error_body(problem, call.dialect, call.rpc_id))
    return event if call.dialect.rpc else b"event: error\n" + event
