"""Where a match may have begun at the end of a text: never later than a match that goes on really begins."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.relay.patterns import policies
from placet.relay.detectors.open_match import build_finder
from placet.relay.detectors.pattern_width import MAX_WIDTH, build_beginning, compute_pattern_width

PATTERNS = (
    r"\b\d{3}-\d{2}-\d{4}\b",
    r"(?i)key\s?=\s?[a-f]{4,8}",
    r"ab{2,12}c",
    r"(?:ab|a(?:cd)?){2}x",
    r"a\Bb",
    r"(ab){0,3}c?d",
    r"(?P<x>a|bc)\.",
    r"(?i:A)b|ba{0,2}b",
    r"[^a-c]{3}a",
)
TEXTS = st.lists(
    st.sampled_from(["a", "b", "c", "d", "ab", "x", "1", "12", "-", ".", " ", "K", "key", "=", "A"]),
    max_size=14,
).map("".join)


def measure(pattern: str) -> int:
    width = compute_pattern_width(pattern)
    assert width is not None
    return width


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_beginning_of_a_match_is_found(pattern: str) -> None:
    finder = build_finder([(pattern, measure(pattern))])
    assert finder.other_width == 0
    compiled = re.compile(pattern, re.ASCII)

    @settings(max_examples=200, deadline=None)
    @given(text=TEXTS, share=st.floats(0, 1))
    def check(text: str, share: float) -> None:
        end = round(len(text) * share)
        position = finder.find(text[:end])
        for start in range(end):
            # Every match that begins here counts, also shorter ones than the first alternative finds.
            spans = [one.span() for one in [compiled.match(text, start)] if one is not None]
            assert all(position <= begin for begin, stop in spans if begin < end < stop)

    check()


def test_ordinary_text_has_no_open_match_for_many_patterns() -> None:
    patterns = [one["config"]["pattern"]["regex"] for one in policies()]
    widths = [(one, compute_pattern_width(one)) for one in patterns]
    finder = build_finder([(one, width) for one, width in widths if width is not None])
    text = "The bookshelf left the warehouse in Venlo and will be here soon "
    assert finder.width > 1_000
    assert finder.find(text) == len(text)
    assert finder.find(text + "AKIA") == len(text)
    assert finder.find("x" * 5_000 + " AKIA") >= 5_000 + 5 - finder.width


def test_patterns_without_a_known_beginning_count_with_their_width() -> None:
    finder = build_finder([(r"(?<!\d)\d{4}(?!\d)", 6), ("SECRET", 6)])
    assert finder.other_width == 6
    assert finder.find("some words") == 4


@pytest.mark.parametrize("pattern", [r"(?=a)b", "a+", "^a", r"(a)\1", "(?x)a b", "a{2}{3}"])
def test_patterns_without_a_beginning(pattern: str) -> None:
    assert build_beginning(pattern) is None or compute_pattern_width(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "width"),
    [
        (r"\d{3}-\d{2}-\d{4}", 11),
        (r"a{2,}", None),
        (r"a{0}b", 2),
        (r"(?:ab){2,3}|c", 6),
        (r"(?<=\d{3})x(?!y)", 5),
        (r"a?\b*", 1),
        (r"[]a]{2}[^]]\]", 4),
        (r"\Qa\E", None),
        (f"a{{{MAX_WIDTH}}}", None if MAX_WIDTH > 9_999 else MAX_WIDTH),
        ("(?:a{999}){3}", None),
        ("(?i)ß", 1),
        ("a$", None),
        ("(a", None),
        ("a)", None),
    ],
)
def test_width_of_a_pattern(pattern: str, width: int | None) -> None:
    assert compute_pattern_width(pattern) == width
