"""A report as text: the table, the growth, and what limits each row."""

from collections.abc import Iterator, Sequence

from bench.figures import Cycle, Figure, Growth, Report
from bench.rows import GROWTH_BOUND, ROWS

HEADER = ("", "stored", "figure", "bare", "ratio", "bound", "", "p99", "CPU", "bare CPU", "by CPU")


def text(report: Report) -> str:
    """All that is printed at the end of a run."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.at}, {report.machine}, one server process, wrk with {report.connections} connections"
    if report.load_before > 0.5:
        yield f"(The machine had other work, load {report.load_before:.1f}: trust the ratios, CPU first.)"
    yield ""
    yield from align_cells([HEADER, *map(_figure_cells, report.figures)])
    yield from (f"  ! {ROWS[one.row].title}: {one.trouble}" for one in report.figures if one.trouble)
    if report.growth:
        yield ""
        sizes = report.growth[0].few.stored, report.growth[0].many.stored
        header = ("growth", *(f"{size:,}" for size in sizes), "times worse", "bound", "")
        yield from align_cells([header, *map(_growth_cells, report.growth)])
    if report.cycles:
        yield ""
        header = ("pause and resume", "storage", "calls", "median", "CPU")
        yield from align_cells([header, *map(_cycle_cells, report.cycles)])
    yield ""
    yield "What limits each row:"
    limits: dict[str, list[str]] = {}
    for name in _names(report):
        limits.setdefault(f"{ROWS[name].limit}{_busy(report, name)}", []).append(ROWS[name].title)
    yield from (f"  {'; '.join(titles)}: {limit}" for limit, titles in limits.items())


def _figure_cells(figure: Figure) -> tuple[str, ...]:
    row, found = ROWS[figure.row], figure.comparison
    head = (row.title, f"{figure.stored:,}" if figure.stored else "")
    bound = row.bound if figure.bounded else "-"
    if found is None:
        value, cpu = f"{figure.value:.{row.digits}f} {row.unit}", ""
        if figure.by_cpu is not None:
            cpu = f"{figure.by_cpu:.{row.digits}f} {row.unit}"
        return (*head, value, "", "", bound, format_verdict(figure), "", "", "", cpu)
    return (
        *head,
        f"{found.per_second:,.0f}/s",
        f"{found.bare_per_second:,.0f}/s",
        f"{found.ratio:.2f}",
        bound,
        format_verdict(figure),
        f"{found.p99_ms:.1f} ms",
        f"{found.cpu_us:.0f} µs",
        f"{found.bare_cpu_us:.0f} µs",
        f"{found.cpu_ratio:.2f}",
    )


def _growth_cells(one: Growth) -> tuple[str, ...]:
    bound = f"< {GROWTH_BOUND}" if one.bounded else "-"
    mark = ("ok" if one.ok else "MISSED") if one.bounded else ""
    return (
        ROWS[one.row].title,
        f"{one.few.value:.2f}",
        f"{one.many.value:.2f}",
        f"{one.times:.2f}",
        bound,
        mark,
    )


def _cycle_cells(one: Cycle) -> tuple[str, ...]:
    return one.name, one.storage, str(one.calls or ""), f"{one.wall_ms:.2f} ms", f"{one.cpu_ms:.2f} ms"


def format_verdict(figure: Figure) -> str:
    """The word in the table."""
    if figure.trouble:
        return "BROKEN"
    if not figure.bounded:
        return ""
    return "ok" if figure.ok else "MISSED"


def align_cells(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of cells under each other, the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        first, *rest = zip(cells, widths, strict=True)
        yield "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]).rstrip()


def _names(report: Report) -> list[str]:
    measured = {one.row for one in report.figures}
    return [name for name in ROWS if name in measured]


def _busy(report: Report, name: str) -> str:
    shares = [one.comparison.busy for one in report.figures if one.row == name and one.comparison]
    return f" (process busy {max(shares):.0%} of the time)" if shares else ""
