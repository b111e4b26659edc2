"""Whatever a card says, Discord takes it, and people read what is there."""

import pytest
from hypothesis import given

from placet.channels.discord import render
from placet.errors import ChannelRefused
from placet.testing.platforms import CLOSURES, sample_card, sample_closure
from tests.channels.cards import TEXT, cards
from tests.channels.discord.discord_api import problems_of, read


@pytest.mark.spec("7.5-channel-limits")
@given(card=cards())
def test_any_card_keeps_to_discords_limits(card):
    assert problems_of(render.build_message(card)) == []


@given(card=cards(), by=TEXT, reason=TEXT, action=TEXT)
def test_any_ending_keeps_to_discords_limits(card, by, reason, action):
    endings = [
        sample_closure(by=by, action=action),
        sample_closure(how="withdrawn", reason=reason),
        *CLOSURES.values(),
    ]
    for one in endings:
        assert problems_of(render.build_closed_message(card, one)) == []
        assert problems_of(render.build_follow_up(card, one, "1")) == []


@pytest.mark.spec("7.5-agent-link")
@given(card=cards())
def test_any_card_offers_its_link(card):
    message = render.build_message(card)
    buttons = [button for row in message["components"] for button in row["components"]]
    linked = [button["url"] for button in buttons if "url" in button]
    assert [*linked, *read(message["content"])[1]] == [card.review_url]


@given(text=TEXT)
def test_any_reply_keeps_to_discords_limits(text):
    answer = render.build_reply(text)
    assert [one for one in problems_of(answer) if one != "there is no text"] == []


def test_card_shows_source_prompt_deadline_and_default():
    text, _ = read(render.build_message(sample_card())["content"])
    assert text.splitlines() == [
        "Acme asks for your approval",
        "",
        "Send the newsletter to 1,200 readers?",
        "",
        "The spring issue is ready.",
        "",
        "Subject: Spring",
        "Readers: 1200",
        "",
        "Open until 1767261600:F, 1767261600:R",
        "If nobody answers: it counts as a no.",
    ]


@pytest.mark.parametrize(
    "url", ["https://acme.example/\ud800", "https://acme.example/\n", "https://a.b/" + "x" * 9000]
)
def test_a_link_that_cannot_be_shown_is_refused(url):
    with pytest.raises(ChannelRefused, match="link"):
        render.build_message(sample_card(review_url=url))
