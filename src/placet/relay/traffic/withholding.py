"""Streams that are read to their end before their caller gets any text of them.

A pattern may stand half in one event and half in the next. Where a policy could mask, refuse or hold what it
finds, the events of a stream are therefore judged together. Events without any text pass at once, so that the
caller learns of its task and that somebody works on it.
"""

import asyncio
from contextlib import closing

from msgspec import Struct

from placet.relay.a2a.dialects import State
from placet.relay.a2a.gathering import gathered
from placet.relay.a2a.problems import A2AProblem
from placet.relay.a2a.reply import A2AReply, read_reply
from placet.relay.a2a.sse import EventSplitter, event_data, frame, with_data
from placet.relay.agents.http import Response
from placet.relay.agents.patience import Patience
from placet.relay.agents.upstream import next_piece
from placet.relay.traffic.calls import Calls
from placet.relay.traffic.way import Answer, Taken, Way

TOO_LARGE = "The agent's stream is too large to be looked at as a whole."
UNDER_WAY: frozenset[State | None] = frozenset({None, "submitted", "working"})
"""As long as a task stands so, its stream goes on."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of a stream: what is left to tell of it, and what went wrong at its end."""

    events: list[bytes]
    replies: list[A2AReply]
    problem: A2AProblem | None


class WithheldStream:
    """Reads one stream and judges it. Whoever began the exchange with the agent ends it."""

    def __init__(self, calls: Calls, way: Way, response: Response) -> None:
        self._calls = calls
        self._way = way
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

    async def run(self) -> Outcome:
        """All of the stream, as its caller may have it; raises A2AProblem or Taken if it may not."""
        problem: A2AProblem | None = None
        try:
            async with asyncio.timeout(self._calls.limits.stream_for.total_seconds()):
                await self._read()
        except TimeoutError:
            problem = A2AProblem("timeout", "The stream has lasted as long as it may.")
        except A2AProblem as found:
            problem = found
        return await self._judged(problem)

    def take_early(self) -> bytes:
        """What may be told by now and was not yet."""
        told, self._early = b"".join(self._early), []
        self.more.clear()
        return told

    async def answer(self, outcome: "asyncio.Task[Outcome]") -> Answer:
        """What the stream comes to, for a caller that no longer listens but will ask."""
        try:
            found = await outcome
        except Taken as taken:
            return await self._calls.taken(self._way, taken)
        reply = gathered(found.replies, self._way.call.rpc_id)
        if reply is None and found.problem is not None:
            raise found.problem
        return Answer(body=b"", reply=reply)

    async def _read(self) -> None:
        silence = Patience(self._calls.limits.stream_idle_for.total_seconds())
        with closing(silence):
            await self._read_pieces(silence)

    async def _read_pieces(self, silence: Patience) -> None:
        while chunk := await next_piece(self._response, silence):
            for event in self._splitter.feed(chunk):
                if await self._take(event):
                    return
            if self._splitter.overrun:
                raise A2AProblem("agent_response", "An event of the agent's is too large.")

    async def _take(self, event: bytes) -> bool:
        """Keep an event, and say whether the stream has come to its end."""
        data = event_data(event)
        if data is None:
            return False
        self._size += len(event)
        if self._size > self._calls.limits.max_message_bytes:
            self._events, self._replies = [], []  # what was not looked at as a whole is not told in part
            raise A2AProblem("agent_response", TOO_LARGE)
        call = self._way.call
        reply = read_reply(call.dialect, call.operation, data)
        self._events.append(event)
        self._replies.append(reply)
        if self._told == len(self._replies) - 1 and _is_bare(reply):
            self._told += 1
            back = await self._calls.inward(self._way, reply)
            self._early.append(with_data(event, back.document))
            self.more.set()
        return _is_last(reply)

    async def _judged(self, problem: A2AProblem | None) -> Outcome:
        if len(self._replies) == self._told:
            return Outcome(events=[], replies=self._replies, problem=problem)
        replies = list(await self._calls.inward_together(self._way, self._replies))
        if len(replies) == len(self._events):
            pairs = zip(self._events[self._told :], replies[self._told :], strict=True)
            events = [with_data(event, reply.document) for event, reply in pairs]
        else:
            events = [frame(reply.document) for reply in replies]
        return Outcome(events=events, replies=replies, problem=problem)


def _is_bare(reply: A2AReply) -> bool:
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
    return said_so or reply.state not in UNDER_WAY or reply.message is not None or reply.error is not None
