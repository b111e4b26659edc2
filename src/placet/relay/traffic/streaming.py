"""Relay event streams, no faster than the caller reads them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from yarl import URL

from placet.relay.a2a.builders import build_task, build_task_reply
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError, as_agent_error, build_error_body
from placet.relay.a2a.reply import parse_reply
from placet.relay.a2a.sse import EventSplitter, encode_event, get_event_data, replace_data
from placet.relay.asgi import Receive
from placet.relay.tasks.reasons import Timeout, reason_to_metadata
from placet.relay.tasks.relay_tasks import may_ask_for_input
from placet.relay.tasks.task_repository import Task
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.exchange import AnsweredByRelay, Exchange, RelayAnswer
from placet.relay.traffic.withheld_stream import StreamOutcome, WithheldStream
from placet.relay.upstream.agent_client import (
    EVENTS_TYPE,
    NETWORK_ERRORS,
    as_a2a_error,
    get_media_type,
    read_chunk,
)
from placet.relay.upstream.http_client import UpstreamResponse
from placet.relay.upstream.idle_timeout import IdleTimeout

Write = Callable[[bytes], Awaitable[None]]
"""Sends a piece of the stream; the first one begins it."""
POLL_S = 0.05
HEARTBEAT = b": being looked at\n\n"
ERROR_LINE = b"event: error\n"


class CallerDisconnected(Exception):
    """The caller disconnected."""


class StreamRelay:
    """Relays the streams of one server."""

    def __init__(self, calls: CallHandler) -> None:
        self._calls = calls
        self._open: set[asyncio.Task[Any]] = set()
        self._ending = False

    def __len__(self) -> int:
        return len(self._open)

    async def relay(self, exchange: Exchange, receive: Receive, write: Write) -> RelayAnswer | None:
        """Relay a stream to its end; returns a whole answer instead if that is what the agent gave.

        Raises A2AError while nothing has been written; later problems become the stream's last event.
        """
        calls = self._calls
        try:
            call = await calls.prepare_request(exchange)
            url = await calls.url_for(exchange, call)
            response = await self._begin(exchange, call, url)
        except AnsweredByRelay as taken:
            await self._own(exchange, taken, receive, write)
            return None
        goes_on = False
        try:
            if get_media_type(response) != EVENTS_TYPE or response.status != 200:
                return await self._whole(exchange, response)
            if calls.is_withheld(exchange):
                goes_on = await self._withhold(exchange, response, receive, write)
            else:
                await self._pump(exchange, response, receive, write)
            return None
        finally:
            if not goes_on:
                response.close()

    async def _begin(self, exchange: Exchange, call: A2ACall, url: URL) -> UpstreamResponse:
        upstream, limits = self._calls.upstream, self._calls.limits
        try:
            async with asyncio.timeout(limits.stream_idle_for.total_seconds()):
                return await upstream.begin(
                    exchange.subscription.sink, call.method, url, headers=exchange.headers, body=call.body()
                )
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _whole(self, exchange: Exchange, response: UpstreamResponse) -> RelayAnswer:
        """What the agent says instead of a stream."""
        calls = self._calls
        try:
            async with asyncio.timeout(calls.limits.early_return_for.total_seconds()):
                kind, body = await calls.read_whole(response)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        try:
            return await calls.answer(exchange, response, kind, body)
        except AnsweredByRelay as taken:
            return await calls.answer_from_relay(exchange, taken)

    async def close(self) -> None:
        """End every stream, so that a stopping server need not wait."""
        self._ending = True
        for one in list(self._open):
            one.cancel()
        if self._open:
            await asyncio.wait(set(self._open), timeout=2.0)

    async def _pump(
        self, exchange: Exchange, response: UpstreamResponse, receive: Receive, write: Write
    ) -> None:
        """Read and write until one side ends."""
        calls, limits = self._calls, self._calls.limits
        pass_on = _EventForwarder(calls, exchange)
        silence = IdleTimeout(limits.stream_idle_for.total_seconds())
        taking_in = IdleTimeout(limits.read_for.total_seconds())
        watch = self._watch(receive, response.close)
        try:
            async with asyncio.timeout(limits.stream_for.total_seconds()):
                await write(b"")
                while chunk := await read_chunk(response, silence):
                    ready = await pass_on(chunk)
                    if ready:
                        await _write_with_timeout(write, ready, taking_in)
                    pass_on.check()
        except AnsweredByRelay as taken:
            response.close()  # whatever comes of it, nobody reads on
            await self._until_decided(
                exchange, await calls.answer_from_relay(exchange, taken), receive, write, watch
            )
        except (A2AError, TimeoutError) as failure:
            if not watch.done():
                await write(_encode_error_event(_to_error(failure), exchange.call))
        except CallerDisconnected:
            pass
        finally:
            watch.cancel()
            silence.close()
            taking_in.close()

    # Streams that are judged as a whole

    async def _withhold(
        self, exchange: Exchange, response: UpstreamResponse, receive: Receive, write: Write
    ) -> bool:
        """Tell all of a stream once it was judged; returns whether it is still read, for later."""
        stream = WithheldStream(self._calls, exchange, response)
        job = asyncio.create_task(stream.run())
        job.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever has left heard it
        gone = asyncio.Event()
        watch = self._watch(receive, gone.set)
        goes_on = False
        try:
            await write(b"")
            if await self._listen(exchange, stream, job, gone, write):
                await self._tell(job.result(), write)
            elif not gone.is_set():
                goes_on = True
                await write(
                    _encode_body_event((await self._go_on_without(exchange, stream, job, response)).body)
                )
        except AnsweredByRelay as taken:
            response.close()
            await self._until_decided(
                exchange, await self._calls.answer_from_relay(exchange, taken), receive, write, watch
            )
        except A2AError as problem:
            await write(_encode_error_event(as_agent_error(problem), exchange.call))
        except CallerDisconnected:
            pass
        finally:
            watch.cancel()
            if not goes_on:
                job.cancel()
        return goes_on

    async def _listen(
        self,
        exchange: Exchange,
        stream: WithheldStream,
        job: "asyncio.Task[StreamOutcome]",
        gone: asyncio.Event,
        write: Write,
    ) -> bool:
        """Wait for the judgement as long as the caller does; returns whether it is there."""
        limits, now = self._calls.limits, asyncio.get_running_loop().time
        patience_s, beat_s = limits.read_for.total_seconds(), limits.heartbeat_for.total_seconds()
        until, beat_at = now() + limits.early_return_for.total_seconds(), now() + beat_s
        while not job.done() and not gone.is_set():
            # What is looked at right now may be held any moment, under a name of its own.
            if now() >= until and not exchange.handle.asking:
                return False
            wait_s = POLL_S if now() >= until else min(until, beat_at) - now()
            await _wait_for_first(job, stream.more, gone, within=wait_s)
            told = b"" if gone.is_set() else stream.take_early()
            if not told and not job.done() and now() >= beat_at:
                told = HEARTBEAT
            if told:
                beat_at = now() + beat_s
                await _write_within(write, told, patience_s)
        if gone.is_set():
            return False
        await _write_within(write, stream.take_early(), patience_s)
        return True

    async def _tell(self, outcome: StreamOutcome, write: Write) -> None:
        for event in outcome.events:
            await _write_within(write, event, self._calls.limits.read_for.total_seconds())
        if outcome.problem is not None:
            raise outcome.problem

    async def _go_on_without(
        self,
        exchange: Exchange,
        stream: WithheldStream,
        job: "asyncio.Task[StreamOutcome]",
        response: UpstreamResponse,
    ) -> RelayAnswer:
        """A task for a caller that has waited long enough; the stream is read and judged all the same."""
        calls, call, about = self._calls, exchange.call, stream.about
        job.add_done_callback(lambda _: response.close())
        calls.overdue.follow(job)
        if about is None or about.task_id is None:
            return await calls.early.answer(exchange, asyncio.create_task(stream.answer(job)))
        built = build_task(
            task_id=about.task_id,
            context_id=about.context_id or about.task_id,
            state="working",
            at=calls.overdue.now(),
            dialect=call.dialect,
            metadata=reason_to_metadata(Timeout()),
        )
        return await calls.answer_from_relay(
            exchange, AnsweredByRelay(build_task_reply(built, call.operation, call.dialect, call.rpc_id))
        )

    # Tasks that the relay speaks for

    async def _own(self, exchange: Exchange, taken: AnsweredByRelay, receive: Receive, write: Write) -> None:
        """A task the relay knows by itself: told at once, and again when something has become of it."""
        answer = await self._calls.answer_from_relay(exchange, taken)
        gone = asyncio.Event()
        watch = self._watch(receive, gone.set)
        try:
            await self._until_decided(exchange, answer, receive, write, watch)
        except CallerDisconnected:
            pass
        finally:
            watch.cancel()

    async def _until_decided(
        self,
        exchange: Exchange,
        answer: RelayAnswer,
        receive: Receive,
        write: Write,
        watch: "asyncio.Task[None]",
    ) -> None:
        """Tell of a task that waits for a person or its agent, and keep the stream open for what comes of it.

        Whoever sent a message waits no longer than for any other answer; whoever subscribed, to the end, and
        hears what the agent tells if it is the agent that goes on.
        """
        calls, limits, reply = self._calls, self._calls.limits, answer.reply
        await write(_encode_body_event(answer.body))
        task_id = None if reply is None or reply.final else reply.task_id
        if task_id is None:
            return
        within = limits.stream_for if exchange.call.operation == "subscribe" else limits.early_return_for
        until = asyncio.get_running_loop().time() + within.total_seconds()
        decided = asyncio.ensure_future(self._wait_until_decided(exchange, task_id))
        try:
            while not decided.done() and not watch.done():
                left_s = until - asyncio.get_running_loop().time()
                if left_s <= 0:
                    return
                beat_s = min(left_s, limits.heartbeat_for.total_seconds())
                await asyncio.wait({decided, watch}, timeout=beat_s, return_when=asyncio.FIRST_COMPLETED)
                if not decided.done() and not watch.done():
                    await _write_within(write, HEARTBEAT, limits.read_for.total_seconds())
            if watch.done():
                return
            entry = decided.result()
            if entry is not None:
                await _write_within(
                    write,
                    encode_event(calls.own.build_answer(exchange.call, entry)),
                    limits.read_for.total_seconds(),
                )
        finally:
            decided.cancel()
        if entry is None and exchange.call.operation == "subscribe":
            watch.cancel()  # whoever listens to the agent watches the caller too
            await asyncio.wait({watch})
            await self._listen_on(exchange, receive, write)

    async def _listen_on(self, exchange: Exchange, receive: Receive, write: Write) -> None:
        """Relay what the agent tells in a stream that has begun; what it says instead is the last event."""
        try:
            answer = await self.relay(exchange, receive, write)
        except A2AError as problem:
            await write(_encode_error_event(as_agent_error(problem), exchange.call))
        else:
            if answer is not None and answer.reply is not None:
                event = encode_event(answer.reply.document)
                await write(event if answer.status == 200 else ERROR_LINE + event)

    async def _wait_until_decided(self, exchange: Exchange, task_id: str) -> Task | None:
        """The task as it ended; None if the agent goes on with it, and is the one to be asked."""
        calls = self._calls
        await calls.overdue.wait(exchange.subscription, task_id)
        entry = await calls.own.wait_until_released(exchange.subscription, task_id)
        return None if entry is None or (entry.upstream_id is not None and entry.ending is None) else entry

    def _watch(self, receive: Receive, left: Callable[[], object]) -> "asyncio.Task[None]":
        """Notice a caller that leaves; a server that stops makes all of them leave."""

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        watch = asyncio.create_task(wait_for_disconnect())
        self._open.add(watch)
        watch.add_done_callback(self._open.discard)
        watch.add_done_callback(lambda _: left())
        if self._ending:
            watch.cancel()
        return watch


class _EventForwarder:
    """Whole events in, what the caller gets out.

    Each event is read until the stream's task is known; from then on only if somebody looks at it, or if the
    caller knows the task by another name.
    """

    def __init__(self, calls: CallHandler, exchange: Exchange) -> None:
        self._calls = calls
        self._exchange = exchange
        self._splitter = EventSplitter(limit=calls.limits.max_message_bytes)
        self._read_all = False
        self._known = False

    async def __call__(self, chunk: bytes) -> bytes:
        """What can be passed on by now; raises A2AError for what cannot be read."""
        # A stream may last for hours, and a policy may come into force meanwhile.
        if self._read_all or self._calls.is_inspected(self._exchange):
            return b"".join([await self._pass(event) for event in self._splitter.feed(chunk)])
        if self._known:
            return await self._unread(self._splitter.feed_whole(chunk))
        events = self._splitter.feed(chunk)
        passed: list[bytes] = []
        while events and (self._read_all or not self._known):
            passed.append(await self._pass(events.pop(0)))
        return b"".join([*passed, await self._unread(b"".join(events))])

    async def _unread(self, whole: bytes) -> bytes:
        """Events that nobody looks at, unless the agent may ask for something in them."""
        if self._calls.own.guard is None or not may_ask_for_input(whole):
            return whole
        events = EventSplitter(limit=len(whole)).feed(whole)
        return b"".join([await self._pass(event) for event in events])

    def check(self) -> None:
        """Raise A2AError for an event that does not end."""
        if self._splitter.overrun:
            raise A2AError("agent_response", "An event of the agent's is too large.")

    async def _pass(self, event: bytes) -> bytes:
        data = get_event_data(event)
        if data is None:
            return b":\n\n" if self._calls.is_inspected(self._exchange) else event
        call = self._exchange.call
        reply = parse_reply(call.dialect, call.operation, data)
        back = await self._calls.process_reply(self._exchange, reply)
        if back is not reply:
            self._read_all = True
            return replace_data(event, back.document)
        self._known = self._known or reply.task_id is not None
        return event


async def _wait_for_first(job: "asyncio.Task[Any]", *events: asyncio.Event, within: float) -> None:
    """Wait until the job is done or something has happened, or the time is over."""
    noticed = [asyncio.ensure_future(one.wait()) for one in events]
    await asyncio.wait({job, *noticed}, timeout=max(within, 0), return_when=asyncio.FIRST_COMPLETED)
    for one in noticed:
        one.cancel()


async def _write_with_timeout(write: Write, data: bytes, patience: IdleTimeout) -> None:
    try:
        await patience.wait(write(data))
    except TimeoutError:
        raise CallerDisconnected from None


async def _write_within(write: Write, data: bytes, within: float) -> None:
    try:
        async with asyncio.timeout(within):
            await write(data)
    except TimeoutError:
        raise CallerDisconnected from None


def _encode_body_event(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"


def _to_error(failure: A2AError | TimeoutError) -> A2AError:
    if isinstance(failure, A2AError):
        return as_agent_error(failure)
    return A2AError("timeout", "The stream has lasted as long as it may.")


def _encode_error_event(problem: A2AError, call: A2ACall) -> bytes:
    event = encode_event(build_error_body(problem, call.dialect, call.rpc_id))
    return event if call.dialect.rpc else ERROR_LINE + event
