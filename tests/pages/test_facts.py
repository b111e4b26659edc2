"""Unknown values get a look that a person can read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.pages.content.display_forms import choose_form, format_label
from placet.pages.content.links import is_link


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "nothing"),
        ("", "nothing"),
        (" \n", "nothing"),
        ([], "nothing"),
        ({}, "nothing"),
        (0, "text"),
        (False, "yes_no"),
        (1.5, "text"),
        ("word", "text"),
        ("two\nlines", "lines"),
        ("x" * 161, "lines"),
        ("https://example.com/a?b=c#d", "link"),
        ("2026-06-18", "day"),
        ("2026-13-18", "text"),
        ("2026-06-18T09:00:00Z", "moment"),
        ("2026-06-18 09:00", "moment"),
        ("2026-06-18T25:00:00Z", "text"),
        ("0001-01-01T00:00:00+14:00", "text"),
        ("٢٠٢٦-٠٦-١٨", "text"),
        ({"a": 1}, "facts"),
        (["a", 2], "items"),
        ([{"a": 1}, {"b": "x"}], "table"),
        ([{"a": 1}], "entries"),
        ([{"a": [1]}, {"a": 2}], "entries"),
        ([dict.fromkeys("abcdefg", 1)] * 2, "entries"),
        ([["nested"]], "entries"),
        ([{}, {"a": 1}], "entries"),
    ],
)
def test_each_value_has_its_look(value: Any, name: str) -> None:
    assert choose_form(value) == name


@pytest.mark.parametrize(
    "text",
    [
        "http://example.com",
        "javascript:alert(1)",
        "HTTPS://example.com",
        "https://",
        "https:///path",
        "https://user:pass@example.com",
        "https://example.com@evil.example",
        "https://exam\u202eple.com",
        "https://exämple.com",
        "https://example.com:99999",
        "https://[::1",
        'https://example.com/"onclick="x',
        "https://example.com/a b",
        "https://example.com/\n",
        "https://example.com/" + "a" * 2048,
    ],
)
def test_only_plain_https_addresses_become_links(text: str) -> None:
    assert not is_link(text)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("price_per_day", "Price per day"),
        ("walkFromStation", "Walk from station"),
        ("EUR", "EUR"),
        ("customer-id", "Customer id"),
        ("if_EU_only", "If EU only"),
        ("Zwei Wörter", "Zwei Wörter"),
        ("<b>", "<b>"),
        ("_", "_"),
        ("", ""),
    ],
)
def test_keys_become_words(key: str, words: str) -> None:
    assert format_label(key) == words


@given(st.text(st.characters()))
def test_any_text_has_a_look_and_a_label(text: str) -> None:
    assert choose_form(text) in {"nothing", "text", "lines", "link", "day", "moment"}
    assert isinstance(format_label(text), str)
