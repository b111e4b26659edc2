"""RecordingChannel, which users test with, passes the channel contract except for rendering."""

import asyncio

import pytest

from placet.errors import ChannelRefused, SignatureInvalid
from placet.ports.channel import WebhookRequest
from placet.testing.channel import RecordingChannel
from placet.testing.platforms import sample_card, sample_closure

pytestmark = pytest.mark.anyio


async def test_cards_and_their_endings_are_remembered():
    channel, card = RecordingChannel(), sample_card()
    ticket = await channel.send(card)
    other = await channel.send(card)
    await channel.mark_closed(ticket, card, sample_closure())
    assert [(one.sent_message, one.card, one.closure) for one in channel.sent] == [
        (ticket, card, sample_closure()),
        (other, card, None),
    ]


async def test_a_press_is_heard_by_listening_and_by_webhook():
    channel = RecordingChannel()
    await channel.send(sample_card())
    made = channel.press("reject", user_id="9", name="Bob")
    async with asyncio.timeout(60):
        (heard,) = await anext(channel.listen())
    assert heard == made
    assert made.reference == sample_card().buttons[1].reference
    assert (await channel.handle_webhook(channel.call_for(made))).interactions == (made,)


async def test_an_ended_card_cannot_be_pressed():
    channel = RecordingChannel()
    await channel.mark_closed(await channel.send(sample_card()), sample_card(), sample_closure())
    with pytest.raises(IndexError):
        channel.press("approve")


async def test_a_call_without_a_valid_signature_is_refused():
    with pytest.raises(SignatureInvalid):
        await RecordingChannel().handle_webhook(WebhookRequest(method="POST", headers={}, body=b"{}"))


async def test_failures_come_when_they_are_expected():
    channel = RecordingChannel()
    channel.expect(ChannelRefused())
    with pytest.raises(ChannelRefused):
        await channel.send(sample_card())
    await channel.send(sample_card())
    assert len(channel.sent) == 1


async def test_a_test_can_wait_for_what_is_said():
    channel = RecordingChannel()
    await channel.send(sample_card())
    press = channel.press("approve")
    async with asyncio.TaskGroup() as group:
        group.create_task(channel.wait_until(lambda: bool(channel.answers)))
        group.create_task(channel.reply(press, "Recorded."))
    assert channel.answers == [(press, "Recorded.")]
    await channel.aclose()
    assert channel.is_closed
