"""`python -m bench.profile create|poll|respond`: where the server's time goes, request by request.

The server runs under load twice: once as it is, for what a request costs, and once under cProfile, for how
that splits. What the profiler itself costs is measured and taken off again.
"""

import argparse
import cProfile
import pstats
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.measure import Traffic, run
from bench.process import Server, run_server
from bench.stock import fill
from bench.table import align_cells
from bench.traffic import Requests

OPERATIONS = ("poll", "create", "respond")
STORED = 1_000
CALLS = 200_000
TOP = 12

Function = tuple[str, int, str]
Entry = tuple[int, int, float, float, dict[Function, tuple[int, int, float, float]]]

WAITING = "waiting for the disk"
HTTP = "HTTP: uvicorn, httptools, uvloop"
SERVER = "server: routes, credentials, headers, counting"
JSON = "JSON in and out"
RULES = "rules: desk, kinds, machine, protocol"
DIGESTS = "digests and random numbers"
SIGNATURE = "the signature and its envelope"
STORE = "SQLite and the rows around it"
THREAD = "the thread that syncs the disk"
REST = "the rest of Python"

# What is not Python is sorted by its name first, then by who called it.
BUILT_IN = (
    ("apsw", STORE),
    ("_thread.lock", WAITING),
    ("msgspec", JSON),
    ("hashlib", DIGESTS),
    ("HASH", DIGESTS),
    ("urandom", DIGESTS),
    ("cryptography", SIGNATURE),
    ("httptools", HTTP),
)
PLACES = (
    ("/uvicorn/", HTTP),
    ("/bench/", HTTP),
    ("/placet/http/listening", HTTP),
    ("/placet/server/serving", HTTP),
    ("/placet/server/single_write_protocol", HTTP),
    ("/placet/server/", SERVER),
    ("/placet/signing/", SIGNATURE),
    ("/placet/protocol/signed_result", SIGNATURE),
    ("/placet/stores/", STORE),
    ("/placet/", RULES),
)


class ProfilerCost(Struct, frozen=True, kw_only=True):
    """Seconds that profiling one call adds to the one who is called and to the caller."""

    callee: float
    caller: float


class Breakdown(Struct, frozen=True, kw_only=True):
    """Microseconds of CPU for one request, by place, and the functions that cost most."""

    total_us: float
    bare_us: float
    places: dict[str, float]
    functions: list[tuple[str, float]]


def measure(operation: str, *, seconds: int, folder: Path) -> Breakdown:
    """Load the server with one operation and see."""
    db = folder / "profile.db"
    stock = fill(db, cases=STORED, known=STORED)
    requests = Requests(folder, db, stock, seconds=seconds)
    written = folder / "server.prof"
    with run_server(db, profile_to=written) as server:
        pair = requests.pair(operation, server)
        bare = run(server, pair.bare(0), seconds)
        plain, plain_loop_us = _loop_cost(server, pair.real(0), seconds)
        traffic = pair.real(1)
        server.start_profile()
        profiled = run(server, traffic, seconds).load.requests
        server.stop_profile()
    stats: Mapping[Function, Entry] = pstats.Stats(str(written)).stats  # type: ignore[attr-defined]
    own = measure_own_times(stats, measure_profiler_cost(), requests=profiled)
    return Breakdown(
        total_us=plain,
        bare_us=bare.cpu_us,
        places=sum_by_place(own, stats, loop_us=plain_loop_us, thread_us=plain - plain_loop_us),
        functions=find_costliest(own),
    )


def _loop_cost(server: Server, traffic: Traffic, seconds: int) -> tuple[float, float]:
    """CPU of one request in microseconds: of the process, and of the loop's own thread."""
    before = server.usage()
    load = run(server, traffic, seconds).load
    after = server.usage()
    each = 1e6 / max(load.requests, 1)
    return (after.cpu_s - before.cpu_s) * each, (after.loop_cpu_s - before.loop_cpu_s) * each


