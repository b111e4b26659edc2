"""Two kinds of traffic against each other, in short slices by turns, so that noise hits both alike."""

import statistics
from collections.abc import Callable, Sequence

from msgspec import Struct

from bench.load import CONNECTIONS, Load, drive
from bench.process import Server


class Traffic(Struct, frozen=True, kw_only=True):
    """Which requests to send: a script, its arguments and the headers of all."""

    script: str
    arguments: Sequence[str]
    headers: Sequence[str] = ()
    most: int | None = None
    """How many requests there are, if they cannot be repeated."""
    connections: int = CONNECTIONS


class Slice(Struct, frozen=True, kw_only=True):
    """One short run: what the client saw and what the server spent."""

    load: Load
    cpu_us: float
    busy: float


class Comparison(Struct, frozen=True, kw_only=True):
    """Medians over all slices; `ratio` is the median of the ratios of neighbours."""

    ratio: float
    cpu_ratio: float
    per_second: float
    bare_per_second: float
    cpu_us: float
    bare_cpu_us: float
    p50_ms: float
    p99_ms: float
    busy: float
    broken: int


TrafficOf = Callable[[int], Traffic]


def compare(server: Server, real: TrafficOf, bare: TrafficOf, *, rounds: int, seconds: int) -> Comparison:
    """Run real, bare, real, bare …; each gets the number of its slice."""
    pairs = [
        (run(server, real(number), seconds), run(server, bare(number), seconds)) for number in range(rounds)
    ]
    return summarize_slices(pairs)


def summarize_slices(pairs: Sequence[tuple[Slice, Slice]]) -> Comparison:
    """What came of slices of real and of bare traffic, each real one with its bare neighbour."""
    reals, bares = zip(*pairs, strict=True)
    return Comparison(
        ratio=_median([one.load.per_second / other.load.per_second for one, other in pairs]),
        cpu_ratio=_median([other.cpu_us / one.cpu_us for one, other in pairs]),
        per_second=_median([one.load.per_second for one in reals]),
        bare_per_second=_median([one.load.per_second for one in bares]),
        cpu_us=_median([one.cpu_us for one in reals]),
        bare_cpu_us=_median([one.cpu_us for one in bares]),
        p50_ms=_median([one.load.p50_ms for one in reals]),
        p99_ms=_median([one.load.p99_ms for one in reals]),
        busy=_median([one.busy for one in reals]),
        broken=sum(one.load.failed + one.load.refused for one in (*reals, *bares)),
    )


def run(server: Server, traffic: Traffic, seconds: int) -> Slice:
    """One slice."""
    before = server.usage()
    load = drive(
        server.url,
        traffic.script,
        traffic.arguments,
        headers=traffic.headers,
        seconds=seconds,
        connections=traffic.connections,
    )
    spent = server.usage().cpu_s - before.cpu_s
    if traffic.most is not None and load.requests >= traffic.most:
        raise RuntimeError(f"All {traffic.most:,} requests were sent before the time was up; use --seconds.")
    return Slice(load=load, cpu_us=spent / max(load.requests, 1) * 1e6, busy=spent / load.seconds)


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)
