"""Find the common subsequence of two sequences in bounded time, even for hostile input."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

MAX_CELLS = 25_000_000
MAX_DEPTH = 8

Block = tuple[int, int, int]
Region = tuple[int, int, int, int]


def find_matching_blocks(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Block]:
    """Return the common runs as (start in old, start in new, length), ascending.

    The result is exact for sequences of a few thousand parts. Longer ones are split at parts that occur once
    in each, and what cannot be split counts as replaced, so that time and memory stay bounded.
    """
    return sorted(_list_blocks(old, new))


def _list_blocks(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[Block]:
    cells = MAX_CELLS
    regions: list[tuple[Region, int]] = [((0, len(old), 0, len(new)), 0)]
    while regions:
        whole, depth = regions.pop()
        region, ends = _trim(old, new, whole)
        yield from ends
        a, b, c, d = region
        size = (b - a) * (d - c)
        if size == 0:
            continue
        if size <= cells:
            cells -= size
            yield from _find_longest_common(old, new, region)
        elif depth < MAX_DEPTH:
            regions += [
                (part, depth + 1) for part in _list_regions_between(_list_anchors(old, new, region), region)
            ]


def _trim(old: Sequence[Hashable], new: Sequence[Hashable], region: Region) -> tuple[Region, list[Block]]:
    """Return the region without its common start and end, and these two runs."""
    a, b, c, d = region
    head = 0
    while a + head < b and c + head < d and old[a + head] == new[c + head]:
        head += 1
    tail = 0
    while a + head < b - tail and c + head < d - tail and old[b - tail - 1] == new[d - tail - 1]:
        tail += 1
    ends = [(a, c, head), (b - tail, d - tail, tail)]
    return (a + head, b - tail, c + head, d - tail), [block for block in ends if block[2]]


def _find_longest_common(old: Sequence[Hashable], new: Sequence[Hashable], region: Region) -> Iterator[Block]:
    """Compute the longest common subsequence; each row of the table is one bit mask."""
    a, b, c, d = region
    positions: dict[Hashable, int] = {}
    for position, part in enumerate(new[c:d]):
        positions[part] = positions.get(part, 0) | (1 << position)
    full = (1 << (d - c)) - 1
    row, rows = full, [full]
    for part in old[a:b]:
        hits = row & positions.get(part, 0)
        row = ((row + hits) | (row - hits)) & full
        rows.append(row)
    return _trace_back(rows, b - a, d - c, a, c)


def _trace_back(rows: list[int], i: int, j: int, a: int, c: int) -> Iterator[Block]:
    """Yield the matches from the last row to the first; a cleared bit marks where the length grows."""
    while i and j:
        if rows[i] >> (j - 1) & 1:
            j -= 1
            continue
        i -= 1
        if i and not rows[i] >> (j - 1) & 1:
            continue
        j -= 1
        yield (a + i, c + j, 1)


def _list_anchors(old: Sequence[Hashable], new: Sequence[Hashable], region: Region) -> list[tuple[int, int]]:
    """Return the parts that occur once on each side, as many as are in the same order on both."""
    a, b, c, d = region
    once = _find_singles(new, c, d)
    pairs = [(i, once[part]) for part, i in _find_singles(old, a, b).items() if part in once]
    return _find_longest_rising_run(sorted(pairs))


def _find_singles(parts: Sequence[Hashable], start: int, end: int) -> dict[Hashable, int]:
    counts = Counter(parts[start:end])
    return {parts[position]: position for position in range(start, end) if counts[parts[position]] == 1}


def _find_longest_rising_run(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs whose second positions increase with their first."""
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, position) in enumerate(pairs):
        pile = bisect_left(tops, position)
        before.append(ends[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [position]
        ends[pile : pile + 1] = [number]
    rising = []
    number = ends[-1] if ends else -1
    while number >= 0:
        rising.append(pairs[number])
        number = before[number]
    return rising[::-1]


def _list_regions_between(anchors: list[tuple[int, int]], region: Region) -> list[Region]:
    """Return the regions between anchors; each begins with its anchor, which is then trimmed off."""
    if not anchors:
        return []
    a, b, c, d = region
    starts = [(a, c), *anchors]
    ends = [*anchors, (b, d)]
    return [(start, end, from_, to) for (start, from_), (end, to) in zip(starts, ends, strict=True)]
