"""Any value becomes something a person can read, whatever it is and however much of it there is."""

from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.pages.content import ValueRenderer
from placet.pages.language import ENGLISH, Language
from tests.pages.markup import Markup

VALUES = ValueRenderer(ENGLISH)
TEXT_TAGS = "a b bdi br code em s small span strong time h3 h4 h5 h6 p pre blockquote hr img"
BLOCK_TAGS = "ins del dd details div dl dt figcaption figure li ol summary table tbody td th thead tr ul"
ALLOWED = {*TEXT_TAGS.split(), *BLOCK_TAGS.split()}
HINTS = (
    "content",
    "format",
    "type",
    "language",
    "filename",
    "diff",
    "body_html",
    "image",
    "notes.md",
    "old",
    "new",
)
FORMATS = ("markdown", "html", "json", "csv", "diff", "python", "image/png", "text/plain")
NASTY = (
    *("<script>x</script>", '"><img src=x onerror=y>', "[a](javascript:x)", "\u202e", "`" * 3),
    "|a|b|\n|-|-|\n",
)


def draw_artifact(value: Any, context: dict[str, Any], service: str | None = None) -> str:
    """Return what a page shows of an artifact, with its pieces joined."""
    pieces, _ = VALUES.artifact_pieces(value, context, service)
    return "".join(pieces)


def text_of(value: Any) -> str:
    return " ".join(sound(VALUES.show(value)).text.split())


def sound(markup: str) -> Markup:
    page = Markup(str(markup))
    assert page.problems == []
    assert {tag for tag, _ in page.tags} <= ALLOWED
    for tag, attributes in page.tags:
        for name in ("href", "src"):
            address = attributes.get(name)
            assert address is None or tag in ("a", "img")
            assert address is None or address.startswith(("https://", "/", "data:image/"))
    return page


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=60)
    | st.sampled_from([*FORMATS, *NASTY]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(HINTS) | st.text(max_size=20), inner, max_size=5)
    ),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None)
@given(json_values)
def test_any_value_is_readable_and_none_of_it_is_markup(value: Any) -> None:
    markup = VALUES.show(value)
    page = sound(markup)
    assert page.text.strip() or page.all("img")
    assert len(markup) < 3000 + 400 * len(repr(value))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(NASTY) | st.text(max_size=30), max_size=12), st.sampled_from(FORMATS))
def test_any_text_may_claim_to_be_of_any_kind(parts: list[str], kind: str) -> None:
    text = "\n".join(parts)
    page = sound(VALUES.show({"content": text, "format": kind}))
    assert page.text.strip()
    sound(draw_artifact(text, {"artifact": text, "artifact_format": kind}, "Service <b>"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "Yes"),
        (False, "No"),
        (None, "nothing"),
        ("", "nothing"),
        ([], "nothing"),
        ({}, "nothing"),
        (0, "0"),
        (2026, "2026"),
        (-12, "-12"),
        (1234567, "1,234,567"),
        (0.1, "0.1"),
        ("1234567", "1234567"),
        ({"customer_id": 1234567}, "Customer id 1234567"),
        ({"orderNumber": 1234567}, "Order number 1234567"),
        ({"revenue": 1234567}, "Revenue 1,234,567"),
        ({"scores": [10000, 20000]}, "Scores 10,000 20,000"),
        ({"year": 12026}, "Year 12026"),
        ("2026-06-18", "18 June 2026"),
        ({"": "x"}, "x"),
        ([[]], "nothing"),
        ({"a": {"b": []}}, "A B nothing"),
    ],
)
def test_a_value_is_said_in_words(value: Any, shown: str) -> None:
    assert text_of(value) == shown


def test_values_are_said_in_the_language_of_the_page() -> None:
    german = ValueRenderer(Language("de"))
    assert "1.234.567,5" in german.show(1234567.5)
    assert "18. Juni 2026" in german.show("2026-06-18")


def test_numbers_of_a_column_stand_at_its_end() -> None:
    page = sound(VALUES.show([{"item": "Chair", "count": 40}, {"item": "Table", "count": None}]))
    assert [cell.get("class") for cell in page.all("td")] == [None, "number", None, "number"]
    assert [cell["data-label"] for cell in page.all("td")] == ["Item", "Count", "Item", "Count"]


