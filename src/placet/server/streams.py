"""GET …/events: server-sent events straight from the log (ruling 17).

An idle stream is one task that waits for its client to disconnect. A committed event wakes the stream, and a
short-lived task writes to it. This keeps ten thousand open streams cheap.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from starlette.responses import Response

from placet.cases.case import Case
from placet.desk.review_desk import ReviewDesk
from placet.http.asgi import NO_STORE, NOSNIFF, Receive, Scope, Send, read_text_header
from placet.protocol.stream import FINAL, HEARTBEAT, STREAMED, format_event, parse_last_event_id

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    NO_STORE,
    NOSNIFF,
    (b"x-accel-buffering", b"no"),
]
HEARTBEAT_EVERY = 15.0
MAX_PAGE_STREAMS = 100  # of one case: a review link is no principal
CLOSE_TIMEOUT_S = 2.0  # a client that does not read cannot delay the shutdown

Check = Callable[[], Awaitable[None]]
"""Raises an exception once the client may no longer receive events."""


class Stream:
    """One open stream: its client, and the last event it received."""

    __slots__ = ("bare", "busy", "case_id", "check", "closed", "missed", "seen", "send")

    def __init__(
        self, case_id: str, send: Send, seen: int, *, bare: bool = False, check: Check | None = None
    ) -> None:
        self.bare = bare
        self.case_id = case_id
        self.check = check
        self.send = send
        self.seen = seen
        self.busy = False
        self.missed = False
        self.closed = False

    async def write(self, body: bytes, *, more: bool = True) -> None:
        """Send bytes; `more=False` ends the stream."""
        self.closed = self.closed or not more
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def send_new_events(self, desk: ReviewDesk) -> None:
        """Write new events. A stream has one writer; a call during a write makes it check again."""
        if self.busy:
            self.missed = True
            return
        self.busy = True
        try:
            self.missed = True
            while self.missed and not self.closed:
                self.missed = False
                await self._write_new(desk)
        finally:
            self.busy = False

    def mark_closed(self) -> None:
        """Write nothing more: the client has left."""
        self.closed = True

    async def _write_new(self, desk: ReviewDesk) -> None:
        frames, final = [], False
        for event in await desk.list_events(self.case_id, after=self.seen):
            self.seen = event.seq
            if event.type in STREAMED and event.data is not None:
                data = b"{}" if self.bare else event.data
                frames.append(format_event(name=event.type, seq=event.seq, data=data))
            final = final or event.type in FINAL
        if (frames or final) and not await self._may_continue():
            frames, final = [], True
        if frames or final:
            await self.write(b"".join(frames), more=not final)

    async def _may_continue(self) -> bool:
        """Whether the client may still receive events: a key can be revoked while a stream is open."""
        try:
            if self.check is not None:
                await self.check()
        except Exception:  # a service's own authenticate may raise anything: then send nothing
            return False
        return True


class EventStreams:
    """All open streams of this process."""

    def __init__(self, desk: ReviewDesk) -> None:
        self._desk = desk
        self._streams: dict[str, set[Stream]] = defaultdict(set)
        self._counts: Counter[tuple[bool, str | None]] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = False
        self._others: list[Callable[[], Awaitable[None]]] = []
        desk.store.add_change_listener(self.wake)

    def __len__(self) -> int:
        return sum(len(streams) for streams in self._streams.values())

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        case: Case,
        *,
        bare: bool = False,
        check: Check | None = None,
    ) -> None:
        """Replay the events that the client missed, then stream until the case closes or the client leaves.

        A bare stream sends events without their data. `check` is called before events are sent; if it raises,
        the stream ends. Raises QuotaExceeded if the case's owner or its review page has too many streams.
        """
        counted = (bare, case.id if bare else case.owner)
        limit = MAX_PAGE_STREAMS if bare else self._desk.limits.max_streams
        if 0 < limit <= self._counts[counted]:
            self._desk.quotas.refuse("streams", limit)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        seen = parse_last_event_id(read_text_header(scope, b"last-event-id"))
        stream = Stream(case.id, send, seen if seen <= case.version else 0, bare=bare, check=check)
        self._streams[case.id].add(stream)
        self._counts[counted] += 1
        over = not case.live
        del case  # an idle stream may stay open for hours: release the memory
        try:
            await stream.write(b"retry: 2000\n\n")
            await stream.send_new_events(self._desk)
            if not stream.closed and (self._ending or over):  # nothing more will come
                await stream.write(b"", more=False)
            while not stream.closed and (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._forget(stream)
            self._counts[counted] -= 1
            if not self._counts[counted]:
                del self._counts[counted]

    def wake(self, case_id: str | None) -> None:
        """Send new events to the streams of a case, or to all streams."""
        listening = self._open() if case_id is None else tuple(self._streams.get(case_id, ()))
        for stream in listening:
            self._spawn(stream.send_new_events(self._desk))

    async def heartbeat(self) -> None:
        """Keep idle streams alive through proxies; runs until it is cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_EVERY)
            self.beat()

    def beat(self) -> None:
        """Send one comment to every idle stream."""
        for stream in self._open():
            if not stream.busy:
                self._spawn(stream.write(HEARTBEAT))

    def add_close_callback(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close streams of another kind together with these."""
        self._others.append(close)

    async def close(self) -> None:
        """End every stream so that the server can stop; clients reconnect with Last-Event-ID."""
        self._ending = True
        for close in self._others:
            await close()
        for stream in self._open():
            self._spawn(stream.write(b"", more=False))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT_S)

    def _open(self) -> list[Stream]:
        return [stream for streams in self._streams.values() for stream in streams if not stream.closed]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._discard_task)

    def _discard_task(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # read it, so that a client that disconnects is not logged

    def _forget(self, stream: Stream) -> None:
        stream.mark_closed()
        streams = self._streams.get(stream.case_id)
        if streams is not None:
            streams.discard(stream)
            if not streams:
                del self._streams[stream.case_id]


class StreamResponse(Response):
    """The bare stream of a case as a response of the review pages."""

    def __init__(self, streams: EventStreams, case: Case, check: Check) -> None:
        super().__init__()
        self._streams = streams
        self._case = case
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the case closes or the client disconnects."""
        await self._streams.serve(scope, receive, send, self._case, bare=True, check=self._check)
