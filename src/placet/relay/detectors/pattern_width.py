"""Compute how many characters a match of a pattern can have, with what it looks at around itself.

A stream is released behind a window of this width. So the result is an upper bound, and None for everything
that is not certain: unbounded repetitions, anchors, back-references and syntax that only one engine knows.
"""

import re
from functools import lru_cache

from msgspec import Struct

MAX_WIDTH = 2_000
"""Wider patterns count as unbounded."""
_TOKEN = re.compile(
    r"""
      (?P<character>
          \\[dDsSwW] | \\[tnrfva] | \\[^0-9A-Za-z_\s]
        | \\[pP](?:\{\^?\w+\}|[A-Z]) | \\x(?:[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]{1,6}\})
        | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]
      )
    | (?P<boundary> \\[bB] )
    | (?P<repeat> (?: [*+?] | \{(?P<least>\d{1,4})(?P<open_end>,(?P<most>\d{0,4}))?\} ) [?+]? )
    | (?P<flags> \(\?[ims]+\) )
    | (?P<opening> \((?!\?) | \(\?(?:P?<\w+>|:|<?[=!]|[ims]+:) )
    | (?P<closing> \) )
    | (?P<either> \| )
    | (?P<literal> [^\\()\[{*+?^$|] )
    """,
    re.VERBOSE | re.DOTALL,
)


class _Group(Struct):
    """A group that is being read: its widest alternative, the current one, and its last item."""

    widest: int = 0
    width: int = 0
    last: int = 0

    def append(self, width: int) -> None:
        self.width += width
        self.last = width

    def repeat(self, times: int) -> None:
        self.width += self.last * (times - 1)
        self.last *= times

    def start_alternative(self) -> None:
        self.widest, self.width, self.last = self.close(), 0, 0

    def close(self) -> int:
        return max(self.widest, self.width)


@lru_cache(maxsize=10_000)
def compute_pattern_width(pattern: str) -> int | None:
    """Return the maximum number of characters that decide a match, or None if it is not bounded.

    This includes what look-arounds read, but not the one character on each side that `\\b` reads.
    """
    groups = [_Group()]
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            return None
        position = token.end()
        group = groups[-1]
        kind = token.lastgroup
        if token["character"] or token["literal"]:
            group.append(1)
        elif token["repeat"]:
            times = _count_repetitions(token)
            if times is None and group.last:
                return None
            group.repeat(times or 1)
        elif kind == "opening":
            groups.append(_Group())
        elif kind == "closing":
            if len(groups) == 1:
                return None
            groups[-2].append(groups.pop().close())
        elif kind == "either":
            group.start_alternative()
        elif kind == "boundary":
            group.append(0)
        if groups[-1].width > MAX_WIDTH:
            return None
    return groups[0].close() if len(groups) == 1 else None


def _count_repetitions(token: "re.Match[str]") -> int | None:
    """Return the maximum number of repetitions, at least 1, or None if there is none."""
    if token["least"] is None:
        return 1 if token["repeat"].startswith("?") else None
    if token["open_end"] is None:
        return max(1, int(token["least"]))
    return max(1, int(token["most"])) if token["most"] else None
