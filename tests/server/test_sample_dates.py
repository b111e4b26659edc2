"""The demo's samples happen around now, whenever the demo is started."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from placet.reviews.registry import SAMPLES
from placet.server.sample_dates import shift_dates

NOW = datetime(2031, 2, 28, 1, 5, tzinfo=UTC)
MONTHS = "January|February|March|April|June|July|August|September|October|November|December"
NAMED_MONTH = re.compile(rf"\b(?:{MONTHS})\b|\b\d{{4}}-\d{{2}}\b(?!-)")
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:T[\d:]+Z)?\b")


def test_the_samples_are_not_months_old() -> None:
    for name, sample in SAMPLES.items():
        shown = repr(shift_dates(sample.example(), NOW))
        for text in DATE.findall(shown):
            moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
            assert NOW - moment < timedelta(days=60), (name, text)


def test_no_sample_names_a_day_in_words_beside_a_date_that_moves() -> None:
    for name, sample in SAMPLES.items():
        shown = repr(shift_dates(sample.example(), NOW))
        for text in DATE.findall(shown):
            moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
            assert moment - NOW < timedelta(days=60), (name, text)
        if DATE.search(shown):
            assert not NAMED_MONTH.search(shown), (name, NAMED_MONTH.findall(shown))


def test_what_has_happened_is_not_in_the_future() -> None:
    shown = shift_dates(SAMPLES["escalation"].example(), NOW)
    failed_at = datetime.fromisoformat(shown["context"]["error"]["first_seen_at"])
    assert timedelta(0) < NOW - failed_at < timedelta(days=1)


KEPT = ["2026-118", "2026-13-45", "June 2026", "on 2026-05-04", "", 20260504, None, True]


@pytest.mark.parametrize("kept", KEPT)
def test_only_whole_dates_are_moved(kept: object) -> None:
    assert shift_dates({"a": [kept]}, NOW) == {"a": [kept]}


def test_the_distance_between_dates_stays() -> None:
    assert shift_dates(["2026-05-04", "2026-05-06", "2026-05-07T23:00:00Z"], NOW) == [
        "2031-02-26",
        "2031-02-28",
        "2031-03-01T23:00:00Z",
    ]
