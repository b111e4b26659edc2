"""Moments in the words of people."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from assent.pages.language import ENGLISH

calendar, day, exact, relative = ENGLISH.calendar, ENGLISH.day, ENGLISH.exact, ENGLISH.relative

NOW = datetime(2026, 11, 15, 16, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("away", "words"),
    [
        (timedelta(seconds=20), "in less than a minute"),
        (timedelta(minutes=1), "in 1 minute"),
        (timedelta(minutes=59), "in 59 minutes"),
        (timedelta(hours=2), "in 2 hours"),
        (timedelta(hours=24), "in 24 hours"),
        (timedelta(days=3), "in 3 days"),
        (timedelta(minutes=-5), "5 minutes ago"),
        (timedelta(days=-2), "2 days ago"),
    ],
)
def test_how_far_away(away: timedelta, words: str) -> None:
    assert relative(NOW + away, NOW) == words


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (NOW + timedelta(hours=2), "today 18:00 UTC"),
        (NOW + timedelta(hours=10), "tomorrow 02:00 UTC"),
        (NOW - timedelta(hours=20), "yesterday 20:00 UTC"),
        (NOW + timedelta(days=3), "Wednesday 18 November 2026, 16:00 UTC"),
        (datetime(2026, 11, 16, 0, 30, tzinfo=timezone(timedelta(hours=2))), "today 22:30 UTC"),
    ],
)
def test_which_moment(moment: datetime, words: str) -> None:
    assert calendar(moment, NOW) == words


def test_days_and_exact_moments() -> None:
    assert day(NOW.date()) == "15 November 2026"
    assert exact(NOW) == "15 November 2026, 16:00 UTC"
    assert exact(NOW.replace(tzinfo=None)) == "15 November 2026, 16:00"
