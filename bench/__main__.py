"""`python -m bench`: measures, prints a table, leaves it in bench/results; fails when a bound is missed."""

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import plot, table
from bench.figures import Cycle, Figure, Report
from bench.load import CONNECTIONS
from bench.relay.measure import measure_relay
from bench.rows import GROUPS, HOOK_ROWS, RELAY_ROWS, ROWS
from bench.session import Pace, Session
from bench.target import raise_file_limit
from placet.desk import clock
from scripts import wrk

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Run and leave with the verdict."""
    options = parse(sys.argv[1:])
    try:
        if options.rows or options.relay_rows:
            wrk.find()
    except wrk.LoadGeneratorMissing as missing:
        sys.exit(f"bench: {missing}")
    raise_file_limit()
    RESULTS.mkdir(exist_ok=True)
    report = measure(options)
    written = table.text(report)
    print("\n" + written)
    (RESULTS / "table.txt").write_text(written)
    (RESULTS / "plot.svg").write_text(plot.draw_svg(report))
    (RESULTS / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    print(f"Written to {RESULTS}: table.txt, plot.svg, report.json")
    sys.exit(0 if report.ok else 1)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a run."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure Placet against a bare ASGI app.")
    parser.add_argument("--quick", action="store_true", help="short slices, and 50,000 cases for many")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"which of {','.join([*ROWS, *GROUPS])}")
    parser.add_argument("--seconds", type=int, default=1, help="length of a slice; default 1")
    parser.add_argument("--rounds", type=int, help="slices of each kind per row; default 9, quick 3")
    parser.add_argument(
        "--connections", type=int, default=CONNECTIONS, help=f"of those who call; default {CONNECTIONS}"
    )
    parser.add_argument("--stored", help="sizes of the store; default 1000,1000000")
    options = parser.parse_args(arguments)
    named = options.rows.split(",")
    wanted = {*named, *(row for group in named for row in GROUPS.get(group, ()))}
    options.rows = [name for name in ROWS if name in wanted and name not in (*HOOK_ROWS, *RELAY_ROWS)]
    options.hook_rows = [name for name in HOOK_ROWS if name in wanted]
    options.relay_rows = [name for name in RELAY_ROWS if name in wanted]
    if not (options.rows or options.hook_rows or options.relay_rows):
        parser.error(f"--rows takes names out of {', '.join([*ROWS, *GROUPS])}")
    options.pace = Pace(
        rounds=options.rounds or (3 if options.quick else 9),
        seconds=options.seconds,
        connections=options.connections,
    )
    sizes = options.stored or ("1000,50000" if options.quick else "1000,1000000")
    options.stored = [int(size) for size in sizes.split(",")]
    return options


def measure(options: argparse.Namespace) -> Report:
    """All rows at all sizes, on databases that are removed at once afterwards."""
    load_before = os.getloadavg()[0]
    figures: list[Figure] = []
    filled: dict[str, float] = {}
    for stored in options.stored if options.rows else ():
        # Beside the results and not among the system's temporary files, which may lie in memory: a sync has
        # to reach a disk.
        folder = Path(tempfile.mkdtemp(prefix="db-", dir=RESULTS))
        try:
            bounded = stored == min(options.stored)
            session = Session(folder, stored, options.pace, bounded=bounded, say=say)
            stock = session.fill()
            filled[str(stored)] = round(stock.seconds, 1)
            figures.extend(session.measure(stock, options.rows))
        finally:
            shutil.rmtree(folder)
    cycles: list[Cycle] = []
    if options.hook_rows:
        from bench.hook.measure import measure_hook  # it loads every framework, which takes seconds

        found, cycles = measure_hook(options.hook_rows, options.pace.rounds, RESULTS, say)
        figures.extend(found)
    if options.relay_rows:
        figures.extend(measure_relay(options.relay_rows, options.pace, RESULTS, say))
    figures.sort(key=lambda one: (list(ROWS).index(one.row), one.stored))
    return Report(
        at=clock.now().strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{os.cpu_count()} cores, Python {platform.python_version()}",
        load_before=load_before,
        connections=options.connections,
        filled=filled,
        figures=figures,
        cycles=cycles,
    )


def say(line: str) -> None:
    """Progress, on standard error."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
