"""Text is cut and brought to lines without tearing anything apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.text.characters import mark_hidden
from placet.text.truncation import (
    count_utf8_bytes,
    count_utf16_units,
    to_paragraphs,
    to_single_line,
    truncate,
)

SIZES = [len, count_utf16_units, count_utf8_bytes]


@given(text=st.text(max_size=200), most=st.integers(0, 60), which=st.sampled_from(SIZES))
def test_a_cut_text_always_fits_and_begins_as_it_did(text, most, which):
    short = truncate(text, most, size=which)
    assert which(short) <= most
    if which(text) > most:
        assert text.startswith(short.removesuffix("…"))
    else:
        assert short == text


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("ab👩‍💻cd", 5, "ab…"),
        ("abe\u0301\u0302\u0303f", 4, "ab…"),
        ("abc👍🏽d", 5, "abc…"),
        ("abc⟦U+202E⟧def", 8, "abc…"),
        ("one two", 5, "one…"),
        ("abc", 0, ""),
    ],
)
def test_nothing_is_torn_apart(text, most, expected):
    assert truncate(text, most) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pay\u202eEVIL", "pay⟦U+202E⟧EVIL"),
        ("a\x00b\x1b[2J", "a⟦U+0000⟧b⟦U+001B⟧[2J"),
        ("a\u200bb\ufeff", "a⟦U+200B⟧b⟦U+FEFF⟧"),
        ("\U000e0041", "⟦U+E0041⟧"),
        ("👩‍💻 ❤️ می‌خواهم", "👩‍💻 ❤️ می‌خواهم"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\ud83d", "⟦U+D83D⟧"),
    ],
)
def test_what_hides_is_shown(text, expected):
    assert mark_hidden(text) == expected


@given(st.text(max_size=100))
def test_a_line_is_one_line(text):
    assert len(to_single_line(text).splitlines()) <= 1


def test_many_empty_lines_become_one():
    assert to_paragraphs("\n\na\n\n\n \n\nb\n") == "a\n\nb"