def measure_profiler_cost() -> ProfilerCost:
    """What the profiler costs on this machine, measured on a function that does nothing."""

    def nothing() -> None:
        pass

    def calls() -> None:
        for _ in range(CALLS):
            nothing()

    plain = min(_timed(calls) for _ in range(5))
    profile = cProfile.Profile()
    profile.runcall(calls)
    entries: Mapping[Function, Entry] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    own = {name: entry[2] for (_, _, name), entry in entries.items()}
    return ProfilerCost(callee=own["nothing"] / CALLS, caller=max(0.0, own["calls"] - plain) / CALLS)


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure_own_times(
    stats: Mapping[Function, Entry], paid: ProfilerCost, *, requests: int
) -> dict[Function, float]:
    """Each function's own microseconds per request, without the profiler's toll."""
    made: dict[Function, int] = defaultdict(int)
    for entry in stats.values():
        for caller, (count, *_) in entry[4].items():
            made[caller] += count
    return {
        function: max(0.0, entry[2] - entry[1] * paid.callee - made[function] * paid.caller) / requests * 1e6
        for function, entry in stats.items()
    }


def sum_by_place(
    own: Mapping[Function, float], stats: Mapping[Function, Entry], *, loop_us: float, thread_us: float
) -> dict[str, float]:
    """Microseconds by place; what the loop spends outside of any Python function is HTTP's."""
    places: dict[str, float] = defaultdict(float)
    for function, micros in own.items():
        for place, share in _places(function, stats[function]):
            places[place] += micros * share
    places.pop(WAITING, None)
    seen = sum(places.values())
    if seen > loop_us:  # the profiler slows what it cannot be charged for: keep the shares
        places = defaultdict(float, {place: micros * loop_us / seen for place, micros in places.items()})
    places[HTTP] += max(0.0, loop_us - seen)
    places[THREAD] += max(0.0, thread_us)
    return dict(sorted(places.items(), key=lambda item: -item[1]))


def _places(function: Function, entry: Entry) -> Iterable[tuple[str, float]]:
    file, _, name = function
    if file != "~":
        yield _first(PLACES, file, REST), 1.0
        return
    named = _first(BUILT_IN, name, "")
    if named:
        yield named, 1.0
        return
    calls = sum(count for count, *_ in entry[4].values()) or 1
    for caller, (count, *_) in entry[4].items():
        yield _first(PLACES, caller[0], REST), count / calls


def _first(table: Iterable[tuple[str, str]], text: str, otherwise: str) -> str:
    return next((place for part, place in table if part in text), otherwise)


def find_costliest(own: Mapping[Function, float]) -> list[tuple[str, float]]:
    """The functions with the most time of their own."""
    ranked = sorted(own.items(), key=lambda item: -item[1])[:TOP]
    return [(_named(function), micros) for function, micros in ranked]


def _named(function: Function) -> str:
    file, line, name = function
    return name if file == "~" else f"{'/'.join(Path(file).parts[-2:])}:{line} {name}"


def format_breakdown(operation: str, found: Breakdown) -> str:
    """The breakdown as text."""
    rows: list[Any] = [(operation, "µs", "share")]
    rows += [
        (place, f"{micros:.1f}", f"{micros / found.total_us:.0%}") for place, micros in found.places.items()
    ]
    rows.append(("CPU of one request", f"{found.total_us:.1f}", "100%"))
    rows.append(("of one bare request", f"{found.bare_us:.1f}", f"{found.bare_us / found.total_us:.0%}"))
    functions = [
        ("functions, own time while profiled", "µs"),
        *((n, f"{us:.1f}") for n, us in found.functions),
    ]
    return "\n".join([*align_cells(rows), "", *align_cells(functions)]) + "\n"


def main() -> None:
    """Print the breakdown of the operations asked for."""
    parser = argparse.ArgumentParser(prog="bench.profile")
    parser.add_argument("operations", nargs="*", default=OPERATIONS)
    parser.add_argument("--seconds", type=int, default=1)
    options = parser.parse_args()
    for operation in options.operations:
        if operation not in OPERATIONS:
            parser.error(f"{operation!r} is none of {', '.join(OPERATIONS)}")
        folder = Path(tempfile.mkdtemp(prefix="placet-profile-"))
        try:
            print(format_breakdown(operation, measure(operation, seconds=options.seconds, folder=folder)))
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
