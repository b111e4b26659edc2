"""Delivery of callbacks by HTTP POST."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime

from msgspec.structs import replace

from placet.deliveries.guarded_http import GuardedHttp
from placet.errors import AddressRefused, Unreachable
from placet.ports.courier import DeliveryReply, OutgoingRequest

# Standard Webhooks, "Request timeouts": 15 to 30 seconds.
RESPONSE_TIMEOUT = timedelta(seconds=20)
MAX_RETRY_AFTER = timedelta(hours=24)


class WebhookCourier:
    """A `Courier` that POSTs to checked addresses. It does not read the body of the response."""

    def __init__(self, http: GuardedHttp, *, timeout_for: timedelta = RESPONSE_TIMEOUT) -> None:
        self._http = http
        self._timeout_for = timeout_for

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """POST once. Failures are in the reply, a forbidden address as `refused`."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        reply = await self._attempt(request)
        return replace(reply, took_for=timedelta(seconds=loop.time() - started))

    async def _attempt(self, request: OutgoingRequest) -> DeliveryReply:
        try:
            answer = await self._http.request(
                "POST",
                request.url,
                body=request.body,
                headers=request.headers,
                timeout_for=self._timeout_for,
                max_bytes=0,
            )
        except AddressRefused as refusal:
            return DeliveryReply(status=None, error=refusal.message, took_for=timedelta(0), refused=True)
        except Unreachable as failure:
            return DeliveryReply(status=None, error=failure.message, took_for=timedelta(0))
        retry_after = read_retry_after(answer.headers)
        return DeliveryReply(status=answer.status, error=None, took_for=timedelta(0), retry_after=retry_after)


def read_retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return the delay of a Retry-After header, at most a day, or None if it is missing or invalid.

    A date is measured from the reply's own `Date`, so that neither clock has to be right.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(timedelta(seconds=int(value[:9])), MAX_RETRY_AFTER)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wait, timedelta(0)), MAX_RETRY_AFTER)
