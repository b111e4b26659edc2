"""What the bench makes of its figures: who passes, what grew, what is drawn."""

from typing import Any
from xml.etree import ElementTree

import pytest

from bench import plot, table
from bench.figures import Figure, Report
from bench.measure import Comparison
from bench.rows import ROWS


def comparison(ratio: float) -> Comparison:
    return Comparison(
        ratio=ratio,
        cpu_ratio=ratio,
        per_second=ratio * 50_000,
        bare_per_second=50_000,
        cpu_us=20 / ratio,
        bare_cpu_us=20,
        p50_ms=1.0,
        p99_ms=2.0,
        busy=0.97,
        broken=0,
    )


def figure(row: str, stored: int, value: float, **changes: Any) -> Figure:
    ratio = ROWS[row].unit == "/s"
    fields: dict[str, Any] = {
        "bounded": stored == 1000,
        "comparison": comparison(value) if ratio else None,
    }
    return Figure(row=row, stored=stored, value=value, **fields | changes)


def report(*figures: Figure) -> Report:
    return Report(
        at="today", machine="2 cores", load_before=0.0, connections=64, filled={}, figures=list(figures)
    )


@pytest.mark.parametrize(
    ("row", "good", "bad"),
    [
        ("poll", 0.45, 0.44),
        ("not_modified", 0.50, 0.49),
        ("create", 0.20, 0.19),
        ("respond", 0.20, 0.19),
        ("streams", 15.0, 15.1),
    ],
)
def test_a_bound_is_met_or_missed(row: str, good: float, bad: float) -> None:
    assert report(figure(row, 1000, good)).ok
    missed = report(figure(row, 1000, bad))
    assert not missed.ok
    assert "MISSED" in table.text(missed)


def test_a_large_store_is_held_to_growth_alone() -> None:
    assert report(figure("poll", 1000, 0.46), figure("poll", 1_000_000, 0.37)).ok
    assert not report(figure("poll", 1000, 0.46), figure("poll", 1_000_000, 0.35)).ok


def test_more_memory_is_worse_and_a_higher_ratio_is_better() -> None:
    heavier = report(figure("streams", 1000, 10.0), figure("streams", 1_000_000, 14.0))
    faster = report(figure("create", 1000, 0.2), figure("create", 1_000_000, 0.4))
    assert heavier.growth[0].times == pytest.approx(1.4)
    assert not heavier.ok
    assert faster.growth[0].times == pytest.approx(0.5)
    assert faster.ok


def test_a_row_without_a_bound_never_fails_a_run_unless_it_is_broken() -> None:
    assert report(figure("page", 1000, 0.01), figure("page", 1_000_000, 0.001)).ok
    broken = report(figure("page", 1000, 0.01, trouble="3 requests failed or were refused"))
    assert not broken.ok
    assert "3 requests failed" in table.text(broken)


def test_every_row_says_what_limits_it() -> None:
    everything = report(*(figure(name, 1000, 0.3) for name in ROWS))
    written = table.text(everything)
    assert all(row.limit in written for row in ROWS.values())


def test_the_drawing_has_a_bar_for_each_ratio_and_a_line_for_each_bound() -> None:
    drawn = plot.draw_svg(report(figure("poll", 1000, 0.5), figure("poll", 1_000_000, 0.4)))
    tags = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawn).iter()]
    assert tags.count("line") == 1
    assert [text for text in ("0.50", "0.40", "1,000,000 stored") if text not in drawn] == []
