"""Whatever a card says, Telegram takes it, and people read what is there."""

import pytest
from hypothesis import given

from placet.channels.telegram import render
from placet.errors import ChannelRefused
from placet.testing.platforms import CLOSURES, sample_card, sample_closure
from tests.channels.cards import TEXT, cards
from tests.channels.telegram.bot_api import problems_of
from tests.channels.telegram.documented_limits import read_text


@pytest.mark.spec("7.5-channel-limits")
@given(card=cards())
def test_any_card_keeps_to_telegrams_limits(card):
    assert problems_of("sendMessage", {"chat_id": 1, **render.build_message(card)}) == []


@given(card=cards(), by=TEXT, reason=TEXT, action=TEXT)
def test_any_ending_keeps_to_telegrams_limits(card, by, reason, action):
    endings = [
        sample_closure(by=by, action=action),
        sample_closure(how="withdrawn", reason=reason),
        *CLOSURES.values(),
    ]
    for one in endings:
        changed = {"chat_id": 1, "message_id": 1, **render.build_closed_message(card, one)}
        assert problems_of("editMessageText", changed) == []
        assert problems_of("sendMessage", {"chat_id": 1, **render.build_follow_up(card, one, 1)}) == []


@pytest.mark.spec("7.5-agent-link")
@given(card=cards())
def test_any_card_offers_its_link(card):
    message = render.build_message(card)
    buttons = [button for row in message["reply_markup"]["inline_keyboard"] for button in row]
    linked = [button["url"] for button in buttons if "url" in button]
    assert linked == [card.review_url] or card.review_url in read_text(message["text"])


def test_card_shows_source_prompt_deadline_and_default():
    text = read_text(render.build_message(sample_card())["text"])
    assert text.splitlines() == [
        "Acme asks for your approval",
        "",
        "Send the newsletter to 1,200 readers?",
        "",
        "The spring issue is ready.",
        "",
        "• Subject: Spring",
        "• Readers: 1200",
        "",
        "Open until Thursday 1 January 2026, 10:00 UTC",
        "If nobody answers: it counts as a no.",
    ]


def test_a_long_message_is_folded():
    assert "<blockquote expandable>" in render.build_message(sample_card(message="word " * 100))["text"]


@pytest.mark.parametrize(
    "url", ["https://acme.example/\ud800", "https://acme.example/\n", "https://a.b/" + "x" * 9000]
)
def test_a_link_that_cannot_be_shown_is_refused(url):
    with pytest.raises(ChannelRefused, match="link"):
        render.build_message(sample_card(review_url=url))
