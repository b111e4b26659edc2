"""What changed between two values, word by word, and how long finding it may take."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.pages.diffs import MAX_CHANGES, MAX_SHOWN_LENGTH, Change, compare
from placet.pages.sequence_matching import find_matching_blocks

MARKS = {"same": "{}", "added": "+{}+", "removed": "-{}-", "gap": "…"}
WORDS = st.lists(st.sampled_from(["a", "bb", "ccc", "ccc,", "好", "\n", " ", "d\u200cd"]), max_size=20)
PATIENCE_S = 3.0  # far above what it takes, far below what an unbounded comparison would


def marked(change: Change) -> str:
    return "".join(MARKS[piece.sign].format(piece.value) for piece in change.pieces)


def differences(before: Any, after: Any) -> dict[tuple[str | int, ...], str]:
    return {change.path: marked(change) for change in compare(before, after).changes}


@pytest.mark.parametrize(
    ("before", "after", "words", "shown"),
    [
        ("We are very sorry.", "We are sorry.", 1, "We are -very -sorry."),
        ("It comes on Monday.", "It comes on Friday.", 1, "It comes on -Monday-+Friday+."),
        ("one\ntwo\nthree", "one\nthree", 1, "one\n-two\n-three"),
        ("one", "one\ntwo", 1, "one+\ntwo+"),
        ("one\n", "one\ntwo", 1, "one\n+two+"),
        ("left this morning", "will leave this morning", 2, "-left-+will leave+ this morning"),
        ("今天天气很好", "今天天气不好", 1, "今天天气-很-+不+好"),
        ("a  b", "a b", 0, "a - -b"),
        ("", "new", 1, "+new+"),
        ("old words", "", 2, "-old words-"),
        ("same", "same", 0, None),
    ],
)
def test_the_words_that_changed_are_marked(before: str, after: str, words: int, shown: str | None) -> None:
    comparison = compare(before, after)
    assert [marked(change) for change in comparison.changes] == ([] if shown is None else [shown])
    assert (comparison.words, comparison.cut) == (words, False)


def test_a_rewritten_sentence_is_shown_whole_and_not_in_splinters() -> None:
    before = "Bring the big umbrella to the station on the first of May."
    after = "Leave a small parcel at the market on a day of June."
    assert len([piece for piece in compare(before, after).changes[0].pieces if piece.sign == "added"]) <= 4


def test_long_stretches_in_common_are_left_out() -> None:
    common = "and so on it goes, " * 100
    [change] = compare(f"{common}red {common}", f"{common}blue {common}").changes
    assert [piece.sign for piece in change.pieces] == ["gap", "same", "removed", "added", "same", "gap"]
    assert all(len(piece.value) <= 80 for piece in change.pieces if piece.sign == "same")


def test_values_are_compared_field_by_field() -> None:
    before = {"to": "Ada", "pages": 3, "list": [1, 2, 3], "gone": {"deep": "away"}, "kept": {"x": [1]}}
    after = {"to": "Eve", "pages": True, "list": [1, 5, 3, 4], "kept": {"x": [1]}, "new": [{"b": None}]}
    assert differences(before, after) == {
        ("to",): "-Ada-+Eve+",
        ("pages",): "-3-+True+",
        ("list", 1): "-2-+5+",
        ("list", 3): "+4+",
        ("gone", "deep"): "-away-",
        ("new", 0, "b"): "+None+",
    }


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (1, True, {(): "-1-+True+"}),
        (None, "", {(): "-None-++"}),
        ([], {}, {(): "-[]-+{}+"}),
        ({"a": "x"}, "x", {("a",): "-x-", (): "+x+"}),
        ([{"id": 1, "n": "a"}, {"id": 2}], [{"id": 2}], {(0, "id"): "-1-", (0, "n"): "-a-"}),
        ([{"id": 1, "n": "a"}], [{"id": 1, "n": "b"}], {(0, "n"): "-a-+b+"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {}),
    ],
)
def test_a_change_of_type_or_place_is_a_change(before: Any, after: Any, shown: dict[Any, str]) -> None:
    assert differences(before, after) == shown


@given(WORDS, WORDS)
def test_nothing_is_lost_and_nothing_invented(old: list[str], new: list[str]) -> None:
    before, after = "".join(old), "".join(new)
    pieces = [piece for change in compare(before, after).changes for piece in change.pieces]
    if before != after:
        assert "".join(piece.value for piece in pieces if piece.sign != "added") == before
        assert "".join(piece.value for piece in pieces if piece.sign != "removed") == after


@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 5), max_size=30))
def test_blocks_match_in_order(old: list[int], new: list[int]) -> None:
    i = j = common = 0
    for a, c, size in find_matching_blocks(old, new):
        assert a >= i
        assert c >= j
        assert old[a : a + size] == new[c : c + size]
        i, j, common = a + size, c + size, common + size
    assert common == longest_common(old, new)


def longest_common(old: list[int], new: list[int]) -> int:
    row = [0] * (len(new) + 1)
    for part in old:
        above, row = row, [0]
        for place, other in enumerate(new):
            row.append(above[place] + 1 if part == other else max(above[place + 1], row[place]))
    return row[-1]


def many_words(seed: int) -> list[str]:
    dice = random.Random(seed)
    return [f"{dice.choice('abcdef')}{dice.randrange(3000)}" for _ in range(180_000)]


def in_lines(words: list[str]) -> str:
    return "\n".join(" ".join(words[start : start + 10]) for start in range(0, len(words), 10))


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value}
    return value


HOSTILE: dict[str, Callable[[], tuple[Any, Any]]] = {
    "one line": lambda: (" ".join(many_words(1)), " ".join(many_words(2))),
    "shuffled lines": lambda: (in_lines(many_words(1)), in_lines(many_words(1)[::-1])),
    "other lines": lambda: ("a\n" * 500_000, "b\n" * 500_000),
    "swapped lines": lambda: ("a\nb\n" * 12_000, "b\na\n" * 12_000),
    "swapped words": lambda: ("a b " * 25_000, "b a " * 25_000),
    "no spaces": lambda: ("a" * 1_000_000, "b" * 1_000_000),
    "signs": lambda: ("!?" * 100_000, "?!" * 99_999),
    "long list": lambda: (list(range(60_000)), list(range(30_000, 90_000))),
    "many fields": lambda: ({str(n): n for n in range(60_000)}, {str(n): -n for n in range(60_000)}),
    "deep": lambda: (nested(400), nested(399)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_largest_and_most_hostile_values_are_compared_in_bounded_time(name: str) -> None:
    before, after = HOSTILE[name]()
    start = time.thread_time()
    comparison = compare(before, after)
    assert time.thread_time() - start < PATIENCE_S
    assert 0 < len(comparison.changes) <= MAX_CHANGES
    shown = sum(len(str(piece.value)) for change in comparison.changes for piece in change.pieces)
    assert shown <= MAX_SHOWN_LENGTH + 500 * MAX_CHANGES
    assert comparison.cut or name == "deep"


def test_a_word_changed_in_a_megabyte_is_found() -> None:
    words = many_words(3)
    after = [*words[:90_000], "HERE", *words[90_001:]]
    for put in (" ".join, in_lines):
        [change] = compare(put(words), put(after)).changes
        assert [piece.value for piece in change.pieces if piece.sign == "added"] == ["HERE"]
