"""Compute how many characters of a text decide a match of a pattern, and how a match may begin.

A stream is released behind a window of this width. So the width is an upper bound, and None for everything
that is not certain: unbounded repetitions, anchors, back-references and syntax that only one engine knows.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

MAX_WIDTH = 2_000
"""Wider patterns count as unbounded."""
MAX_COUNTED = 8
"""A repetition of more characters counts as unbounded in the beginning of a match."""
_TOKEN = re.compile(
    r"""
      (?P<character>
          \\[dDsSwW] | \\[tnrfva] | \\[^0-9A-Za-z_\s]
        | \\[pP](?:\{\^?\w+\}|[A-Z]) | \\x(?:[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]{1,6}\})
        | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]
      )
    | (?P<boundary> \\[bB] )
    | (?P<repeat> (?: [*+?] | \{(?P<least>\d{1,4})(?P<open_end>,(?P<most>\d{0,4}))?\} ) [?+]? )
    | \(\? (?P<flags> [ims]+ ) \)
    | (?P<opening> \((?!\?) | \(\?(?:P?<\w+>|:|(?P<look><?[=!])|(?P<inner>[ims]+):) )
    | (?P<closing> \) )
    | (?P<either> \| )
    | (?P<literal> [^\\()\[{*+?^$|] )
    """,
    re.VERBOSE | re.DOTALL,
)


class _Item(Struct):
    """A part of a pattern: a character or class, a group, a boundary or flags."""

    source: str = ""
    """As in the pattern, without its repetition."""
    repeat: str = ""
    least: int = 1
    most: int | None = 1
    """None for an unbounded repetition."""
    flags: str = ""
    """The flags that apply to the items after this one, or inside of a group."""
    is_boundary: bool = False
    is_look: bool = False
    alternatives: "list[list[_Item]] | None" = None
    """The contents of a group."""

    @property
    def whole(self) -> str:
        return self.source + self.repeat

    def set_repeat(self, token: "re.Match[str]") -> None:
        """Repeat the item as the token says."""
        self.repeat = token["repeat"]
        if token["least"] is not None:
            self.least = int(token["least"])
            if token["open_end"] is None:
                self.most = self.least
            else:
                self.most = int(token["most"]) if token["most"] else None
        else:
            self.least = 1 if token["repeat"].startswith("+") else 0
            self.most = 1 if token["repeat"].startswith("?") else None


@lru_cache(maxsize=10_000)
def compute_pattern_width(pattern: str) -> int | None:
    """Return the maximum number of characters that decide a match, or None if it is not bounded.

    This includes what look-arounds read, but not the one character on each side that `\\b` reads.
    """
    alternatives = _parse(pattern)
    if alternatives is None:
        return None
    width = _measure(alternatives)
    return width if width is None or width <= MAX_WIDTH else None


def build_beginning(pattern: str) -> str | None:
    """Return a pattern that matches every beginning of a match, and the empty text. None if there is none.

    It may match more: long repetitions are not counted. The pattern must be bounded and one of RE2.
    """
    alternatives = _parse(pattern)
    if alternatives is None:
        return None
    try:
        return _begin_alternatives(alternatives)
    except (_HasLookAround, RecursionError):
        return None


class _HasLookAround(Exception):
    """The pattern has a look-around, which RE2 does not support."""


def _parse(pattern: str) -> list[list[_Item]] | None:
    """Return the alternatives of the pattern, or None if it has syntax that is not certain."""
    levels: list[list[list[_Item]]] = [[[]]]
    openings: list[tuple[int, str, bool]] = []
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            return None
        items = levels[-1][-1]
        if token["repeat"]:
            if not items or items[-1].repeat:
                return None
            items[-1].set_repeat(token)
        elif token["opening"]:
            openings.append((position, token["inner"] or "", token["look"] is not None))
            levels.append([[]])
        elif token["closing"]:
            if not openings:
                return None
            start, flags, is_look = openings.pop()
            source = pattern[start : token.end()]
            group = _Item(source=source, flags=flags, is_look=is_look, alternatives=levels.pop())
            levels[-1][-1].append(group)
        elif token["either"]:
            levels[-1].append([])
        elif token["flags"]:
            items.append(_Item(source=token[0], flags=token["flags"]))
        else:
            items.append(_Item(source=token[0], is_boundary=token["boundary"] is not None))
        position = token.end()
    return levels[0] if not openings else None


def _measure(alternatives: Sequence[Sequence[_Item]]) -> int | None:
    """Return the width of the widest alternative, or None if it is not bounded."""
    widest = 0
    for items in alternatives:
        width = 0
        for item in items:
            once = _measure_once(item)
            if once is None or (item.most is None and once):
                return None
            width += once * max(1, item.most or 1)
        widest = max(widest, width)
    return widest


def _measure_once(item: _Item) -> int | None:
    if item.alternatives is not None:
        return _measure(item.alternatives)
    return 0 if item.is_boundary or item.flags else 1


def _begin_alternatives(alternatives: Sequence[Sequence[_Item]]) -> str:
    return "|".join(_begin_items(items, 0) for items in alternatives)


def _begin_items(items: Sequence[_Item], index: int) -> str:
    """Return a pattern for every beginning of a sequence of items."""
    if index == len(items):
        return ""
    item, rest = items[index], _begin_items(items, index + 1)
    if item.is_look:
        raise _HasLookAround
    if item.is_boundary:
        return f"(?:{item.whole}(?:{rest}))?"
    if item.alternatives is None and item.flags:
        return f"(?{item.flags}:{rest})"
    if item.alternatives is None:
        is_long = item.most is None or item.most > MAX_COUNTED
        once = f"{item.source}*" if is_long else item.whole
        begun = "" if item.most == 1 else f"{item.source}*" if is_long else f"{item.source}{{0,{item.most}}}"
        return f"(?:{begun}|{once}(?:{rest}))"
    inner = f"(?{item.flags}:{_begin_alternatives(item.alternatives)})"
    again = "" if item.most == 1 else f"(?:{item.source})*"
    return f"(?:{again}{inner}|{item.whole}(?:{rest}))"
