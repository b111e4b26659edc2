"""Telegram only: long polling, groups that move, messages that cannot be changed, error texts."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from placet.channels.telegram import TelegramChannel, from_environment
from placet.channels.telegram.channel import MAX_UPDATES
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Channel, Interaction, WebhookRequest
from placet.testing.platforms import sample_card, sample_closure
from tests.channels.loopback import HANG_UP, Answer
from tests.channels.telegram.bot_api import CHAT, SECRET, TOKEN, TelegramHarness, refusal

pytestmark = pytest.mark.anyio


async def collect_presses(channel: Channel, times: int = 1) -> list[Sequence[Interaction]]:
    """The next presses that the channel hears by itself."""
    found: list[Sequence[Interaction]] = []
    async with aclosing(channel.listen()) as listening:  # type: ignore[type-var]
        async for presses in listening:
            found.append(presses)
            if len(found) == times:
                break
    return found


async def test_presses_are_heard_without_a_public_address(harness: TelegramHarness):
    harness.api.updates = [harness.api.press(1, "h1.yes", user_id=7, name="Ada Lovelace")]
    ((press,),) = await collect_presses(harness.channel)
    assert (press.reference, press.user.user_id, press.user.name) == ("h1.yes", "7", "Ada Lovelace")
    wanted = {"timeout": 1, "allowed_updates": ["callback_query"], "limit": MAX_UPDATES}
    assert harness.server.requests[0].json == wanted


async def test_many_large_presses_do_not_block_later_ones(harness: TelegramHarness):
    """Every press comes with the whole message, each of its 4096 signs written as \\u and four digits."""
    crowd = [harness.api.press(1, "h1.yes", user_id=user_id) for user_id in range(100, 199)]
    for update in crowd:
        update["callback_query"]["message"]["text"] = "\\u0416" * 4096
    harness.api.updates = [*crowd, harness.api.press(1, "h1.yes", user_id=7)]
    found = [
        press.user.user_id for presses in await collect_presses(harness.channel, times=4) for press in presses
    ]
    assert (len(found), found[-1]) == (100, "7")


async def test_an_update_that_cannot_be_read_is_confirmed_like_any_other(harness: TelegramHarness):
    harness.api.updates = [{"update_id": 1, "callback_query": {"id": 4711}}]
    hearing = asyncio.create_task(collect_presses(harness.channel))
    await harness.server.wait_until(
        lambda: any(one.json.get("offset") == 2 for one in harness.server.requests)
    )
    harness.api.deliver(harness.api.press(1, "h1.yes") | {"update_id": 2})
    ((press,),) = await hearing
    assert press.reference == "h1.yes"


async def test_a_press_is_confirmed_only_after_it_was_handled(harness: TelegramHarness):
    harness.api.updates = [harness.api.press(1, "h1.yes")]
    async with aclosing(harness.channel.listen()) as listening:  # type: ignore[type-var]
        await anext(listening)
        assert [request.json.get("offset") for request in harness.server.requests] == [None]
        harness.api.updates.append(later := harness.api.press(1, "h1.no"))
        (press,) = await anext(listening)
    assert press.reference == "h1.no"
    assert harness.server.requests[-1].json["offset"] == later["update_id"]


async def test_unconfirmed_press_is_received_again_after_a_crash(harness: TelegramHarness):
    harness.api.updates = [harness.api.press(1, "h1.yes")]
    (first,) = await collect_presses(harness.channel)
    (again,) = await collect_presses(harness.channel)
    assert first == again


async def test_other_updates_are_ignored(harness: TelegramHarness):
    strange: list[Any] = [{"update_id": 5}, {"update_id": 6, "message": {}}, "strange"]
    harness.server.planned.append(Answer(json={"ok": True, "result": strange}))
    harness.api.updates = [{**harness.api.press(1, "h1.yes"), "update_id": 7}]
    ((press,),) = await collect_presses(harness.channel)
    assert press.reference == "h1.yes"
    assert harness.server.requests[-1].json["offset"] == 7


async def test_listening_retries_with_growing_waits(harness: TelegramHarness, recorded_waits: list[float]):
    harness.api.updates = [harness.api.press(1, "h1.yes")]
    trouble = [HANG_UP, Answer(status=502, body=b"<html>"), refusal(500, "Internal"), refusal(429, "Slow")]
    conflict = refusal(409, "Conflict: terminated by other getUpdates request; make sure that only one …")
    harness.server.planned += [*trouble, conflict]
    ((press,),) = await collect_presses(harness.channel)
    assert press.reference == "h1.yes"
    assert recorded_waits == [1, 2, 4, 8, 16]


async def test_listening_continues_after_a_day_of_failures(
    harness: TelegramHarness, recorded_waits: list[float]
):
    """A break doubles each time: after some seventeen hours no number is large enough for it."""
    harness.api.updates = [harness.api.press(1, "h1.yes")]
    harness.server.planned += [refusal(409, "Conflict: terminated by other getUpdates request")] * 1100
    ((press,),) = await collect_presses(harness.channel)
    assert press.reference == "h1.yes"
    assert recorded_waits[-1] == 60


async def test_configured_webhook_that_prevents_polling_is_reported(harness: TelegramHarness):
    conflict = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to …"
    harness.server.planned.append(refusal(409, conflict))
    with pytest.raises(SettingsError, match="deleteWebhook"):
        await collect_presses(harness.channel)


async def test_a_wrong_token_ends_listening(harness: TelegramHarness):
    harness.server.planned.append(refusal(401, "Unauthorized"))
    with pytest.raises(ChannelRefused, match="PLACET_TELEGRAM_BOT_TOKEN"):
        await collect_presses(harness.channel)


async def test_a_group_that_became_a_supergroup_is_followed(harness: TelegramHarness):
    moved = "Bad Request: group chat was upgraded to a supergroup chat"
    harness.server.planned.append(refusal(400, moved, migrate_to_chat_id=-1009))
    ticket = await harness.channel.send(sample_card())
    assert ticket.conversation_id == "-1009"
    assert [request.json["chat_id"] for request in harness.server.requests] == [str(CHAT), "-1009"]


@pytest.mark.parametrize(
    "words", ["message can't be edited", "message to edit not found", "MESSAGE_ID_INVALID"]
)
async def test_a_message_that_cannot_change_gets_a_reply(harness: TelegramHarness, words: str):
    ticket = await harness.channel.send(sample_card())
    harness.server.planned.append(refusal(400, f"Bad Request: {words}"))
    await harness.channel.mark_closed(ticket, sample_card(), sample_closure())
    follow_up = harness.server.requests[-1].json
    assert follow_up["reply_parameters"] == {"message_id": 1, "allow_sending_without_reply": True}
    assert "Approved by Ada" in harness.list_messages()[-1].text
    assert harness.list_messages()[-1].problems == ()


async def test_blocked_bot_cannot_close_a_message(harness: TelegramHarness):
    ticket = await harness.channel.send(sample_card())
    harness.refuse_next()
    with pytest.raises(ChannelRefused, match="blocked by the user"):
        await harness.channel.mark_closed(ticket, sample_card(), sample_closure())


async def test_reply_to_an_expired_press_is_dropped(harness: TelegramHarness):
    ticket = await harness.channel.send(sample_card())
    call = harness.press(ticket, "h1.yes", user_id="7", name="Ada")
    (press,) = (await harness.channel.handle_webhook(call)).interactions
    old = "Bad Request: query is too old and response timeout expired or query ID is invalid"
    harness.server.planned.append(refusal(400, old))
    await harness.channel.reply(press, "Recorded.")
    assert harness.list_replies() == []


async def test_an_answer_that_telegram_refuses_is_a_refusal(harness: TelegramHarness):
    ticket = await harness.channel.send(sample_card())
    (press,) = (
        await harness.channel.handle_webhook(harness.press(ticket, "x", user_id="7", name="Ada"))
    ).interactions
    harness.refuse_next()
    with pytest.raises(ChannelRefused):
        await harness.channel.reply(press, "Recorded.")


async def test_a_long_answer_opens_a_dialog_and_a_short_one_does_not(harness: TelegramHarness):
    ticket = await harness.channel.send(sample_card())
    (press,) = (
        await harness.channel.handle_webhook(harness.press(ticket, "x", user_id="7", name="Ada"))
    ).interactions
    for text in ("Recorded.", "You are not allowed to answer this here, so nothing was recorded."):
        await harness.channel.reply(press, text)
    assert [one.json["show_alert"] for one in harness.server.at("answerCallbackQuery")] == [False, True]


async def test_long_retry_after_is_not_waited_for(harness: TelegramHarness, recorded_waits: list[float]):
    harness.server.planned.append(refusal(429, "Too Many Requests", retry_after=3000))
    with pytest.raises(Unreachable):
        await harness.channel.send(sample_card())
    assert recorded_waits == []


async def test_telegrams_error_is_passed_on_without_urls(harness: TelegramHarness):
    card = sample_card()
    complaint = f"Bad Request: inline keyboard button URL '{card.review_url}' is invalid: Wrong HTTP URL"
    harness.server.planned.append(refusal(400, complaint))
    with pytest.raises(ChannelRefused, match="Wrong HTTP URL") as refused:
        await harness.channel.send(card)
    assert "token" not in refused.value.message


async def test_response_to_a_send_must_contain_the_message_id(harness: TelegramHarness):
    harness.server.planned.append(Answer(json={"ok": True, "result": True}))
    with pytest.raises(Unreachable):
        await harness.channel.send(sample_card())


async def test_a_reference_too_long_for_a_button_is_refused_by_telegram(harness: TelegramHarness):
    card = sample_card()
    long = replace(card.buttons[0], reference="é" * 33)
    harness.server.planned.append(refusal(400, "Bad Request: BUTTON_DATA_INVALID"))
    with pytest.raises(ChannelRefused, match="BUTTON_DATA_INVALID"):
        await harness.channel.send(replace(card, buttons=(long,)))


async def test_without_a_secret_every_webhook_is_refused(harness: TelegramHarness):
    channel = TelegramChannel(token=TOKEN, chat_id="1", api_url=harness.server.url)
    with pytest.raises(SettingsError, match="PLACET_TELEGRAM_WEBHOOK_SECRET"):
        await channel.handle_webhook(
            WebhookRequest(method="POST", headers={"x-telegram-bot-api-secret-token": ""}, body=b"{}")
        )
    await channel.aclose()


async def test_the_environment_opens_a_channel(harness: TelegramHarness):
    environ = {
        "PLACET_TELEGRAM_BOT_TOKEN": TOKEN,
        "PLACET_TELEGRAM_CHAT_ID": "99",
        "PLACET_TELEGRAM_WEBHOOK_SECRET": SECRET,
        "PLACET_TELEGRAM_API_URL": harness.server.url,
    }
    channel = from_environment(environ)
    ticket = await channel.send(sample_card())
    assert ticket.conversation_id == "99"
    await channel.aclose()


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, "PLACET_TELEGRAM_BOT_TOKEN and PLACET_TELEGRAM_CHAT_ID"),
        ({"PLACET_TELEGRAM_BOT_TOKEN": TOKEN}, "PLACET_TELEGRAM_CHAT_ID"),
        ({"PLACET_TELEGRAM_BOT_TOKEN": "a/b?", "PLACET_TELEGRAM_CHAT_ID": "1"}, "BotFather"),
        (
            {
                "PLACET_TELEGRAM_BOT_TOKEN": TOKEN,
                "PLACET_TELEGRAM_CHAT_ID": "1",
                "PLACET_TELEGRAM_WEBHOOK_SECRET": "not this!",
            },
            "A-Z",
        ),
        (
            {
                "PLACET_TELEGRAM_BOT_TOKEN": TOKEN,
                "PLACET_TELEGRAM_CHAT_ID": "1",
                "PLACET_TELEGRAM_API_URL": "http://telegram.example",
            },
            "https",
        ),
    ],
)
async def test_missing_or_invalid_settings_are_named(environ: dict[str, str], named: str):
    with pytest.raises(SettingsError, match=named):
        from_environment(environ)
