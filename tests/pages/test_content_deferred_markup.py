"""Much content is drawn bit by bit: the same as in one go, with nobody kept waiting for long."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.pages.content import ValueRenderer
from placet.pages.content.deferred_markup import DeferredMarkup, split_lines, split_text
from placet.pages.language import ENGLISH
from placet.text.characters import mark_hidden
from tests.pages.test_content_values import BOMBS

VALUES = ValueRenderer(ENGLISH)
ARTICLE = "\n\n".join(f"## Part {number}\n\nA *fine* `word`\n\n- one\n- two" for number in range(120))
MUCH: dict[str, Any] = {
    **BOMBS,
    "a list of objects": [{"number": number, "deep": [number, {"x": 1}]} for number in range(5000)],
    "Markdown": {"format": "markdown", "content": ARTICLE},
    "code": {"language": "python", "content": "print('<word>')  # and on\n" * 2500},
    "a short diff": {"diff": "@@ -1 +1 @@\n" + "-a <b>\n+b & c and so on\n" * 1200},
    "words that join": "\U0001f469\u200d\U0001f4bb \u0645\u06cc\u200c\u062e " * 4000,
}
words = st.sampled_from(
    ["a", "b ", "c\n", "\u200dd", "\U0001f469\u200d", "\u0645\u200c", "e\ufe0f", "f\u202e", "g\r\n"]
)


@pytest.mark.parametrize("name", MUCH)
def test_bit_by_bit_it_is_the_same_as_in_one_go(name: str) -> None:
    pieces = list(ValueRenderer(ENGLISH).pieces({"value": MUCH[name]}))
    assert "".join(pieces) == VALUES.facts({"value": MUCH[name]})


@pytest.mark.parametrize("name", ["text", "a list of objects", "Markdown", "code", "a short diff"])
def test_no_piece_is_long(name: str) -> None:
    pieces = list(ValueRenderer(ENGLISH).pieces({"value": MUCH[name]}))
    longest = max(map(len, pieces))
    assert longest < 100_000
    assert len(pieces) > 2


def test_what_is_decided_comes_in_pieces_with_the_hints_it_is_shown_by() -> None:
    context = {"artifact": ARTICLE, "artifact_format": "markdown"}
    pieces, hints = ValueRenderer(ENGLISH).artifact_pieces(ARTICLE, context)
    assert hints == {"artifact_format"}
    assert "".join(pieces) in VALUES.show({"content": ARTICLE, "format": "markdown"})


@given(st.lists(words, max_size=60), st.integers(8, 40))
def test_hidden_characters_are_judged_as_in_the_whole_text(parts: list[str], size: int) -> None:
    text = "".join(parts)
    pieces = list(split_text(text, size))
    assert "".join(pieces) == text
    assert "".join(map(mark_hidden, pieces)) == mark_hidden(text)
    assert "\n".join(split_lines(text, size)) == text


def test_what_looks_like_a_place_for_later_is_only_text() -> None:
    later, other = DeferredMarkup(), DeferredMarkup()
    place = later.defer(lambda: ["late"])
    assert "".join(later.fill(f"a{place}b")) == "alateb"
    other.defer(lambda: ["other"])
    assert "".join(other.fill(f"a{place}b")) == f"a{place}b"
