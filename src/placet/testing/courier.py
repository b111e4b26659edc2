"""A courier that takes nothing anywhere: it remembers what it was given and answers as it was told."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from placet.ports.courier import DeliveryReply, OutgoingRequest


def make_reply(status: int, *, retry_after: timedelta | None = None) -> DeliveryReply:
    """A receiver answered."""
    return DeliveryReply(status=status, error=None, took_for=timedelta(0), retry_after=retry_after)


NO_ANSWER = DeliveryReply(status=None, error="no answer came", took_for=timedelta(0))
FORBIDDEN = DeliveryReply(status=None, error="may not be called", took_for=timedelta(0), refused=True)


class RecordingCourier:
    """A Courier for tests: every receiver answers 200 until told otherwise."""

    def __init__(self) -> None:
        self.requests: list[OutgoingRequest] = []
        self._replies: dict[str, list[DeliveryReply | Exception]] = defaultdict(list)
        self._doors: dict[str, asyncio.Event] = {}
        self._news = asyncio.Condition()

    def expect(self, url: str, *replies: DeliveryReply | Exception) -> None:
        """Answer the next attempts to this address with these, one each; an exception is raised."""
        self._replies[url].extend(replies)

    @contextmanager
    def holding(self, url: str) -> Iterator[None]:
        """Inside, the receiver at this address takes requests and does not answer; afterwards it does."""
        self._doors[url] = asyncio.Event()
        try:
            yield
        finally:
            self._doors.pop(url).set()

    def sent_to(self, url: str) -> list[OutgoingRequest]:
        """What has been sent to this address so far."""
        return [request for request in self.requests if request.url == url]

    async def until(self, holds: Callable[[], bool], *, within: float = 20) -> None:
        """Wait for requests until this holds; raises TimeoutError after `within` seconds."""
        async with asyncio.timeout(within), self._news:
            await self._news.wait_for(holds)

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Remember the request and give the next reply."""
        self.requests.append(request)
        async with self._news:
            self._news.notify_all()
        if (door := self._doors.get(request.url)) is not None:
            await door.wait()
        planned = self._replies[request.url]
        reply = planned.pop(0) if planned else make_reply(200)
        if isinstance(reply, Exception):
            raise reply
        return reply