def test_a_table_keeps_a_column_that_only_its_last_row_has() -> None:
    rows = [{"a": number} for number in range(300)] + [{"a": 1, "late": "here"}]
    assert "here" in text_of(rows)
    assert "Late" in text_of(rows)


def test_a_long_text_opens_on_demand_and_says_how_long_it_is() -> None:
    text = "\n".join(f"Line {number}" for number in range(1, 201))
    page = sound(VALUES.show(text))
    assert "Show all 200 lines" in page.text
    assert len(page.all("details")) == 1
    assert all(f"Line {number}" in page.text for number in (1, 40, 41, 200))
    assert not sound(VALUES.show("\n".join("abc"))).all("details")


def test_many_rows_items_and_deep_parts_open_on_demand() -> None:
    assert "Show all 40 rows" in text_of([{"a": number, "b": 1} for number in range(40)])
    assert "Show all 40" in text_of([f"Item {number}" for number in range(40)])
    assert "4 fields" in text_of({"a": {"b": {"c": {"d": 1, "e": 2, "f": 3, "g": 4}}}})


def test_what_is_too_much_to_be_drawn_is_still_there_as_text() -> None:
    page = sound(VALUES.show([{"number": number, "deep": [number, {"x": 1}]} for number in range(5000)]))
    assert "more, as text" in page.text
    assert '"number":4999' in page.text


def test_values_beside_json_are_shown_too() -> None:
    assert text_of((1, 2)) == "1 2"
    assert "object at" in text_of([object()])
    assert "half\u27e6U+D800\u27e7" in text_of({"a": ["half\ud800"] * 3})


def test_hidden_characters_are_seen_and_heard() -> None:
    page = sound(VALUES.show({"to\u200btal": "1\u202e00"}))
    marks = [mark for mark in page.all("span") if mark.get("class") == "mark"]
    assert [mark["aria-label"] for mark in marks] == [
        "invisible character, U+200B",
        "character that changes the direction of text, U+202E",
    ]
    assert "1⟦U+202E⟧00" in page.text


def test_a_text_of_hidden_characters_alone_is_not_blank() -> None:
    assert "U+202E" in text_of("\u202e" * 5000)
    assert len(VALUES.show("\u202e\u202d" * 100_000)) < 400_000


LARGE = 1_000_000
BOMBS: dict[str, Any] = {
    "text": "word <b> & more\n" * (LARGE // 16),
    "one line": "[" * LARGE,
    "brackets as Markdown": {"format": "markdown", "content": "[" * LARGE},
    "short brackets as Markdown": {"format": "markdown", "content": "![[" * 13_000},
    "nested quotes": {"format": "markdown", "content": "> " * 20_000},
    "nested lists": {"format": "markdown", "content": "".join(" " * n + "- x\n" for n in range(250))},
    "emphasis": {"format": "markdown", "content": "*a **b " * 5_000},
    "backticks": {"format": "markdown", "content": "`a``b" * 8_000},
    "entities": {"format": "markdown", "content": "&amp;" * 8_000},
    "brackets as JSON": {"format": "json", "content": "[" * LARGE},
    "short brackets as JSON": {"format": "json", "content": "[" * 90_000 + "]" * 90_000},
    "broken HTML": {"format": "html", "content": "<!--" * 45_000},
    "tags without end": {"format": "html", "content": "<a " * 60_000},
    "a hundred thousand cells": [{"a": n, "b": n, "c": "x", "d": "y", "e": None} for n in range(20_000)],
    "a wide table": {"format": "csv", "content": "a,b,c,d,e,f,g,h\n" + "1,2,3,4,5,6,7,8\n" * 50_000},
    "many facts": {f"key_{n}": f"value {n}" for n in range(30_000)},
    "many keys of objects": [{f"k{n}": 1, f"l{n}": 2} for n in range(20_000)],
    "hidden characters": "\u202e\u200b" * (LARGE // 6),
    "a diff": {"diff": "@@ -1 +1 @@\n" + "-a\n+b\n" * (LARGE // 6)},
    "quotes in keys": {'"<&' * 100 + str(n): "'" * 300 for n in range(1000)},
}


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_amounts_take_bounded_time_and_room(name: str) -> None:
    began = process_time()
    markup = VALUES.show(BOMBS[name])
    # Hundreds of times what it takes on an idle machine would still be far from what a bomb wants.
    assert process_time() - began < 2
    assert len(markup) < 9 * LARGE
