"""The seam to other machines: a courier takes one message to one address and says how it went."""

from datetime import timedelta
from typing import Protocol

from msgspec import Struct


class OutgoingRequest(Struct, frozen=True, kw_only=True):
    """One message, ready to travel: its bytes and headers are fixed, signatures included."""

    url: str
    body: bytes
    headers: dict[str, str]
    last: bool = False
    """Whether no other attempt follows if this one fails."""


class DeliveryReply(Struct, frozen=True, kw_only=True):
    """How one attempt went; nothing of the answer's body is in it."""

    status: int | None
    """None when no answer came."""
    error: str | None
    """What went wrong, in our own words; None when an answer came."""
    took_for: timedelta
    retry_after: timedelta | None = None
    """How long the receiver asked us to wait."""
    refused: bool = False
    """The address may not be called, now or later."""
    under_way: bool = False
    """The message arrived and is being worked on: look again after `retry_after`, and count no attempt."""


class Courier(Protocol):
    """Delivers messages to machines; channels are for people."""

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Make one attempt. Failures on the way are replies, not exceptions."""
        ...
