"""Relay event streams. The relay reads no faster than the caller does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from yarl import URL

from placet.http.asgi import Receive
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError, as_agent_error, build_error_body
from placet.relay.a2a.reply import A2AReply, check_response_id, parse_reply_to
from placet.relay.a2a.sse import EventSplitter, encode_event, get_event_data, replace_data
from placet.relay.exchange import (
    AnsweredByRelay,
    Exchange,
    RelayAnswer,
    pass_observed_event,
    pass_reply,
    pass_request,
)
from placet.relay.runtime.call_handler import CallHandler
from placet.relay.runtime.withheld_stream import (
    EVENT_TOO_LARGE,
    STREAM_TIMEOUT,
    StreamOutcome,
    WithheldStream,
)
from placet.relay.task import Task, TaskStatus
from placet.relay.tasks.relay_tasks import may_ask_for_input
from placet.relay.upstream.agent_client import (
    EVENTS_TYPE,
    NETWORK_ERRORS,
    IdleTimeout,
    as_a2a_error,
    build_request,
    get_media_type,
    read_chunk,
)
from placet.relay.upstream.connection import UpstreamResponse

Write = Callable[[bytes], Awaitable[None]]
"""Sends a part of the stream to the caller. The first call starts the response."""
log = logging.getLogger("placet.relay")
HEARTBEAT = b": inspection in progress\n\n"
EVENTS_PER_WRITE = 100
ERROR_LINE = b"event: error\n"


class CallerDisconnected(Exception):
    """The caller disconnected."""


class StreamRelay:
    """Relays the streams of one server."""

    def __init__(self, calls: CallHandler) -> None:
        self._calls = calls
        self._open: set[asyncio.Task[Any]] = set()
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._open)

    async def relay(self, exchange: Exchange, receive: Receive, write: Write) -> RelayAnswer | None:
        """Relay a stream to its end. Return the agent's answer if it is not a stream, or None.

        Raises A2AError before anything was written. A later error becomes the stream's last event.
        """
        calls = self._calls
        try:
            own_task_id = exchange.state.task_id
            steps = pass_request(exchange.call, after=exchange.after, own_task_id=own_task_id)
            call = await calls.pass_message(exchange, steps)
            url = await calls.url_for(exchange, call)
            response = await self._begin(exchange, call, url)
        except AnsweredByRelay as answered:
            await self._stream_relay_task(exchange, answered, receive, write)
            return None
        try:
            if get_media_type(response) != EVENTS_TYPE or response.status != 200:
                return await self._read_whole(exchange, response)
            if calls.plan_stream(exchange).is_withheld:
                await self._withhold(exchange, response, receive, write)
            else:
                await self._forward_events(exchange, response, receive, write)
            return None
        finally:
            response.close()

    async def _begin(self, exchange: Exchange, call: A2ACall, url: URL) -> UpstreamResponse:
        upstream, limits = self._calls.upstream, self._calls.limits
        try:
            async with asyncio.timeout(limits.stream_idle_for.total_seconds()):
                return await upstream.begin(build_request(exchange, call, url))
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _read_whole(self, exchange: Exchange, response: UpstreamResponse) -> RelayAnswer:
        """Return the agent's answer that is not a stream."""
        calls = self._calls
        try:
            async with asyncio.timeout(calls.limits.early_return_for.total_seconds()):
                media_type, body = await calls.read_whole(response)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        return await calls.answer(exchange, response, media_type, body)

    async def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._is_closing = True
        for watch in list(self._open):
            watch.cancel()
        if self._open:
            await asyncio.wait(set(self._open), timeout=2.0)

    async def _forward_events(
        self, exchange: Exchange, response: UpstreamResponse, receive: Receive, write: Write
    ) -> None:
        """Forward events until the agent or the caller ends the stream."""
        calls, limits = self._calls, self._calls.limits
        process = _EventProcessor(calls, exchange)
        read_timeout = IdleTimeout(limits.stream_idle_for.total_seconds())
        write_timeout = IdleTimeout(limits.read_for.total_seconds())
        watch = self._watch_disconnect(receive, response.close)
        try:
            async with asyncio.timeout(limits.stream_for.total_seconds()):
                await write(b"")
                while chunk := await read_chunk(response, read_timeout):
                    ready = await process(chunk)
                    if ready:
                        await _write_with_timeout(write, ready, write_timeout)
                    process.check_event_size()
        except AnsweredByRelay as answered:
            response.close()  # the rest of the stream is not read
            await process.report_observed()
            await self._stream_until_decided(
                exchange,
                await calls.answer_from_relay(exchange, answered),
                receive,
                write,
                watch,
            )
        except (A2AError, TimeoutError) as failure:
            if not watch.done():
                await write(_encode_error_event(_to_error(failure), exchange.call))
        except CallerDisconnected:
            pass
        finally:
            watch.cancel()
            read_timeout.close()
            write_timeout.close()
            await process.report_observed()

    # Streams whose events are inspected together

    async def _withhold(
        self, exchange: Exchange, response: UpstreamResponse, receive: Receive, write: Write
    ) -> None:
        """Send the events of a stream when they are inspected."""
        stream = WithheldStream(self._calls, exchange, response)
        job = asyncio.create_task(stream.run())
        # Mark the exception as retrieved: the job is not awaited after the caller has disconnected.
        job.add_done_callback(lambda done: done.cancelled() or done.exception())
        disconnected = asyncio.Event()
        watch = self._watch_disconnect(receive, disconnected.set)
        try:
            await write(b"")
            await self._write_early_events(stream, job, disconnected, write)
            if not disconnected.is_set():
                await self._write_events(job.result(), write)
        except AnsweredByRelay as answered:
            response.close()
            await self._stream_until_decided(
                exchange,
                await self._calls.answer_from_relay(exchange, answered),
                receive,
                write,
                watch,
            )
        except A2AError as problem:
            await write(_encode_error_event(as_agent_error(problem), exchange.call))
        except CallerDisconnected:
            pass
        finally:
            watch.cancel()
            job.cancel()

    async def _write_early_events(
        self,
        stream: WithheldStream,
        job: "asyncio.Task[StreamOutcome]",
        disconnected: asyncio.Event,
        write: Write,
    ) -> None:
        """Send events that may leave early, and heartbeats, until the stream is inspected."""
        limits, now = self._calls.limits, asyncio.get_running_loop().time
        write_s, heartbeat_s = limits.read_for.total_seconds(), limits.heartbeat_for.total_seconds()
        heartbeat_at = now() + heartbeat_s
        while not job.done() and not disconnected.is_set():
            await _wait_for_first(job, stream.has_early_events, disconnected, within=heartbeat_at - now())
            data = b"" if disconnected.is_set() else stream.take_early()
            if not data and not job.done() and now() >= heartbeat_at:
                data = HEARTBEAT
            if data:
                heartbeat_at = now() + heartbeat_s
                await _write_within(write, data, write_s)
        if not disconnected.is_set():
            await _write_within(write, stream.take_early(), write_s)

    async def _write_events(self, outcome: StreamOutcome, write: Write) -> None:
        write_s = self._calls.limits.read_for.total_seconds()
        for start in range(0, len(outcome.events), EVENTS_PER_WRITE):
            events = outcome.events[start : start + EVENTS_PER_WRITE]
            await _write_within(write, b"".join(events), write_s)
        if outcome.problem is not None:
            raise outcome.problem

    # Tasks that the relay answers for

    async def _stream_relay_task(
        self, exchange: Exchange, answered: AnsweredByRelay, receive: Receive, write: Write
    ) -> None:
        """Send the state of a task that the relay answers for, and again when it changes."""
        answer = await self._calls.answer_from_relay(exchange, answered)
        watch = self._watch_disconnect(receive, lambda: None)
        try:
            await self._stream_until_decided(exchange, answer, receive, write, watch)
        except CallerDisconnected:
            pass
        finally:
            watch.cancel()

    async def _stream_until_decided(
        self,
        exchange: Exchange,
        answer: RelayAnswer,
        receive: Receive,
        write: Write,
        watch: "asyncio.Task[None]",
    ) -> None:
        """Send a task that waits for a decision or its agent, and keep the stream open for the outcome.

        A caller that subscribed gets the agent's events if the agent continues the task.
        """
        calls, limits, reply = self._calls, self._calls.limits, answer.reply
        await write(_encode_body_event(answer.body))
        task_id = None if reply is None or reply.final else reply.task_id
        if task_id is None:
            return
        deadline = asyncio.get_running_loop().time() + limits.stream_for.total_seconds()
        decided = asyncio.ensure_future(self._wait_until_decided(exchange, task_id))
        try:
            while not decided.done() and not watch.done():
                left_s = deadline - asyncio.get_running_loop().time()
                if left_s <= 0:
                    return
                wait_s = min(left_s, limits.heartbeat_for.total_seconds())
                await asyncio.wait({decided, watch}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                if not decided.done() and not watch.done():
                    await _write_within(write, HEARTBEAT, limits.read_for.total_seconds())
            if watch.done():
                return
            task = decided.result()
            if task is not None:
                await _write_within(
                    write,
                    encode_event(calls.relay_tasks.build_answer(exchange.call, task)),
                    limits.read_for.total_seconds(),
                )
        finally:
            decided.cancel()
        if task is None and exchange.call.operation == "subscribe":
            watch.cancel()  # the new stream watches the caller itself
            await asyncio.wait({watch})
            await self._continue_from_agent(exchange, receive, write)

    async def _continue_from_agent(self, exchange: Exchange, receive: Receive, write: Write) -> None:
        """Relay the agent's events in an open stream. An answer that is not a stream is the last event."""
        try:
            answer = await self.relay(exchange, receive, write)
        except A2AError as problem:
            await write(_encode_error_event(as_agent_error(problem), exchange.call))
        else:
            if answer is not None and answer.reply is not None:
                event = encode_event(answer.reply.document)
                await write(event if answer.status == 200 else ERROR_LINE + event)

    async def _wait_until_decided(self, exchange: Exchange, task_id: str) -> Task | None:
        """Return the task after it has ended; None if the agent continues it or it does not exist."""
        calls = self._calls
        await calls.background_calls.wait(exchange.subscription, task_id)
        task = await calls.waiters.wait_until_released(exchange.subscription, task_id)
        return None if task is None or task.status is TaskStatus.WITH_AGENT else task

    def _watch_disconnect(
        self, receive: Receive, on_disconnect: Callable[[], object]
    ) -> "asyncio.Task[None]":
        """Call `on_disconnect` when the caller disconnects or the server stops."""

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        watch = asyncio.create_task(wait_for_disconnect())
        self._open.add(watch)
        watch.add_done_callback(self._open.discard)
        watch.add_done_callback(lambda _: on_disconnect())
        if self._is_closing:
            watch.cancel()
        return watch


class _EventProcessor:
    """Turns the agent's bytes into the bytes that the caller gets, in whole events.

    Every event is parsed until the task of the stream is known. Later events are parsed only if a policy
    inspects them, or if the caller has another id for the task.
    """

    def __init__(self, calls: CallHandler, exchange: Exchange) -> None:
        self._calls = calls
        self._exchange = exchange
        self._splitter = EventSplitter(limit=calls.limits.max_message_bytes)
        self._parses_all = False
        self._has_task_id = False
        self._observed: list[A2AReply] = []
        """The events that policies only observe, as far as they can be inspected at the end."""
        self._observed_size = 0

    async def __call__(self, chunk: bytes) -> bytes:
        """Return what the caller gets for a chunk. Raises A2AError if an event cannot be parsed."""
        # Check again for every chunk: a stream may last for hours, and policies may change meanwhile.
        if self._parses_all or self._calls.is_inspected(self._exchange):
            return b"".join([await self._process(event) for event in self._splitter.feed(chunk)])
        if self._has_task_id:
            return await self._process_unparsed(self._splitter.feed_whole(chunk))
        events = self._splitter.feed(chunk)
        processed: list[bytes] = []
        while events and (self._parses_all or not self._has_task_id):
            processed.append(await self._process(events.pop(0)))
        return b"".join([*processed, await self._process_unparsed(b"".join(events))])

    async def _process_unparsed(self, data: bytes) -> bytes:
        """Return whole events unchanged after checking their ids, unless the agent may request input."""
        is_parsed = may_ask_for_input(data)
        call = self._exchange.call
        if not is_parsed and not call.dialect.rpc:
            return data
        events = EventSplitter(limit=len(data)).feed(data)
        if is_parsed:
            return b"".join([await self._process(event) for event in events])
        for part in map(get_event_data, events):
            if part is not None:
                check_response_id(call, part)
        return data

    def check_event_size(self) -> None:
        """Raise A2AError if the current event is too large."""
        if self._splitter.overrun:
            raise A2AError("agent_response", EVENT_TOO_LARGE)

    async def _process(self, event: bytes) -> bytes:
        data = get_event_data(event)
        if data is None:
            return b":\n\n" if self._calls.is_inspected(self._exchange) else event
        call = self._exchange.call
        reply = parse_reply_to(call, data)
        if self._calls.plan_stream(self._exchange).mode == "observe":
            return replace_data(event, (await self._observe(reply, len(event))).document)
        exchange = self._exchange
        processed = await self._calls.pass_message(exchange, pass_reply(reply, after=exchange.after))
        if processed is not reply:
            self._parses_all = True
            return replace_data(event, processed.document)
        self._has_task_id = self._has_task_id or reply.task_id is not None
        return event

    async def _observe(self, reply: A2AReply, size: int) -> A2AReply:
        self._parses_all = True
        self._observed_size += size
        if self._observed_size <= self._calls.limits.max_message_bytes:
            self._observed.append(reply)
        return await self._calls.pass_message(self._exchange, pass_observed_event(reply))

    async def report_observed(self) -> None:
        """Record what policies find in the events that were only observed."""
        observed, self._observed = self._observed, []
        if not observed:
            return
        await self._calls.report_observed(self._exchange, observed)
        if self._observed_size > self._calls.limits.max_message_bytes:
            extra = {"correlation_id": self._exchange.correlation_id}
            log.warning("stream_observed_in_part bytes=%d", self._observed_size, extra=extra)


async def _wait_for_first(job: "asyncio.Task[Any]", *events: asyncio.Event, within: float) -> None:
    """Wait until the job is done, an event is set or the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait({job, *waits}, timeout=max(within, 0), return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def _write_with_timeout(write: Write, data: bytes, timeout: IdleTimeout) -> None:
    try:
        await timeout.wait(write(data))
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
    return A2AError("timeout", STREAM_TIMEOUT)


def _encode_error_event(problem: A2AError, call: A2ACall) -> bytes:
    event = encode_event(build_error_body(problem, call.dialect, call.rpc_id))
    return event if call.dialect.rpc else ERROR_LINE + event
