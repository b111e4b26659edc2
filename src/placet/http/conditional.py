"""Conditional requests (RFC 9110, 13): If-None-Match saves a reply, If-Match protects a change."""

from placet.errors import RelayConflict
from placet.protocol.conversion import quote


def find_match(header: bytes, *etags: bytes) -> bytes | None:
    """Return the first of these ETags that an If-None-Match header names, or None.

    Lists, weak tags and `*` are understood.
    """
    if header == etags[0] or header.strip() == b"*":
        return etags[0]
    named = {one.strip().removeprefix(b"W/") for one in header.split(b",")}
    return next((etag for etag in etags if etag in named), None)


def check_if_match(if_match: str | None, current: int | str) -> None:
    """Raise RelayConflict if an If-Match header names another revision than the current one."""
    if if_match is None:
        return
    named = [one.strip().strip('"') for one in if_match.split(",")]
    if "*" in named or str(current) in named:
        return
    raise RelayConflict(
        f"If-Match is {quote(if_match)}, but the current revision is {current}. Read it again.",
        current=str(current),
    )
