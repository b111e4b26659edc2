"""Whatever a card says, Teams takes it, and people read what is there."""

from typing import Any

import pytest
from hypothesis import given, settings

from placet.channels.teams import render
from placet.ports.channel import Button
from placet.testing.platforms import sample_card, sample_closure
from tests.channels.cards import TEXT, cards
from tests.channels.teams.bot_connector import problems_of, read_visible_text


def build_message(card: dict[str, Any], summary: str) -> dict[str, Any]:
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "summary": summary, "attachments": [attachment]}


@pytest.mark.spec("7.5-channel-limits")
@given(card=cards())
def test_any_card_keeps_to_teams_limits(card):
    assert problems_of(build_message(render.build_card(card), render.build_summary(card))) == []


@settings(max_examples=40)
@given(card=cards(), by=TEXT, reason=TEXT, action=TEXT)
def test_any_ending_keeps_to_teams_limits(card, by, reason, action):
    for one in (sample_closure(by=by, action=action), sample_closure(how="withdrawn", reason=reason)):
        said = render.build_summary(card, one)
        assert problems_of(build_message(render.build_closed_card(card, one), said)) == []
        assert problems_of(build_message(render.build_follow_up(card, one), said)) == []


@pytest.mark.spec("7.5-agent-link")
@given(card=cards())
def test_any_card_offers_its_link(card):
    rows = [part["actions"] for part in render.build_card(card)["body"] if part["type"] == "ActionSet"]
    assert [action["url"] for row in rows for action in row if "url" in action] == [card.review_url]


def test_card_shows_source_prompt_deadline_and_default():
    assert read_visible_text(render.build_card(sample_card())).splitlines() == [
        "Acme asks for your approval",
        "Send the newsletter to 1,200 readers?",
        "The spring issue is ready.",
        "Subject: Spring",
        "Readers: 1200",
        "Open until Thursday 1 January 2026, 10:00 UTC",
        "If nobody answers: it counts as a no.",
    ]


def rows(card: dict[str, Any]) -> list[list[str]]:
    sets = [part["actions"] for part in card["body"] if part["type"] == "ActionSet"]
    return [[action["title"] for action in actions] for actions in sets]


def test_few_buttons_share_a_row():
    assert rows(render.build_card(sample_card())) == [["Approve", "Reject", "Open the review"]]


def test_buttons_that_would_be_cut_off_get_a_row_of_their_own():
    labels = ["Yes, and send it to everybody", "Yes, but only to the first few", "No"]
    buttons = tuple(Button(action="x", label=label, reference=label[:3]) for label in labels)
    assert rows(render.build_card(sample_card("x-vote", buttons=buttons))) == [
        ["Yes, and send it to everybody"],
        ["Yes, but only to the first few", "No"],
        ["Open the review"],
    ]
