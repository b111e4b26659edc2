"""Argument patterns of grants match exactly what a person allowed."""

import random
import time
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.protocol.argument_patterns import (
    MAX_GLOB_LENGTH,
    MAX_TEXT_LENGTH,
    as_glob,
    find_pattern_error,
    fits,
    is_identical,
    is_json,
    matches,
    matches_almost_anything,
)

FOUR_ONES: list[Any] = [1, 1.0, True, "1"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-1e9, 1e9)
    | st.text("ab*\\./1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("allowed", FOUR_ONES, ids=repr)
def test_one_as_a_number_a_decimal_a_yes_and_a_text_are_four_values(allowed: Any) -> None:
    found = [value for value in FOUR_ONES if fits({"exact": allowed}, value)]
    assert found == [allowed]
    assert type(found[0]) is type(allowed)


def test_types_are_told_apart_at_any_depth() -> None:
    allowed = {"rows": [{"id": 1, "on": True}, None]}
    assert fits({"exact": allowed}, {"rows": [{"on": True, "id": 1}, None]})
    for other in (
        {"rows": [{"id": True, "on": True}, None]},
        {"rows": [{"id": 1, "on": 1}, None]},
        {"rows": [{"id": 1, "on": True}, False]},
        {"rows": [{"id": 1, "on": True}]},
        {"rows": [{"id": 1, "on": True, "x": None}, None]},
        {"rows": ({"id": 1, "on": True}, None)},
    ):
        assert not fits({"exact": allowed}, other)


@given(JSON)
def test_a_value_is_itself(value: Any) -> None:
    assert is_identical(value, value)
    assert fits({"exact": value}, value)


@given(JSON, JSON)
def test_values_that_are_the_same_are_written_the_same(one: Any, other: Any) -> None:
    import json

    alike = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert is_identical(one, other) or not alike


def test_value_that_is_not_json_matches_nothing() -> None:
    class Text(str):
        __slots__ = ()

    deep: Any = []
    for _ in range(100):
        deep = [deep]
    for odd in (float("nan"), float("inf"), object(), {1: "a"}, b"x", 10**400, deep, "\x00", "\ud800"):
        assert not is_json(odd)
        assert not fits({"exact": odd}, odd)
    assert not fits({"exact": "x"}, Text("x"))


@pytest.mark.parametrize(
    ("glob", "text", "fitting"),
    [
        ("/srv/reports/*", "/srv/reports/may.csv", True),
        ("/srv/reports/*", "/srv/reports/", False),  # the folder itself is no name in it
        ("/srv/reports/*", "/srv/reports/.", False),
        ("/srv/reports/*", "/srv/reports/...", True),
        ("/srv/*/may.csv", "/srv//may.csv", False),
        ("/srv/*/may.csv", "/srv/./may.csv", False),
        ("/srv/*/may.csv", "/srv/a/may.csv", True),
        ("/srv/*/*", "/srv/a/", False),
        ("/srv/*/*", "/srv/a/b", True),
        ("*/may.csv", "/may.csv", False),
        ("*/may.csv", "a/may.csv", True),
        ("C:\\\\srv\\\\*", "C:\\srv\\", False),
        ("C:\\\\srv\\\\*", "C:\\srv\\a", True),
        ("./*", "./a", True),
        ("./*", "./.", False),
        ("/srv/reports/may*.csv", "/srv/reports/may.csv", True),
        ("/srv/reports/**", "/srv/reports/", True),
        ("/srv/reports/*", "/srv/reports/../secrets", False),
        ("/srv/reports/*", "/srv/reports/..", False),
        ("/srv/reports/**", "/srv/reports/2026/may.csv", True),
        ("/srv/reports/**", "/srv/reports/2026/../../../etc/passwd", False),
        ("/srv/reports/**", "/srv/reports\\..\\..\\boot.ini", False),
        ("/srv/../**", "/srv/../x/../../etc", False),
        ("/srv/../**", "/srv/../x", True),
        ("*@acme.example", "ada.b+news@acme.example", True),
        ("*@acme.example", "eve@evil.example,ada@acme.example", False),
        ("*@acme.example", "eve@evil.example@acme.example", False),
        ("*@acme.example", "x\nBcc: eve@acme.example", False),
        ("*@acme.example", "ada@acme.example.evil.example", False),
        ("*@acme.example", "ada@acmeXexample", False),
        ("SELECT \\* FROM *", "SELECT * FROM users", True),
        ("SELECT \\* FROM *", "SELECT password FROM users", False),
        ("SELECT \\* FROM *", "SELECT * FROM users; DROP TABLE users", False),
        ("a*b*c", "a1b2c", True),
        ("a*b*c", "abbbc", True),
        ("a*b*c", "ac", False),
        ("**", "", True),
        ("*", "zażółć", True),
        ("to *", "to ﬁve", True),
        ("to *", "to \N{DIGIT ZERO COMMA}", False),  # to some software a comma
        ("to *", "to \N{PARENTHESIZED DIGIT ONE}", False),
        ("to *", "to \N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}", False),  # to some with spaces in it
        ("a?[b]", "a?[b]", True),
        ("a?[b]", "axb", False),
        ("a.c", "abc", False),
        ("ends\\", "ends\\", True),
    ],
)
def test_a_star_stays_within_a_name_and_two_go_anywhere(glob: str, text: str, fitting: bool) -> None:
    assert matches(glob, text) is fitting
    assert fits({"glob": glob}, text) is fitting


@given(st.text("ab*\\./", max_size=12), st.text("ab*\\./", max_size=12))
def test_a_glob_made_of_a_text_fits_that_text_alone(text: str, other: str) -> None:
    assert matches(as_glob(text), text)
    assert matches(as_glob(text), other) is (text == other)


@given(st.text("ab*", max_size=12), st.text("ab", max_size=16))
def test_globs_of_letters_match_as_a_shell_would(glob: str, text: str) -> None:
    assert matches(glob, text) is fnmatchcase(text, glob)


def test_no_glob_takes_long_however_it_is_made() -> None:
    bombs = [
        "*a" * 249 + "*b",
        "**a" * 166,
        "*" * MAX_GLOB_LENGTH,
        ("a*" * 250)[:MAX_GLOB_LENGTH],
        "a" * MAX_GLOB_LENGTH,
    ]
    texts = [
        "a" * MAX_TEXT_LENGTH,
        "ab" * (MAX_TEXT_LENGTH // 2),
        "".join(random.Random(7).choices("ab*/", k=9_999)),
    ]
    began = time.process_time()
    for bomb in bombs:
        assert find_pattern_error({"glob": bomb}) is None
        for text in texts:
            matches(bomb, text)
    assert time.process_time() - began < 3


def test_longer_texts_and_globs_fit_nothing() -> None:
    assert fits({"glob": "**"}, "a" * MAX_TEXT_LENGTH)
    assert not fits({"glob": "**"}, "a" * (MAX_TEXT_LENGTH + 1))
    assert not fits({"glob": "*" * (MAX_GLOB_LENGTH + 1)}, "a")


def test_only_text_fits_a_glob() -> None:
    for value in (1, None, True, ["a"], {"a": 1}, "\x1b[2J", "\x00", "\ud800"):
        assert not fits({"glob": "**"}, value)


def test_a_range_of_whole_numbers_takes_whole_numbers_alone() -> None:
    pattern = {"from": 0, "to": 100}
    assert [value for value in (0, 100, 50) if fits(pattern, value)] == [0, 100, 50]
    for value in (-1, 101, 50.0, True, False, "50", None, float("nan"), 10**400):
        assert not fits(pattern, value)


def test_a_range_of_decimals_takes_both() -> None:
    pattern = {"from": 0.0, "to": 9.5}
    assert fits(pattern, 9.5)
    assert fits(pattern, 3)
    assert not fits(pattern, 9.6)
    assert not fits(pattern, True)


@pytest.mark.parametrize(
    "pattern",
    [
        None,
        "x",
        [],
        {},
        {"exact": 1, "glob": "*"},
        {"regex": ".*"},
        {"glob": ""},
        {"glob": 1},
        {"glob": "a\x00"},
        {"from": 1},
        {"from": 2, "to": 1},
        {"from": False, "to": True},
        {"from": "a", "to": "b"},
        {"from": float("nan"), "to": 1},
        {"from": 0, "to": float("inf")},
    ],
    ids=repr,
)
def test_a_pattern_of_another_shape_fits_nothing_and_says_why(pattern: Any) -> None:
    assert find_pattern_error(pattern)
    values: list[Any] = [1, "x", "", None, True, {}, []]
    assert not any(fits(pattern, value) for value in values)


@pytest.mark.parametrize("glob", ["*", "**", "a*", "*.*", "*a*b*c*", "***"])
def test_very_broad_globs_are_detected(glob: str) -> None:
    assert matches_almost_anything({"glob": glob})


@pytest.mark.parametrize(
    "pattern", [{"glob": "*.py"}, {"glob": "abc"}, {"exact": None}, {"from": 0, "to": 1}], ids=repr
)
def test_narrow_patterns_are_not_called_broad(pattern: Any) -> None:
    assert not matches_almost_anything(pattern)
