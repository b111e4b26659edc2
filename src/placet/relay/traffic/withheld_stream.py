"""Read a stream to its end before its caller gets any text.

A match may begin in one event and end in the next. If a policy may mask, refuse or hold a match, the events
of the stream are inspected together. Events without text are forwarded at once, so that the caller gets the
task.
"""

import asyncio
from contextlib import closing

from msgspec import Struct

from placet.relay.a2a.dialects import TaskState
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply, parse_reply_to
from placet.relay.a2a.sse import EventSplitter, encode_event, get_event_data, replace_data
from placet.relay.a2a.stream_merging import merge_events
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.exchange import AnsweredByRelay, Exchange, RelayAnswer
from placet.relay.upstream.agent_client import read_chunk
from placet.relay.upstream.http_client import UpstreamResponse
from placet.relay.upstream.idle_timeout import IdleTimeout

TOO_LARGE = "The agent's stream is too large to be inspected as a whole."
EVENT_TOO_LARGE = "An event of the agent's stream is too large."
STREAM_TIMEOUT = "The stream has reached the maximum duration."
RUNNING_STATES: frozenset[TaskState | None] = frozenset({None, "submitted", "working"})
"""The states in which the stream of a task continues."""


class StreamOutcome(Struct, frozen=True, kw_only=True):
    """The events that the caller has not got yet, all replies, and the error at the end of the stream."""

    events: list[bytes]
    replies: list[A2AReply]
    problem: A2AError | None


class WithheldStream:
    """Reads one stream and inspects it. The caller of this class closes the response."""

    def __init__(self, calls: CallHandler, exchange: Exchange, response: UpstreamResponse) -> None:
        self._calls = calls
        self._exchange = exchange
        self._response = response
        self._splitter = EventSplitter(limit=calls.limits.max_message_bytes)
        self._events: list[bytes] = []
        self._replies: list[A2AReply] = []
        self._forwarded = 0
        self._size = 0
        self._early: list[bytes] = []
        self.has_early_events = asyncio.Event()
        """Set while there are events that may be sent before the stream is inspected."""

    @property
    def last_task_event(self) -> A2AReply | None:
        """The last event that contains a task id."""
        return next((reply for reply in reversed(self._replies) if reply.task_id is not None), None)

    async def run(self) -> StreamOutcome:
        """Read and inspect the stream.

        Raises A2AError if the stream is refused, and AnsweredByRelay if it is held.
        """
        problem: A2AError | None = None
        try:
            async with asyncio.timeout(self._calls.limits.stream_for.total_seconds()):
                await self._read()
        except TimeoutError:
            problem = A2AError("timeout", STREAM_TIMEOUT)
        except A2AError as error:
            problem = error
        return await self._inspect(problem)

    def take_early(self) -> bytes:
        """Return the events without text that the caller has not got yet."""
        early, self._early = b"".join(self._early), []
        self.has_early_events.clear()
        return early

    async def answer(self, outcome: "asyncio.Task[StreamOutcome]") -> RelayAnswer:
        """Return the merged events, for a caller that got a task and comes back for the result."""
        try:
            ended = await outcome
        except AnsweredByRelay as answered:
            return await self._calls.answer_from_relay(self._exchange, answered)
        reply = merge_events(ended.replies, self._exchange.call.rpc_id)
        if reply is None and ended.problem is not None:
            raise ended.problem
        return RelayAnswer(body=b"", reply=reply)

    async def _read(self) -> None:
        idle_timeout = IdleTimeout(self._calls.limits.stream_idle_for.total_seconds())
        with closing(idle_timeout):
            await self._read_chunks(idle_timeout)

    async def _read_chunks(self, idle_timeout: IdleTimeout) -> None:
        while chunk := await read_chunk(self._response, idle_timeout):
            for event in self._splitter.feed(chunk):
                if await self._add_event(event):
                    return
            if self._splitter.overrun:
                raise A2AError("agent_response", EVENT_TOO_LARGE)

    async def _add_event(self, event: bytes) -> bool:
        """Store an event, and return whether it is the last one."""
        data = get_event_data(event)
        if data is None:
            return False
        self._size += len(event)
        if self._size > self._calls.limits.max_message_bytes:
            self._events, self._replies = (
                [],
                [],
            )  # the caller gets no part of a stream that was not inspected whole
            raise A2AError("agent_response", TOO_LARGE)
        call = self._exchange.call
        reply = await self._calls.recognize_forwarded(self._exchange, parse_reply_to(call, data))
        self._events.append(event)
        self._replies.append(reply)
        if self._forwarded == len(self._replies) - 1 and _has_no_text(reply):
            self._forwarded += 1
            processed = await self._calls.process_reply(self._exchange, reply)
            self._early.append(replace_data(event, processed.document))
            self.has_early_events.set()
        return _is_last(reply)

    async def _inspect(self, problem: A2AError | None) -> StreamOutcome:
        if len(self._replies) == self._forwarded:
            return StreamOutcome(events=[], replies=self._replies, problem=problem)
        replies = list(await self._calls.process_stream(self._exchange, self._replies))
        if len(replies) == len(self._events):
            pairs = zip(self._events[self._forwarded :], replies[self._forwarded :], strict=True)
            events = [replace_data(event, reply.document) for event, reply in pairs]
        else:
            events = [encode_event(reply.document) for reply in replies]
        return StreamOutcome(events=events, replies=replies, problem=problem)


def _has_no_text(reply: A2AReply) -> bool:
    """Return whether an event only says that the task is submitted or working."""
    return (
        reply.error is None
        and reply.state in ("submitted", "working")
        and all(piece.role == "fixed" for piece in reply.pieces())
        and not reply.unreadable_paths()
    )


def _is_last(reply: A2AReply) -> bool:
    """Return whether the event ends the stream: the task has ended or waits, or there is no task."""
    update = reply.status_update
    is_marked_final = update is not None and update.get("final") is True
    return (
        is_marked_final
        or reply.state not in RUNNING_STATES
        or reply.message is not None
        or reply.error is not None
    )
