"""Whatever a card says, Slack takes it, and people read what is there."""

import pytest
from hypothesis import given, settings

from placet.channels.slack import render
from placet.testing.platforms import sample_card, sample_closure
from tests.channels.cards import TEXT, cards
from tests.channels.slack.workspace import PLACE, problems_of, texts_of

POSTED = {"channel": PLACE, "unfurl_links": False, "unfurl_media": False}


@pytest.mark.spec("7.5-channel-limits")
@given(card=cards())
def test_any_card_keeps_to_slacks_limits(card):
    assert problems_of("chat.postMessage", {**POSTED, **render.build_message(card)}) == []


@settings(max_examples=40)
@given(card=cards(), by=TEXT, reason=TEXT, action=TEXT)
def test_any_ending_keeps_to_slacks_limits(card, by, reason, action):
    for one in (sample_closure(by=by, action=action), sample_closure(how="withdrawn", reason=reason)):
        changed = {"channel": PLACE, "ts": "1.1", **render.build_closed_message(card, one)}
        assert problems_of("chat.update", changed) == []
        assert problems_of("chat.postMessage", {**POSTED, **render.build_follow_up(card, one)}) == []


@pytest.mark.spec("7.5-agent-link")
@given(card=cards())
def test_any_card_offers_its_link(card):
    buttons = render.build_message(card)["blocks"][-1]["elements"]
    assert [button["url"] for button in buttons if "url" in button] == [card.review_url]


@given(text=TEXT)
def test_any_reply_is_short_and_without_markup(text):
    told = render.build_reply(text)
    assert len(told) <= render.MAX_REPLY_LENGTH
    assert not set(told) & set("<>")


def test_card_shows_source_prompt_deadline_and_default():
    assert texts_of(render.build_message(sample_card())["blocks"]) == [
        "Acme asks for your approval",
        "Send the newsletter to 1,200 readers?",
        "The spring issue is ready.",
        "Subject\nSpring",
        "Readers\n1200",
        "Open until Thursday 1 January 2026, 10:00 UTC",
        "If nobody answers: it counts as a no.",
        "Approve",
        "Reject",
        "Open the review",
    ]
