"""What passes of the headers of an agent's answer: nobody looks at them, so they say nothing of its own."""

import re
from collections.abc import Mapping

from placet.relay.agents.http import Response

EXTENSIONS = ("a2a-extensions", "x-a2a-extensions")
FORMS = {
    "a2a-version": re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,2}){0,2}"),
    "retry-after": re.compile(
        r"[0-9]{1,6}|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
    ),
}
PASSED_BACK = frozenset({*EXTENSIONS, *FORMS})


def passed_back(response: Response, asked: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    """Those of A2A, and when to come back; of extensions those that were asked for."""
    headers = response.headers
    if PASSED_BACK.isdisjoint(headers):
        return ()
    found = [(name, _formal(name, headers.get(name, ""), asked)) for name in sorted(PASSED_BACK)]
    return tuple((name.encode(), value.encode("latin-1", "replace")) for name, value in found if value)


def _formal(name: str, value: str, asked: Mapping[str, str]) -> str:
    form = FORMS.get(name)
    if form is not None:
        return value if form.fullmatch(value) else ""
    wanted = {one.strip() for key in EXTENSIONS for one in asked.get(key, "").split(",")}
    return ", ".join(one for one in map(str.strip, value.split(",")) if one in wanted)
