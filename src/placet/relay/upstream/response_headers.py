"""Choose the headers of an agent's response that callers receive; policies do not inspect them."""

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
    response: UpstreamResponse, asked: Mapping[str, str]
) -> tuple[tuple[bytes, bytes], ...]:
    """Those of A2A, and when to come back; of extensions those that were asked for."""
    headers = response.headers
    if RESPONSE_HEADERS.isdisjoint(headers):
        return ()
    found = [(name, _filter_value(name, headers.get(name, ""), asked)) for name in sorted(RESPONSE_HEADERS)]
    return tuple((name.encode(), value.encode("latin-1", "replace")) for name, value in found if value)


def _filter_value(name: str, value: str, asked: Mapping[str, str]) -> str:
    form = HEADER_PATTERNS.get(name)
    if form is not None:
        return value if form.fullmatch(value) else ""
    wanted = {one.strip() for key in EXTENSION_HEADERS for one in asked.get(key, "").split(",")}
    return ", ".join(one for one in map(str.strip, value.split(",")) if one in wanted)
