"""The seam to documents elsewhere: whatever a URL from outside points to is read through it."""

from datetime import timedelta
from typing import Protocol

from msgspec import Struct


class FetchedReply(Struct, frozen=True, kw_only=True):
    """What the other side answered, whatever its status."""

    status: int
    content_type: str | None
    body: bytes
    truncated: bool = False
    """Set when there was more than the caller wanted to read."""


class Fetcher(Protocol):
    """Reads documents without trusting their addresses or their contents."""

    async def fetch(self, url: str, *, timeout_for: timedelta, max_bytes: int) -> FetchedReply:
        """Get `url` once, without credentials and without following redirects.

        Raises `AddressRefused` for an address that may not be called, and `Unreachable` when no complete
        answer came in time.
        """
        ...
