"""What a run found: one figure for each row and size of store, and how the figures grow."""

from collections.abc import Sequence

from msgspec import Struct

from bench.measure import Comparison
from bench.rows import GROWTH_BOUND, ROWS, Row


class Figure(Struct, frozen=True, kw_only=True):
    """One row at one size: `value` is what the bound is on, a ratio to the bare app or a size.

    The bound holds for the smaller store; what a larger one may lose is a bound of its own.
    """

    row: str
    stored: int
    value: float
    bounded: bool
    comparison: Comparison | None = None
    by_cpu: float | None = None
    """The same value, from the processor's time alone."""
    trouble: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the bound holds and nothing odd was seen."""
        return self.trouble is None and (not self.bounded or ROWS[self.row].holds(self.value))


class Growth(Struct, frozen=True, kw_only=True):
    """The same row with few and with many cases stored; above 1 the large store is worse."""

    row: str
    few: Figure
    many: Figure

    @property
    def times(self) -> float:
        """How many times worse it gets."""
        better_when_high = ROWS[self.row].at_most is None and ROWS[self.row].unit == "/s"
        worse, better = (self.few, self.many) if better_when_high else (self.many, self.few)
        return worse.value / better.value if better.value else float("inf")

    @property
    def bounded(self) -> bool:
        """Whether the row has a bound at all; the others are told for information."""
        return has_bound(ROWS[self.row])

    @property
    def ok(self) -> bool:
        """Whether it grows within the bound."""
        return not self.bounded or self.times < GROWTH_BOUND


class Cycle(Struct, frozen=True, kw_only=True):
    """What one contestant took to be stopped, approved and resumed; medians."""

    name: str
    storage: str
    calls: int
    wall_ms: float
    cpu_ms: float


class Report(Struct, frozen=True, kw_only=True):
    """Everything a run found, with when and where."""

    at: str
    machine: str
    load_before: float
    connections: int
    filled: dict[str, float]
    figures: list[Figure]
    cycles: list[Cycle] = []

    @property
    def growth(self) -> list[Growth]:
        """Rows that were measured at more than one size, the smallest against the largest."""
        return measure_growth(self.figures)

    @property
    def ok(self) -> bool:
        """Whether every bound holds."""
        return all(one.ok for one in self.figures) and all(one.ok for one in self.growth)


def has_bound(row: Row) -> bool:
    """Whether missing it fails the run."""
    return row.at_least is not None or row.at_most is not None


def measure_growth(figures: Sequence[Figure]) -> list[Growth]:
    """Each row's smallest store against its largest."""
    found = []
    for name in ROWS:
        sizes = sorted((one for one in figures if one.row == name), key=lambda one: one.stored)
        if len(sizes) > 1:
            found.append(Growth(row=name, few=sizes[0], many=sizes[-1]))
    return found
