"""GET …/events: server-sent events straight from the log (ruling 17).

An idle stream is one task waiting for its caller to leave; whoever commits an event wakes the stream and a
short-lived task writes to it. That keeps ten thousand open streams cheap.
"""

import asyncio
from collections import defaultdict
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
LEAVE_WITHIN_S = 2.0  # a caller that does not read cannot hold up the end

Check = Callable[[], Awaitable[None]]
"""Raises once the caller may no longer be told."""


class Stream:
    """One open stream: whom to write to, and how far it has been told."""

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
        """Send bytes, as the last ones if no more follow."""
        self.closed = self.closed or not more
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def may_go_on(self) -> bool:
        """Whether its caller may still be told: a key can be revoked while a stream is open."""
        try:
            if self.check is not None:
                await self.check()
        except Exception:  # whatever a service's own way to authenticate raises: in doubt nothing is told
            return False
        return True


class EventStreams:
    """All open streams of this process."""

    def __init__(self, desk: ReviewDesk) -> None:
        self._desk = desk
        self._streams: dict[str, set[Stream]] = defaultdict(set)
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
        """Replay what the caller missed, then stay until the case closes or the caller leaves.

        A bare stream tells that something happened, and nothing of what is in it. `check` is asked before
        each event is told: whoever it refuses hears nothing more.
        """
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        seen = parse_last_event_id(read_text_header(scope, b"last-event-id"))
        stream = Stream(case.id, send, seen if seen <= case.version else 0, bare=bare, check=check)
        self._streams[case.id].add(stream)
        over = not case.live
        del case  # an idle stream stays for hours, and holds no more than it needs
        try:
            await stream.write(b"retry: 2000\n\n")
            await self._tell(stream)
            if not stream.closed and (self._ending or over):  # nothing more will come
                await stream.write(b"", more=False)
            while not stream.closed and (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._forget(stream)

    def wake(self, case_id: str | None) -> None:
        """Tell the streams of a case, or all of them, that the log has grown."""
        listening = self._open() if case_id is None else tuple(self._streams.get(case_id, ()))
        for stream in listening:
            self._spawn(self._tell(stream))

    async def heartbeat(self) -> None:
        """Keep idle streams alive through proxies, for as long as the server runs."""
        while True:
            await asyncio.sleep(HEARTBEAT_EVERY)
            self.beat()

    def beat(self) -> None:
        """One comment to every stream that is idle."""
        for stream in self._open():
            if not stream.busy:
                self._spawn(stream.write(HEARTBEAT))

    def also_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Have streams of another kind end with these."""
        self._others.append(close)

    async def close(self) -> None:
        """End every stream so that a stopping server need not wait; callers come back with Last-Event-ID."""
        self._ending = True
        for close in self._others:
            await close()
        for stream in self._open():
            self._spawn(stream.write(b"", more=False))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LEAVE_WITHIN_S)

    def _open(self) -> list[Stream]:
        return [stream for streams in self._streams.values() for stream in streams if not stream.closed]

    async def _tell(self, stream: Stream) -> None:
        """Write what is new. One writer per stream: who comes meanwhile leaves word to look again."""
        if stream.busy:
            stream.missed = True
            return
        stream.busy = True
        try:
            stream.missed = True
            while stream.missed and not stream.closed:
                stream.missed = False
                await self._write_new(stream)
        finally:
            stream.busy = False

    async def _write_new(self, stream: Stream) -> None:
        frames, final = [], False
        for event in await self._desk.events(stream.case_id, after=stream.seen):
            stream.seen = event.seq
            if event.type in STREAMED and event.data is not None:
                data = b"{}" if stream.bare else event.data
                frames.append(format_event(name=event.type, seq=event.seq, data=data))
            final = final or event.type in FINAL
        if (frames or final) and not await stream.may_go_on():
            frames, final = [], True
        if frames or final:
            await stream.write(b"".join(frames), more=not final)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._discard_task)

    def _discard_task(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a caller that left mid-write is no news

    def _forget(self, stream: Stream) -> None:
        stream.closed = True
        streams = self._streams.get(stream.case_id)
        if streams is not None:
            streams.discard(stream)
            if not streams:
                del self._streams[stream.case_id]


class StreamResponse(Response):
    """The bare stream of a case, as a response among pages."""

    def __init__(self, streams: EventStreams, case: Case) -> None:
        super().__init__()
        self._streams = streams
        self._case = case

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stay until the case closes or the page is left."""
        await self._streams.serve(scope, receive, send, self._case, bare=True)
