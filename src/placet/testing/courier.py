"""A courier for tests that records requests and returns scripted replies."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from placet.ports.courier import DeliveryReply, OutgoingRequest


def make_reply(status: int, *, retry_after: timedelta | None = None) -> DeliveryReply:
    """Return the reply of a receiver with this status."""
    return DeliveryReply(status=status, error=None, took_for=timedelta(0), retry_after=retry_after)


NO_ANSWER = DeliveryReply(status=None, error="no response", took_for=timedelta(0))
FORBIDDEN = DeliveryReply(status=None, error="may not be called", took_for=timedelta(0), refused=True)


class RecordingCourier:
    """A Courier that records requests. Receivers reply 200 unless another reply is expected."""

    def __init__(self) -> None:
        self.requests: list[OutgoingRequest] = []
        self._replies: dict[str, list[DeliveryReply | Exception]] = defaultdict(list)
        self._delays: dict[str, asyncio.Event] = {}
        self._request_added = asyncio.Condition()

    def expect(self, url: str, *replies: DeliveryReply | Exception) -> None:
        """Reply to the next attempts at this URL with these, one each. An exception is raised."""
        self._replies[url].extend(replies)

    @contextmanager
    def holding(self, url: str) -> Iterator[None]:
        """Delay the replies of the receiver at this URL until the context ends."""
        self._delays[url] = asyncio.Event()
        try:
            yield
        finally:
            self._delays.pop(url).set()

    def list_requests_to(self, url: str) -> list[OutgoingRequest]:
        """Return the requests sent to this URL so far."""
        return [request for request in self.requests if request.url == url]

    async def until(self, holds: Callable[[], bool], *, within: float = 20) -> None:
        """Wait until the condition is true. Raises TimeoutError after `within` seconds."""
        async with asyncio.timeout(within), self._request_added:
            await self._request_added.wait_for(holds)

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Record the request and return the next reply."""
        self.requests.append(request)
        async with self._request_added:
            self._request_added.notify_all()
        if (delay := self._delays.get(request.url)) is not None:
            await delay.wait()
        planned = self._replies[request.url]
        reply = planned.pop(0) if planned else make_reply(200)
        if isinstance(reply, Exception):
            raise reply
        return reply
