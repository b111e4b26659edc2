"""The interface to other machines: a courier sends one message to one address."""

from datetime import timedelta
from typing import Protocol

from msgspec import Struct


class OutgoingRequest(Struct, frozen=True, kw_only=True):
    """One message, ready to send, with its signatures."""

    url: str
    body: bytes
    headers: dict[str, str]
    last: bool = False
    """Whether this is the last attempt."""


class DeliveryReply(Struct, frozen=True, kw_only=True):
    """The outcome of one attempt, without the body of the response."""

    status: int | None
    """The HTTP status; None without a response."""
    error: str | None
    """What went wrong, without text of the receiver; None if there was a response."""
    took_for: timedelta
    retry_after: timedelta | None = None
    """How long the receiver asks to wait."""
    refused: bool = False
    """Whether the address is forbidden, so that a retry is useless."""
    under_way: bool = False
    """Whether the receiver still processes the message: retry after `retry_after`, without counting it."""


class Courier(Protocol):
    """Delivers messages to machines. Channels deliver to people."""

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Make one attempt. Failures are replies, not exceptions."""
        ...
