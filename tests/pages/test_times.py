"""Moments in the words of people."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from placet.pages.language import ENGLISH
from placet.pages.languages import LANGUAGES, choose

calendar, day, exact, relative = ENGLISH.calendar, ENGLISH.day, ENGLISH.exact, ENGLISH.relative

NOW = datetime(2026, 11, 15, 16, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("away", "words"),
    [
        (timedelta(seconds=20), "in less than a minute"),
        (timedelta(0), "just now"),
        (timedelta(seconds=-20), "just now"),
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


@pytest.mark.parametrize(
    ("code", "near", "far", "left", "gone"),
    [
        ("en", "today 18:00 UTC", "Wednesday 18 November 2026, 16:00 UTC", "in 2 hours", "3 days ago"),
        ("de", "heute 18:00 UTC", "Mittwoch, 18. November 2026, 16:00 UTC", "in 2 Stunden", "vor 3 Tagen"),
        (
            "es",
            "hoy 18:00 UTC",
            "miércoles, 18 de noviembre de 2026, 16:00 UTC",
            "dentro de 2 horas",
            "hace 3 días",
        ),
        (
            "fr",
            "aujourd’hui 18:00 UTC",
            "mercredi 18 novembre 2026, 16:00 UTC",
            "dans 2 heures",
            "il y a 3 jours",
        ),
        ("zh", "今天 18:00 UTC", "2026年11月18日星期三 16:00 UTC", "2小时后", "3天前"),
        ("ar", "اليوم 6:00 م UTC", "الأربعاء، 18 نوفمبر 2026، 4:00 م UTC", "خلال ساعتين", "قبل 3 أيام"),
    ],
)
def test_moments_are_said_in_the_readers_language(
    code: str, near: str, far: str, left: str, gone: str
) -> None:
    language = choose(code)
    assert language.calendar(NOW + timedelta(hours=2), NOW) == near
    assert language.calendar(NOW + timedelta(days=3), NOW) == far
    assert language.relative(NOW + timedelta(hours=2), NOW) == left
    assert language.relative(NOW - timedelta(days=3), NOW) == gone


@pytest.mark.parametrize("code", LANGUAGES)
def test_any_moment_can_be_said(code: str) -> None:
    language = choose(code)
    for moment in (datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, 59, tzinfo=UTC)):
        said = [language.calendar(moment, NOW), language.relative(moment, NOW), language.exact(moment)]
        assert all(said)
