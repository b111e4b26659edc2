"""Read a stream and inspect its events together, because a match may begin in one event and end in the next.

Events are sent before the end of the stream as soon as their text cannot be part of a match (see
`stream_window`). The rest is sent after the whole stream was inspected. If a policy needs the whole stream,
only the first events without text are sent early, so that the caller gets its task.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing

from msgspec import Struct
from msgspec.structs import replace

from placet.relay.a2a.dialects import TaskState
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply, add_metadata, parse_reply_to
from placet.relay.a2a.sse import EventSplitter, encode_event, get_event_data, replace_data
from placet.relay.inspection.stream_texts import StreamEventBuilder
from placet.relay.inspection.stream_window import StreamWindow
from placet.relay.policy.finding import Finding, mask_text
from placet.relay.task_reasons import build_streaming_metadata
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.exchange import Exchange
from placet.relay.upstream.agent_client import IdleTimeout, read_chunk
from placet.relay.upstream.connection import UpstreamResponse

TOO_LARGE = "The agent's stream is too large to be inspected as a whole."
BLOCKED = "A policy blocked this message."
EVENT_TOO_LARGE = "An event of the agent's stream is too large."
STREAM_TIMEOUT = "The stream has reached the maximum duration."
RUNNING_STATES: frozenset[TaskState | None] = frozenset({None, "submitted", "working"})
"""The states in which the stream of a task continues."""
WAITING_STATES: frozenset[TaskState | None] = frozenset({"input-required", "auth-required"})
"""The states in which an agent waits, and goes on when it got what it needs."""


class StreamOutcome(Struct, frozen=True, kw_only=True):
    """The events that the caller has not got yet, and the error at the end of the stream."""

    events: list[bytes]
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
        self._sent: set[int] = set()
        """The numbers of the events that the caller has got, or gets with `take_early`."""
        self._has_sent_text = False
        self._builder = StreamEventBuilder()
        self._is_blocked = False
        self._window = StreamWindow()
        self._size = 0
        self._early: list[bytes] = []
        self.has_early_events = asyncio.Event()
        """Set while there are events that may be sent before the whole stream is inspected."""

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
        """Return the events that may be sent already and that the caller has not got yet."""
        early, self._early = b"".join(self._early), []
        self.has_early_events.clear()
        return early

    async def _read(self) -> None:
        idle_timeout = IdleTimeout(self._calls.limits.stream_idle_for.total_seconds())
        with closing(idle_timeout):
            await self._read_chunks(idle_timeout)

    async def _read_chunks(self, idle_timeout: IdleTimeout) -> None:
        while chunk := await read_chunk(self._response, idle_timeout):
            for event in self._splitter.feed(chunk):
                if self._size + len(event) > self._calls.limits.max_message_bytes:
                    await self._release_events()
                    self._drop_unsent()
                    raise A2AError("agent_response", TOO_LARGE)
                if await self._add_event(event):
                    return
                last = len(self._replies) - 1
                if last >= 0 and last not in self._sent and self._replies[last].state in WAITING_STATES:
                    await self._send_all()  # the caller has subscribed, so the stream goes on
            if await self._release_events():
                return
            if self._splitter.overrun:
                raise A2AError("agent_response", EVENT_TOO_LARGE)

    async def _add_event(self, event: bytes) -> bool:
        """Store an event, and return whether it is the last one."""
        data = get_event_data(event)
        if data is None:
            return False
        self._size += len(event)
        reply = parse_reply_to(self._exchange.call, data)
        reply = await self._calls.recognize_forwarded(self._exchange, reply)
        self._events.append(event)
        self._replies.append(reply)
        if reply.unreadable_content() and self._exchange.subscription.sink.unreadable_files == "hold":
            self._window.freeze()
        self._window.add(self._builder.build(reply))
        return _is_last(reply, is_subscription=self._exchange.call.operation == "subscribe")

    async def _send_all(self) -> None:
        """Inspect and send all events so far, because the agent waits and may go on much later.

        They stay part of the stream, so that a match with a later event is found.
        """
        try:
            outcome = await self._inspect(None)
        except A2AError:
            self._drop_unsent()
            self._has_sent_text = False  # the stream is refused, and is not inspected again
            raise
        self._sent = set(range(len(self._replies)))
        self._has_sent_text = True
        self._early += outcome.events
        self.has_early_events.set()

    def _drop_unsent(self) -> None:
        """Forget the events that may not be sent, because they cannot be inspected with the whole stream."""
        self._events = [self._events[number] for number in sorted(self._sent)]
        self._replies = [self._replies[number] for number in sorted(self._sent)]
        self._sent = set(range(len(self._replies)))

    async def _release_events(self) -> bool:
        """Send the events that may leave. Return whether a policy blocks the stream."""
        plan = self._calls.plan_stream(self._exchange)
        if plan.mode == "whole":
            self._window.freeze()
        if self._window.is_frozen:
            await self._send_textless_events()
            return False
        texts = self._window.list_texts(plan.step)
        findings = await self._calls.inspect_window(self._exchange, texts) if texts else ()
        if findings is None:
            self._window.freeze()
            return False
        step = self._window.advance(findings, plan.finder)
        for released in step.released:
            if released.number in self._sent:
                continue
            reply = _mask(self._replies[released.number], released.findings)
            self._send_early(released.number, await self._calls.rewrite_event(self._exchange, reply))
            self._has_sent_text = True
        self._is_blocked = step.is_blocked
        return step.is_blocked

    async def _send_textless_events(self) -> None:
        """Send the first events, as long as they only say that the agent works."""
        while len(self._sent) < len(self._replies):
            number = len(self._sent)
            if number in self._sent or not _has_no_text(self._replies[number]):
                return
            self._send_early(number, await self._calls.process_reply(self._exchange, self._replies[number]))

    def _send_early(self, number: int, reply: A2AReply) -> None:
        if not self._sent:
            reply = self._mark_whole(reply)
        self._sent.add(number)
        self._early.append(replace_data(self._events[number], reply.document))
        self.has_early_events.set()

    def _mark_whole(self, reply: A2AReply) -> A2AReply:
        """Return the first event of a stream. It says so if the caller gets text only at the end."""
        plan = self._calls.plan_stream(self._exchange)
        if plan.mode != "whole":
            return reply
        return add_metadata(reply, build_streaming_metadata(plan.policy_name))

    async def _inspect(self, problem: A2AError | None) -> StreamOutcome:
        if len(self._replies) == len(self._sent) and not self._has_sent_text:
            return StreamOutcome(events=[], problem=problem)
        replies = list(await self._calls.process_stream(self._exchange, self._replies))
        if self._is_blocked:  # the rest of the stream was not read, so it is never sent without an error
            raise A2AError("refused", BLOCKED)
        if replies and not self._sent:
            replies[0] = self._mark_whole(replies[0])
        if len(replies) == len(self._events):
            pairs = enumerate(zip(self._events, replies, strict=True))
            events = [
                replace_data(event, reply.document)
                for number, (event, reply) in pairs
                if number not in self._sent
            ]
        else:
            events = [encode_event(reply.document) for reply in replies]
        return StreamOutcome(events=events, problem=problem)


def _mask(reply: A2AReply, findings: Mapping[int, Sequence[Finding]]) -> A2AReply:
    """Return an event with its findings masked. `findings` has them by the index of their text."""
    if not findings:
        return reply
    texts = [mask_text(piece.text, findings.get(index, ())) for index, piece in enumerate(reply.pieces())]
    return replace(reply, document=reply.with_texts(texts))


def _has_no_text(reply: A2AReply) -> bool:
    """Return whether an event only says that the task is submitted or working."""
    return (
        reply.error is None
        and reply.state in ("submitted", "working")
        and all(piece.role == "fixed" for piece in reply.pieces())
        and not reply.unreadable_paths()
    )


def _is_last(reply: A2AReply, *, is_subscription: bool) -> bool:
    """Return whether the event ends the stream: the task has ended, or there is no task.

    A task that waits ends the stream of a message, but not a subscription, which lasts until the task ends.
    """
    update = reply.status_update
    is_marked_final = update is not None and update.get("final") is True
    running = RUNNING_STATES | WAITING_STATES if is_subscription else RUNNING_STATES
    return (
        is_marked_final or reply.state not in running or reply.message is not None or reply.error is not None
    )
