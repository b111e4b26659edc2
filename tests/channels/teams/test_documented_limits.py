"""The table of Teams' documented limits, and that the official schema refuses what is no card."""

from typing import Any

import pytest

from placet.channels.teams.render import build_card
from placet.testing.platforms import sample_card
from tests.channels.teams import documented_limits
from tests.channels.teams.bot_connector import TEAMS, schema


def card(*body: dict[str, Any]) -> dict[str, Any]:
    return {"type": "AdaptiveCard", "version": "1.5", "body": list(body)}


def text(words: str) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": words}]}


def press(title: str = "Yes", reference: str = "ref") -> dict[str, Any]:
    return {"type": "Action.Execute", "title": title, "verb": "v", "data": {"reference": reference}}


def row(*actions: dict[str, Any]) -> dict[str, Any]:
    return {"type": "ActionSet", "actions": list(actions)}


REFUSED = {
    "large": card(text("x" * 28 * 1024)),
    "empty": card(),
    "no text": card(text("")),
    "no button": card(text("x"), row()),
    "many buttons": card(text("x"), row(*[press()] * 7)),
    "no title": card(text("x"), row(press(title=""))),
    "long title": card(text("x"), row(press(title="🤖" * 21))),
    "no reference": card(text("x"), row(press(reference=""))),
    "long reference": card(text("x"), row(press(reference="x" * 65))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_content_that_teams_refuses_or_drops_is_a_violation(name: str):
    assert documented_limits.find_violations(REFUSED[name])


def test_card_at_the_limits_passes():
    fitting = card(text("x" * 20_000), row(*[press("x" * 40, "x" * 64)] * 6))
    assert documented_limits.find_violations(fitting) == []
    assert [*schema().iter_errors(fitting)] == []


def test_size_limit_equals_an_independent_table():
    assert TEAMS.max_card_size() * 1024 == documented_limits.CARD_BYTES


def test_a_question_is_an_adaptive_card():
    assert [*schema().iter_errors(build_card(sample_card()))] == []


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1.5},
        {"body": [{"type": "RichTextBlock"}]},
        {"body": [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": 7}]}]},
        {"body": [{"type": "ActionSet", "actions": [{"type": "Action.OpenUrl", "title": "x"}]}]},
        {"body": [{"type": "ActionSet", "actions": [{"type": "Action.Execute", "style": "loud"}]}]},
        {"body": "x"},
    ],
    ids=range(6),
)
def test_the_official_schema_refuses_what_is_no_card(change: dict[str, Any]):
    assert [*schema().iter_errors({**build_card(sample_card()), **change})]
