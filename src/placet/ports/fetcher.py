"""The interface to read documents at URLs from outside."""

from datetime import timedelta
from typing import Protocol

from msgspec import Struct


class FetchedReply(Struct, frozen=True, kw_only=True):
    """The response, with any status."""

    status: int
    content_type: str | None
    body: bytes
    truncated: bool = False
    """Whether the body was longer than the caller's limit."""


class Fetcher(Protocol):
    """Reads documents. Their addresses and contents are not trusted."""

    async def fetch(
        self, url: str, *, timeout_for: timedelta, max_bytes: int, bearer: str | None = None
    ) -> FetchedReply:
        """Get `url` once, without following redirects, and with no credential but a `bearer` made for it.

        Raises `AddressRefused` for an address that may not be called, and `Unreachable` when no complete
        answer came in time.
        """
        ...
