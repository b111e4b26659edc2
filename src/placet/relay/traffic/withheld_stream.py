"""Streams that are read to their end before their caller gets any text of them.

A pattern may stand half in one event and half in the next. Where a policy could mask, refuse or hold what it
finds, the events of a stream are therefore judged together. Events without any text pass at once, so that the
caller learns of its task and that somebody works on it.
"""

import asyncio
from contextlib import closing

from msgspec import Struct

from placet.relay.a2a.dialects import State
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply, parse_reply
from placet.relay.a2a.sse import EventSplitter, encode_event, get_event_data, replace_data
from placet.relay.a2a.stream_merging import merge_events
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.exchange import AnsweredByRelay, Exchange, RelayAnswer
from placet.relay.upstream.agent_client import read_chunk
from placet.relay.upstream.http_client import UpstreamResponse
from placet.relay.upstream.idle_timeout import IdleTimeout

TOO_LARGE = "The agent's stream is too large to be looked at as a whole."
RUNNING_STATES: frozenset[State | None] = frozenset({None, "submitted", "working"})
"""As long as a task stands so, its stream goes on."""


class StreamOutcome(Struct, frozen=True, kw_only=True):
    """What came of a stream: what is left to tell of it, and what went wrong at its end."""

    events: list[bytes]
    replies: list[A2AReply]
    problem: A2AError | None


class WithheldStream:
    """Reads one stream and judges it. Whoever began the exchange with the agent ends it."""

    def __init__(self, calls: CallHandler, exchange: Exchange, response: UpstreamResponse) -> None:
        self._calls = calls
        self._exchange = exchange
        self._response = response
        self._splitter = EventSplitter(limit=calls.limits.max_message_bytes)
        self._events: list[bytes] = []
        self._replies: list[A2AReply] = []
        self._told = 0
        self._size = 0
        self._early: list[bytes] = []
        self.more = asyncio.Event()
        """Set while there are events that may be told before the stream is judged."""

    @property
    def about(self) -> A2AReply | None:
        """The last event that names a task."""
        return next((one for one in reversed(self._replies) if one.task_id is not None), None)

    async def run(self) -> StreamOutcome:
        """All of the stream, as its caller may have it; raises A2AError or Taken if it may not."""
        problem: A2AError | None = None
        try:
            async with asyncio.timeout(self._calls.limits.stream_for.total_seconds()):
                await self._read()
        except TimeoutError:
            problem = A2AError("timeout", "The stream has lasted as long as it may.")
        except A2AError as found:
            problem = found
        return await self._inspect(problem)

    def take_early(self) -> bytes:
        """What may be told by now and was not yet."""
        told, self._early = b"".join(self._early), []
        self.more.clear()
        return told

    async def answer(self, outcome: "asyncio.Task[StreamOutcome]") -> RelayAnswer:
        """What the stream comes to, for a caller that no longer listens but will ask."""
        try:
            found = await outcome
        except AnsweredByRelay as taken:
            return await self._calls.answer_from_relay(self._exchange, taken)
        reply = merge_events(found.replies, self._exchange.call.rpc_id)
        if reply is None and found.problem is not None:
            raise found.problem
        return RelayAnswer(body=b"", reply=reply)

    async def _read(self) -> None:
        silence = IdleTimeout(self._calls.limits.stream_idle_for.total_seconds())
        with closing(silence):
            await self._read_pieces(silence)

    async def _read_pieces(self, silence: IdleTimeout) -> None:
        while chunk := await read_chunk(self._response, silence):
            for event in self._splitter.feed(chunk):
                if await self._take(event):
                    return
            if self._splitter.overrun:
                raise A2AError("agent_response", "An event of the agent's is too large.")

    async def _take(self, event: bytes) -> bool:
        """Keep an event, and say whether the stream has come to its end."""
        data = get_event_data(event)
        if data is None:
            return False
        self._size += len(event)
        if self._size > self._calls.limits.max_message_bytes:
            self._events, self._replies = [], []  # what was not looked at as a whole is not told in part
            raise A2AError("agent_response", TOO_LARGE)
        call = self._exchange.call
        reply = parse_reply(call.dialect, call.operation, data)
        self._events.append(event)
        self._replies.append(reply)
        if self._told == len(self._replies) - 1 and _has_no_text(reply):
            self._told += 1
            back = await self._calls.process_reply(self._exchange, reply)
            self._early.append(replace_data(event, back.document))
            self.more.set()
        return _is_last(reply)

    async def _inspect(self, problem: A2AError | None) -> StreamOutcome:
        if len(self._replies) == self._told:
            return StreamOutcome(events=[], replies=self._replies, problem=problem)
        replies = list(await self._calls.process_stream(self._exchange, self._replies))
        if len(replies) == len(self._events):
            pairs = zip(self._events[self._told :], replies[self._told :], strict=True)
            events = [replace_data(event, reply.document) for event, reply in pairs]
        else:
            events = [encode_event(reply.document) for reply in replies]
        return StreamOutcome(events=events, replies=replies, problem=problem)


def _has_no_text(reply: A2AReply) -> bool:
    """Whether an event tells nothing but that somebody works on the task."""
    return (
        reply.error is None
        and reply.state in ("submitted", "working")
        and all(piece.role == "fixed" for piece in reply.pieces())
        and not reply.opaque()
    )


def _is_last(reply: A2AReply) -> bool:
    """Whether nothing need follow: the task has ended, waits for its caller, or there is none."""
    update = reply.status_update
    said_so = update is not None and update.get("final") is True
    return (
        said_so or reply.state not in RUNNING_STATES or reply.message is not None or reply.error is not None
    )
