"""Who is asking: a service that embeds Placet brings its own answer."""

from typing import Protocol

from msgspec import Struct

INBOX = "inbox"
"""Lets a person decide what the key's own principal asks."""
INBOX_ALL = "inbox:all"
"""Lets a person decide what anyone asks here."""
ALL_SCOPES = ("cases:write", "cases:read", INBOX, INBOX_ALL, "admin")


class Principal(Struct, frozen=True, kw_only=True):
    """Someone who may open and follow cases; None as a name is the anonymous one of a demo."""

    name: str | None
    scopes: frozenset[str] = frozenset({"cases:write", "cases:read"})


class Authenticator(Protocol):
    """Turns a request into a principal."""

    async def __call__(self, headers: dict[bytes, bytes]) -> Principal:
        """The principal behind these headers; raises InvalidToken."""
        ...
