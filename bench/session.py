"""One size of store, measured: fill it, then one server process after the other answers for its rows."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from bench.figures import Figure, has_bound
from bench.load import CONNECTIONS
from bench.measure import Comparison, compare
from bench.pages import Pages
from bench.process import Server, run_server
from bench.rows import LISTENERS, PAGE_ROWS, ROWS, STREAMS
from bench.stock import Stock, fill
from bench.streams import spread, weigh
from bench.traffic import Requests

KNOWN = 20_000  # open cases whose ids the bench is told
STREAM_ROWS = ("streams", "fan_out")


class Pace(Struct, frozen=True, kw_only=True):
    """How long to look at each row, and over how many connections."""

    rounds: int
    seconds: int
    connections: int = CONNECTIONS


Say = Callable[[str], None]


class Session:
    """Measures rows on one database."""

    def __init__(self, folder: Path, stored: int, pace: Pace, *, bounded: bool, say: Say) -> None:
        self._folder = folder
        self._db = folder / "bench.db"
        self._stored = stored
        self._pace = pace
        self._bounded = bounded
        self._say = say

    def fill(self) -> Stock:
        """Store the cases."""
        stock = fill(self._db, cases=self._stored, known=KNOWN)
        size = self._db.stat().st_size / 2**20
        self._say(f"{self._stored:,} cases stored in {stock.seconds:.0f} s, {size:,.0f} MiB")
        return stock

    def measure(self, stock: Stock, rows: Sequence[str]) -> Iterator[Figure]:
        """The rows in the order of the table; streams have a process to themselves, to weigh them fresh."""
        pace = self._pace
        requests = Requests(self._folder, self._db, stock, seconds=pace.seconds, connections=pace.connections)
        streaming = [name for name in rows if name in STREAM_ROWS]
        if streaming:
            with run_server(self._db) as server:
                yield from (self._report_figure(self._stream_row(server, name, stock)) for name in streaming)
        answering = [name for name in rows if name not in (*STREAM_ROWS, *PAGE_ROWS)]
        if answering:
            with run_server(self._db) as server:
                yield from (
                    self._report_figure(self._request_row(server, name, requests)) for name in answering
                )

        # What a page costs does not depend on how many cases are stored.
        reading = [name for name in rows if name in PAGE_ROWS and self._bounded]
        if reading:
            with run_server(self._db) as server:
                pages = Pages(server, stock.key)
                yield from (self._report_figure(self._figure(name, pages.measure(name))) for name in reading)

    def _stream_row(self, server: Server, name: str, stock: Stock) -> Figure:
        if name == "fan_out":
            value = asyncio.run(spread(server, stock.key, LISTENERS)).p99_ms
        else:
            ids = [one.case_id for one in stock.open_cases]
            value = asyncio.run(weigh(server, stock.key, ids, STREAMS))
        return self._figure(name, value)

    def _request_row(self, server: Server, name: str, requests: Requests) -> Figure:
        pair = requests.pair(name, server)
        before = server.statuses()
        found = compare(server, pair.real, pair.bare, rounds=self._pace.rounds, seconds=self._pace.seconds)
        odd = _odd_answers(before, server.statuses(), pair.answers)
        trouble = f"unexpected answers: {odd}" if odd else None
        if found.broken:
            trouble = f"{found.broken} requests failed or were refused"
        return self._figure(name, found.ratio, found, trouble)

    def _figure(
        self, name: str, value: float, found: Comparison | None = None, trouble: str | None = None
    ) -> Figure:
        return Figure(
            row=name,
            stored=self._stored,
            value=value,
            bounded=self._bounded and has_bound(ROWS[name]),
            comparison=found,
            trouble=trouble,
        )

    def _report_figure(self, figure: Figure) -> Figure:
        row, found = ROWS[figure.row], figure.comparison
        if found is None:
            self._say(f"  {row.title}: {figure.value:.1f} {row.unit}")
        else:
            self._say(f"  {row.title}: {found.per_second:,.0f}/s, {figure.value:.2f} of bare")
        return figure


Statuses = dict[tuple[str, str], int]


def _odd_answers(before: Statuses, after: Statuses, expected: frozenset[tuple[str, str]]) -> str:
    """What the server answered meanwhile besides what was expected, by its own count."""
    given = {key: count - before.get(key, 0) for key, count in after.items() if key[0] != "/metrics"}
    if not any(given.get(key) for key in expected):
        return "none of those expected"
    odd = {key: count for key, count in given.items() if count and key not in expected}
    return ", ".join(f"{count} × {status} on {route}" for (route, status), count in odd.items())
