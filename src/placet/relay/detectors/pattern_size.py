"""Estimate the size of a pattern after its repetitions are expanded, as backtracking engines do.

The estimate is an upper bound. If the operand of a repetition is not clear, the largest candidate counts.
"""

import re
from math import prod

MAX_SIZE = 10**18
"""The estimate stops at this size, which is far above every limit."""
_VERBOSE_FLAG = re.compile(r"\(\?[a-zA-Z0-9]*x")
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
    """Return the number of characters and classes of a pattern, each counted for its minimum repetitions."""
    if _VERBOSE_FLAG.search(pattern):
        # In verbose mode, spaces and comments may be anywhere, so each repetition may apply to all of it.
        bare = "".join(pattern.split())
        return min(len(bare) * prod(max(1, int(count)) for count in _COUNT.findall(bare)), MAX_SIZE)
    return _estimate_size(pattern)


def _estimate_size(pattern: str) -> int:
    outer: list[int] = []
    size = last = 0
    for token in _TOKEN.finditer(pattern):
        group = token.lastgroup
        if group == "opening":
            outer.append(size)
            size = last = 0
        elif group == "closing":
            last = max(1, size)
            size = last + (outer.pop() if outer else 0)
        elif group == "count":
            times = max(1, int(token["count"]))  # the engine compiles an operand of {0} as well
            size, last = size + last * (times - 1), last * times
        elif group != "nothing":
            size, last = size + 1, 1
        size, last = min(size, MAX_SIZE), min(last, MAX_SIZE)
    return min(size + sum(outer), MAX_SIZE)
