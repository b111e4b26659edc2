"""Read a stream and inspect its events together, because a match may begin in one event and end in the next.

Events are sent before the end of the stream as soon as their text cannot be part of a match (see
`stream_window`). The rest is sent after the whole stream was inspected. If a policy needs the whole stream,
only the first events without text are sent early, so that the caller gets its task.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.chunk_template import ChunkEncoder, ChunkTemplate, build_encoder, build_template
from placet.relay.a2a.dialects import TaskState
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply, add_metadata, parse_reply_to
from placet.relay.a2a.sse import EventSplitter, encode_event, get_event_data, replace_data
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.exchange import Exchange, pass_event, pass_events, pass_reply
from placet.relay.inspection.stream_texts import StreamEventBuilder
from placet.relay.inspection.stream_window import ReleasedEvent, StreamWindow
from placet.relay.policy.finding import Finding, cut_findings, mask_text
from placet.relay.policy.text_joining import is_content
from placet.relay.runtime.call_handler import CallHandler
from placet.relay.task import build_streaming_metadata
from placet.relay.upstream.agent_client import IdleTimeout, read_chunk
from placet.relay.upstream.connection import UpstreamResponse

TOO_LARGE = "The agent's stream is too large to be inspected as a whole."
BLOCKED = "A policy blocked this message."
MAX_TOGETHER, MIN_SINGLE = 64, 8
"""How many events of one read leave together, and how many of its last events leave alone."""
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


class _StoredEvents(Struct):
    """An event of the stream, or several in a row that leave together.

    Events are not parsed if only their text differs from an earlier one.
    """

    events: list[bytes]
    replies: list[A2AReply]
    """Empty if the events are not parsed."""
    template: ChunkTemplate | None = None
    texts: Sequence[str] = ()
    """The texts of events that are not parsed."""

    @property
    def state(self) -> TaskState | None:
        return self.replies[0].state if self.replies else None

    def parse(self, call: A2ACall) -> list[A2AReply]:
        if not self.replies:
            self.replies = [parse_reply_to(call, get_event_data(event) or b"") for event in self.events]
        return self.replies


_END = _StoredEvents([], [])


class WithheldStream:
    """Reads one stream and inspects it. The caller of this class closes the response."""

    def __init__(self, calls: CallHandler, exchange: Exchange, response: UpstreamResponse) -> None:
        self._calls = calls
        self._exchange = exchange
        self._response = response
        self._splitter = EventSplitter(limit=calls.limits.max_message_bytes)
        self._stored: list[_StoredEvents] = []
        self._template: ChunkTemplate | None = None
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
            events = self._splitter.feed(chunk)
            following = 0
            for number, event in enumerate(events):
                if number < following:
                    continue
                following = number + self._add_chunks(events, number)
                if number < following:
                    continue
                if self._size + len(event) > self._calls.limits.max_message_bytes:
                    await self._release_events()
                    self._drop_unsent()
                    raise A2AError("agent_response", TOO_LARGE)
                if await self._add_event(event):
                    return
                if self._is_waiting():
                    await self._send_all()  # the caller has subscribed, so the stream goes on
            if await self._release_events():
                return
            if self._splitter.overrun:
                raise A2AError("agent_response", EVENT_TOO_LARGE)

    def _is_waiting(self) -> bool:
        """Return whether the last event says that the task waits, and is not sent yet."""
        if not self._stored or len(self._stored) - 1 in self._sent:
            return False
        return self._stored[-1].state in WAITING_STATES

    async def _add_event(self, event: bytes) -> bool:
        """Store an event, and return whether it is the last one."""
        data = get_event_data(event)
        if data is None:
            return False
        self._size += len(event)
        reply = parse_reply_to(self._exchange.call, data)
        reply = await self._calls.recognize_forwarded(self._exchange, reply)
        self._stored.append(_StoredEvents([event], [reply]))
        contents = [piece for piece in reply.pieces() if is_content(piece)]
        self._template = build_template(event, reply, contents)
        if reply.unreadable_content() and self._exchange.subscription.sink.unreadable_files == "hold":
            self._window.freeze()
        self._window.add(self._builder.build(reply))
        return _is_last(reply, is_subscription=self._exchange.call.operation == "subscribe")

    def _add_chunks(self, events: Sequence[bytes], first: int) -> int:
        """Store events without parsing them, while they equal the last one but for their text.

        Return their number. Of many events in one read, all but the last ones leave together, because it is
        much faster.
        """
        template = self._template
        if template is None:
            return 0
        texts: list[str] = []
        size = 0
        for event in islice(events, first, None):
            text = template.read_text(event)
            size += len(event)
            if text is None or self._size + size > self._calls.limits.max_message_bytes:
                break
            texts.append(text)
        added = 0
        while added < len(texts):
            count = min(MAX_TOGETHER, max(1, len(texts) - added - MIN_SINGLE))
            together = texts[added : added + count]
            chunk = self._builder.build_chunk(template.build_piece("".join(together)))
            if chunk is None:
                return added
            raw = list(events[first + added : first + added + count])
            self._size += sum(map(len, raw))
            self._stored.append(_StoredEvents(raw, [], template, together))
            self._window.add(chunk)
            added += count
        return added

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
        self._sent = set(range(len(self._stored)))
        self._has_sent_text = True
        self._early += outcome.events
        self.has_early_events.set()

    def _drop_unsent(self) -> None:
        """Forget the events that may not be sent, because they cannot be inspected with the whole stream."""
        self._stored = [self._stored[number] for number in sorted(self._sent)]
        self._sent = set(range(len(self._stored)))

    async def _release_events(self) -> bool:
        """Send the events that may leave. Return whether a policy blocks the stream."""
        plan = self._calls.plan_stream(self._exchange)
        if plan.mode == "whole":
            self._window.freeze()
        if self._window.is_frozen:
            await self._send_textless_events()
            return False
        texts = self._window.list_texts(plan.step)
        findings = (
            await self._calls.inspector.inspect_window(self._exchange.subscription, texts) if texts else ()
        )
        if findings is None:
            self._window.freeze()
            return False
        step = self._window.advance(findings, plan.finder)
        encoders: dict[int, ChunkEncoder | None] = {}
        for released in step.released:
            if released.number not in self._sent:
                self._send_early(released.number, await self._encode(released, encoders))
                self._has_sent_text = True
        self._is_blocked = step.is_blocked
        return step.is_blocked

    async def _send_textless_events(self) -> None:
        """Send the first events, as long as they only say that the agent works."""
        while len(self._sent) < len(self._stored):
            number = len(self._sent)
            stored = self._stored[number]
            if number in self._sent or not stored.replies or not _has_no_text(stored.replies[0]):
                return
            steps = pass_reply(stored.replies[0], after=self._exchange.after)
            processed = await self._calls.pass_message(self._exchange, steps)
            reply = self._mark_first(number, processed)
            self._send_early(number, replace_data(stored.events[0], reply.document))

    def _send_early(self, number: int, event: bytes) -> None:
        self._sent.add(number)
        self._early.append(event)
        self.has_early_events.set()

    async def _encode(self, released: ReleasedEvent, encoders: dict[int, ChunkEncoder | None]) -> bytes:
        """Return events as the caller gets them, with their findings masked."""
        stored, findings = self._stored[released.number], released.findings
        template = stored.template
        if template is not None and not findings:
            if id(template) not in encoders:
                rewritten = await self._calls.pass_message(self._exchange, pass_event(template.reply))
                encoders[id(template)] = build_encoder(template, rewritten)
            encoder = encoders[id(template)]
            if encoder is not None:
                return b"".join(map(encoder.encode, stored.texts))
        replies = stored.parse(self._exchange.call)
        if template is not None:  # the window knows only the joined content of the events
            found = [one for several in findings.values() for one in several]
            parts = cut_findings(found, [len(text) for text in stored.texts])
            masked = [
                _mask_content(reply, template, part) for reply, part in zip(replies, parts, strict=True)
            ]
        else:
            masked = [_mask(reply, findings) for reply in replies]
        sent = [await self._calls.pass_message(self._exchange, pass_event(reply)) for reply in masked]
        sent[0] = self._mark_first(released.number, sent[0])
        pairs = zip(stored.events, sent, strict=True)
        return b"".join(replace_data(event, reply.document) for event, reply in pairs)

    def _mark_first(self, number: int, reply: A2AReply) -> A2AReply:
        return reply if self._sent or number else self._mark_whole(reply)

    def _mark_whole(self, reply: A2AReply) -> A2AReply:
        """Return the first event of a stream. It says so if the caller gets text only at the end."""
        plan = self._calls.plan_stream(self._exchange)
        if plan.mode != "whole":
            return reply
        return add_metadata(reply, build_streaming_metadata(plan.policy_name))

    async def _inspect(self, problem: A2AError | None) -> StreamOutcome:
        if len(self._stored) == len(self._sent) and not self._has_sent_text:
            return StreamOutcome(events=[], problem=problem)
        if not self._is_blocked and (events := await self._list_clean_events()) is not None:
            return StreamOutcome(events=events, problem=problem)
        sent = (stored for number, stored in enumerate(self._stored) if number in self._sent)
        self._exchange.state.count_released(sum(len(stored.events) for stored in sent))
        parsed = [reply for stored in self._stored for reply in stored.parse(self._exchange.call)]
        replies = list(await self._calls.pass_message(self._exchange, pass_events(parsed)))
        if self._is_blocked:  # the rest of the stream was not read, so it is never sent without an error
            raise A2AError("refused", BLOCKED)
        if replies and not self._sent:
            replies[0] = self._mark_whole(replies[0])
        read = [(number, one) for number, stored in enumerate(self._stored) for one in stored.events]
        if len(replies) == len(read):
            events = [
                replace_data(event, reply.document)
                for (number, event), reply in zip(read, replies, strict=True)
                if number not in self._sent
            ]
        else:
            events = [encode_event(reply.document) for reply in replies]
        return StreamOutcome(events=events, problem=problem)

    async def _list_clean_events(self) -> list[bytes] | None:
        """Return the events that are not sent yet, if nothing is found in a stream with many chunks.

        Chunks in a row are inspected as one event, without parsing them. None if all must be parsed.
        """
        replies: list[A2AReply] = []
        pieces: list[list[TextPiece]] = []
        chunks: list[str] = []
        template: ChunkTemplate | None = None
        for stored in (*self._stored, _END):
            if template is not None and stored.template is not template:
                replies.append(template.reply)
                pieces.append([template.build_piece("".join(chunks))])
                template, chunks = None, []
            if stored.template is not None:
                template = stored.template
                chunks += stored.texts
            else:
                replies += stored.replies
                pieces += (reply.pieces() for reply in stored.replies)
        if len(replies) == len(self._stored) or any(reply.state in WAITING_STATES for reply in replies):
            return None
        if not await self._calls.is_stream_clean(self._exchange, replies, pieces):
            return None
        encoders: dict[int, ChunkEncoder | None] = {}
        unsent = [number for number in range(len(self._stored)) if number not in self._sent]
        return [await self._encode(ReleasedEvent(number, {}), encoders) for number in unsent]


def _mask(reply: A2AReply, findings: Mapping[int, Sequence[Finding]]) -> A2AReply:
    """Return an event with its findings masked. `findings` has them by the index of their text."""
    if not findings:
        return reply
    texts = [mask_text(piece.text, findings.get(index, ())) for index, piece in enumerate(reply.pieces())]
    return replace(reply, document=reply.with_texts(texts))


def _mask_content(reply: A2AReply, template: ChunkTemplate, findings: Sequence[Finding]) -> A2AReply:
    """Return an event of a template with the findings in its content masked."""
    paths = [piece.path for piece in reply.pieces()]
    return _mask(reply, {paths.index(template.piece.path): findings} if findings else {})


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
