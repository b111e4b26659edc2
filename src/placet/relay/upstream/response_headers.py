"""Select the headers of an agent's response that callers receive. Policies do not inspect headers."""

import re
from collections.abc import Mapping

from placet.relay.upstream.http_client import UpstreamResponse

EXTENSION_HEADERS = ("a2a-extensions", "x-a2a-extensions")
HEADER_PATTERNS = {
    "a2a-version": re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,2}){0,2}"),
    "retry-after": re.compile(
        r"[0-9]{1,6}|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
    ),
}
RESPONSE_HEADERS = frozenset({*EXTENSION_HEADERS, *HEADER_PATTERNS})


def select_response_headers(
    response: UpstreamResponse, request_headers: Mapping[str, str]
) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of A2A and `retry-after`; of extensions, those that the request named."""
    headers = response.headers
    if RESPONSE_HEADERS.isdisjoint(headers):
        return ()
    found = [
        (name, _filter_value(name, headers.get(name, ""), request_headers))
        for name in sorted(RESPONSE_HEADERS)
    ]
    return tuple((name.encode(), value.encode("latin-1", "replace")) for name, value in found if value)


def _filter_value(name: str, value: str, request_headers: Mapping[str, str]) -> str:
    pattern = HEADER_PATTERNS.get(name)
    if pattern is not None:
        return value if pattern.fullmatch(value) else ""
    requested = {one.strip() for key in EXTENSION_HEADERS for one in request_headers.get(key, "").split(",")}
    return ", ".join(one for one in map(str.strip, value.split(",")) if one in requested)
