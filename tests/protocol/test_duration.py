import contextlib
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ValidationFailed
from placet.protocol.duration import MAX_DURATION, PATTERN, format_duration, parse_duration

DURATIONS = st.timedeltas(min_value=timedelta(microseconds=1), max_value=MAX_DURATION)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("30s", timedelta(seconds=30)),
        ("15m", timedelta(minutes=15)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        ("1d12h", timedelta(days=1, hours=12)),
        ("1w1d1h1m1s", timedelta(weeks=1, days=1, hours=1, minutes=1, seconds=1)),
        ("007d", timedelta(days=7)),
        ("1.5s", timedelta(seconds=1.5)),
        ("0.000001s", timedelta(microseconds=1)),
        ("PT24H", timedelta(hours=24)),
        ("P7D", timedelta(days=7)),
        ("P1DT12H", timedelta(days=1, hours=12)),
        ("PT90M", timedelta(minutes=90)),
        ("P2W", timedelta(weeks=2)),
        ("PT0.5S", timedelta(milliseconds=500)),
        ("PT0,5S", timedelta(milliseconds=500)),
        ("P0DT1S", timedelta(seconds=1)),
        ("3650d", MAX_DURATION),
    ],
)
def test_shorthand_and_iso_are_read(text, duration):
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text", ["P1M", "P1Y", "P1Y6M", "P1Y2M3DT4H", "1y", "2mo", "3 months", "1M", "10 years"]
)
def test_months_and_years_are_refused_by_name(text):
    with pytest.raises(ValidationFailed, match=r"months and years .* Use days, such as 30d"):
        parse_duration(text)


def test_an_error_names_the_field_the_value_and_what_to_write():
    with pytest.raises(ValidationFailed) as refused:
        parse_duration("2 hours", "timeout")
    assert refused.value.message == (
        "timeout: '2 hours' is not a duration. Use shorthand (30m, 24h, 1d12h) or ISO 8601 (PT24H)."
    )


@pytest.mark.parametrize("text", ["0s", "0d", "PT0S", "P0D", "P0W", "0w0d0h0m0.000000s"])
def test_zero_is_refused(text):
    with pytest.raises(ValidationFailed, match="longer than zero"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text", ["3651d", "3650d1s", "P3650DT0.000001S", "99999999999999999999999999w", "P9999W"]
)
def test_more_than_ten_years_is_refused(text):
    with pytest.raises(ValidationFailed, match="ten years"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "24",
        "h",
        "24 h",
        " 24h",
        "24h\n",
        "24H",
        "-1d",
        "+1d",
        "-P1D",
        "P-1D",
        "P",
        "PT",
        "P1DT",
        "PT24",
        "pt24h",
        "1d1d",
        "12h1d",
        "1.5h",
        "1.s",
        ".5s",
        "1.0000001s",
        "P1W1D",
        "PT1H1D",
        "٣d",
        "２４h",
        "1\u0000d",
        "\ud800",
        "1d" * 40,
        pytest.param("9" * 100_000 + "d", id="overlong"),
    ],
)
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(ValidationFailed, match="24h"):
        parse_duration(text)


@pytest.mark.parametrize("value", [None, 24, 24.0, ["24h"], {"hours": 24}, b"24h", True])
def test_what_is_not_text_is_refused(value):
    with pytest.raises(ValidationFailed, match="24h"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("duration", "shorthand"),
    [
        (timedelta(hours=24), "1d"),
        (timedelta(weeks=2), "14d"),
        (timedelta(days=1, hours=12), "1d12h"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(seconds=10), "10s"),
        (timedelta(seconds=20.5), "20.5s"),
        (timedelta(microseconds=10), "0.00001s"),
    ],
)
def test_durations_are_written_largest_unit_first(duration, shorthand):
    assert format_duration(duration) == shorthand


@pytest.mark.parametrize("duration", [timedelta(0), timedelta(seconds=-1), timedelta.min, timedelta.max])
def test_what_could_not_be_read_back_is_not_written(duration):
    with pytest.raises(ValidationFailed):
        format_duration(duration)


@given(DURATIONS)
def test_every_duration_survives_writing_and_reading(duration):
    assert parse_duration(format_duration(duration)) == duration


@given(st.text() | st.text(alphabet="0123456789wdhmsPTDHMSYW.,- "))
def test_arbitrary_text_is_a_positive_duration_or_a_refusal(text):
    with contextlib.suppress(ValidationFailed):
        assert timedelta(0) < parse_duration(text) <= MAX_DURATION


@given(st.text(alphabet="0123456789wdhmsPTDHMSW.,\n", max_size=12))
def test_whatever_is_read_fits_the_published_pattern(text):
    with contextlib.suppress(ValidationFailed):
        parse_duration(text)
        assert re.search(PATTERN, text)


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "24h\n", "24", "1h1d", "P1Y"])
def test_what_is_no_duration_does_not_fit_the_published_pattern(text):
    assert not re.search(PATTERN, text)
