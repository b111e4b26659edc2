"""A choice among combinations of parameters in which every value, or every pair of values, occurs."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

Row = Mapping[str, object]
Cover = frozenset[tuple[str, object]]


def choose_rows(rows: Sequence[Row], *, strength: int) -> list[int]:
    """Return the positions of rows that together contain every combination of `strength` values that occurs.

    A row maps the name of a parameter to its value. With strength 1 every value of every parameter is in some
    chosen row; with strength 2 every pair of values of two parameters is. The choice is greedy and always the
    same for the same rows.
    """
    covers = [set(_covers(row, strength)) for row in rows]
    missing = set[Cover]().union(*covers)
    chosen: list[int] = []
    while missing:
        best = max(range(len(rows)), key=lambda position: (len(covers[position] & missing), -position))
        chosen.append(best)
        missing -= covers[best]
    return sorted(chosen)


def _covers(row: Row, strength: int) -> Iterable[Cover]:
    return map(frozenset, combinations(row.items(), min(strength, len(row))))
