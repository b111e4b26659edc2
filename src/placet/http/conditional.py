"""Conditional requests (RFC 9110, 13): If-None-Match saves a reply, If-Match protects a change."""

from placet.errors import RelayConflict
from placet.protocol.conversion import quote


def none_match(header: bytes, etag: bytes) -> bool:
    """Return whether an If-None-Match header names this ETag; lists, weak tags and `*` are understood."""
    if header == etag:
        return True
    if header.strip() == b"*":
        return True
    return any(one.strip().removeprefix(b"W/") == etag for one in header.split(b","))


def check_if_match(if_match: str | None, current: int | str) -> None:
    """Raise RelayConflict if an If-Match header names another revision than the current one."""
    if if_match is None:
        return
    named = [one.strip().strip('"') for one in if_match.split(",")]
    if "*" in named or str(current) in named:
        return
    raise RelayConflict(
        f"If-Match says {quote(if_match)}, and this is {current} by now; look again.", current=str(current)
    )
