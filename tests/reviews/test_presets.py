"""Reasons that a service suggests, and names that it gives its actions."""

from typing import Any

import pytest

from placet.cases.action_labels import read_action_labels
from placet.reviews.reason_presets import find_presets_key, read_presets, read_text_with_preset
from placet.reviews.review_type import omit_from_context

SHORT = {"label": "Too long", "text": "Please cut it to five lines."}
CONTEXT = {"reason_presets": ["Wrong tone", SHORT]}


@pytest.mark.parametrize("name", ["reason_presets", "presets"])
def test_a_suggestion_is_a_text_or_a_label_with_its_text(name: str) -> None:
    context = {name: ["Wrong tone", SHORT, {"text": "No"}], "order": 7}
    assert read_presets(context) == [
        {"label": "Wrong tone", "text": "Wrong tone"},
        SHORT,
        {"label": "No", "text": "No"},
    ]
    assert find_presets_key(context) == name


@pytest.mark.parametrize(
    "raw",
    [
        [],
        "Wrong tone",
        {"label": "Wrong tone"},
        ["Wrong tone", ""],
        ["Wrong tone", 7],
        ["x" * 81],
        ["two\nlines"],
        [{"label": "a", "text": "x" * 1001}],
        [{"label": "a", "more": "b"}],
        [str(number) for number in range(13)],
    ],
)
def test_malformed_suggestions_are_shown_as_a_fact(raw: Any) -> None:
    assert read_presets({"presets": raw}) == []
    assert find_presets_key({"presets": raw}) is None


@pytest.mark.parametrize(
    ("pairs", "written"),
    [
        ([], None),
        ([("note", "Mine")], "Mine"),
        ([("note", "Mine"), ("preset", "")], "Mine"),
        ([("note", ""), ("preset", "1")], "Wrong tone"),
        ([("preset", "2")], "Please cut it to five lines."),
        ([("note", "Mine"), ("preset", "1")], "Wrong tone\n\nMine"),
        ([("note", "Wrong tone, I think"), ("preset", "1")], "Wrong tone, I think"),
        ([("note", "Mine"), ("preset", "3")], "Mine"),
        ([("note", "Mine"), ("preset", "-1")], "Mine"),
    ],
)
def test_a_picked_suggestion_stands_before_what_was_written(
    pairs: list[tuple[str, str]], written: str | None
) -> None:
    assert read_text_with_preset(CONTEXT, pairs, "note") == written


def test_a_service_names_its_actions_in_words_that_fit_on_a_button() -> None:
    labels = {
        "approve": " Send 3 emails ",
        "reject": "Do not send",
        "edit": "x" * 41,
        "a": "",
        "b": 7,
        "c": "two\nlines",
        "d": "hid\u202eden",
    }
    assert read_action_labels({"action_labels": labels}) == {
        "approve": "Send 3 emails",
        "reject": "Do not send",
    }


@pytest.mark.parametrize("raw", [None, [], "Send", {"approve": "Go", "reject": "GO"}])
def test_names_that_do_not_distinguish_actions_are_ignored(raw: Any) -> None:
    assert read_action_labels({"action_labels": raw}) == {}


def test_names_of_actions_are_no_facts_unless_they_cannot_be_used() -> None:
    assert omit_from_context({"action_labels": {"approve": "Send"}, "order": 7}) == {"order": 7}
    assert omit_from_context({"action_labels": "Send", "order": 7}, "order") == {"action_labels": "Send"}
