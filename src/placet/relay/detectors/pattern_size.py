"""How large a pattern becomes once its repetitions are written out, as engines do that backtrack.

The estimate is never too small. Where it cannot be told to what a repetition belongs, it belongs to the most.
"""

import re
from math import prod

MAX_SIZE = 10**18
"""Nobody needs to know by how much a pattern is too large."""
_SPACED = re.compile(r"\(\?[a-zA-Z0-9]*x")
_COUNT = re.compile(r"\{(\d+)")
_TOKEN = re.compile(
    r"""
      (?P<element> \\[pPN]\{[^}]*\} | \\. | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] )
    | (?P<nothing> \(\?\#[^)]*\) | \(\?[a-zA-Z0-9-]+\) )
    | (?P<opening> \((?:\?(?:P?<\w+>|<?[=!]|[:>|]|[a-zA-Z0-9-]+:))? )
    | (?P<closing> \) )
    | \{(?P<count>\d+)(?:,\d*)?\}
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def estimate_expanded_size(pattern: str) -> int:
    """How many characters and classes a pattern is made of, each as often as it is repeated at least."""
    if _SPACED.search(pattern):
        # Blanks and remarks may stand anywhere in it: whatever is repeated may be all of it.
        bare = "".join(pattern.split())
        return min(len(bare) * prod(max(1, int(count)) for count in _COUNT.findall(bare)), MAX_SIZE)
    return _estimate_size(pattern)


def _estimate_size(pattern: str) -> int:
    outer: list[int] = []
    size = last = 0
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "opening":
            outer.append(size)
            size = last = 0
        elif kind == "closing":
            last = max(1, size)
            size = last + (outer.pop() if outer else 0)
        elif kind == "count":
            times = max(1, int(token["count"]))  # what may be left out is there all the same
            size, last = size + last * (times - 1), last * times
        elif kind != "nothing":
            size, last = size + 1, 1
        size, last = min(size, MAX_SIZE), min(last, MAX_SIZE)
    return min(size + sum(outer), MAX_SIZE)
