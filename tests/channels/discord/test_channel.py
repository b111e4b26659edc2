"""Discord only: handshake and deadlines, direct messages, deleted messages, error texts."""

import msgspec
import pytest
from msgspec.structs import replace

from placet.channels.discord import DiscordChannel, from_environment
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Interaction, WebhookRequest
from placet.testing.platforms import sample_card, sample_closure
from tests.channels.discord.discord_api import PLACE, TOKEN, DiscordHarness, problems_of, refusal
from tests.channels.loopback import Answer

pytestmark = pytest.mark.anyio


async def press_and_parse(harness: DiscordHarness) -> Interaction:
    ticket = await harness.channel.send(sample_card())
    call = harness.press(ticket, "h1.yes", user_id="7", name="Ada")
    (press,) = (await harness.channel.handle_webhook(call)).interactions
    return press


async def test_the_handshake_is_answered(harness: DiscordHarness):
    heard = await harness.channel.handle_webhook(harness.sign_request({"id": "1", "type": 1}))
    assert (heard.status, msgspec.json.decode(heard.body)) == (200, {"type": 1})


async def test_a_press_is_acknowledged_without_touching_the_message(harness: DiscordHarness):
    heard = await harness.channel.handle_webhook(harness.sign_request(harness.build_press("h1.yes")))
    assert msgspec.json.decode(heard.body) == {"type": 6}
    assert harness.server.requests == []


async def test_webhook_response_can_report_the_outcome_of_a_press(harness: DiscordHarness):
    heard = await harness.channel.handle_webhook(harness.sign_request(harness.build_press("h1.yes")))
    assert heard.reply is not None
    response = msgspec.json.decode(heard.reply("*Recorded* " * 500))
    assert response["type"] == 4
    assert response["data"]["flags"] == 64 | 4
    assert response["data"]["content"].startswith(r"\*Recorded\*")
    assert problems_of(response["data"]) == []


async def test_slash_command_is_answered_with_an_explanation(harness: DiscordHarness):
    heard = await harness.channel.handle_webhook(harness.sign_request({"id": "1", "type": 2}))
    assert msgspec.json.decode(heard.body)["data"]["flags"] == 64


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"member": {"user": {"id": "7", "username": "ada"}, "nick": "Countess"}}, "Countess"),
        ({"member": {"user": {"id": "7", "username": "ada", "global_name": "Ada L."}}}, "Ada L."),
        ({"member": None, "user": {"id": "7", "username": "ada"}}, "ada"),
        ({"member": None, "user": {"id": "7"}}, None),
    ],
)
async def test_user_is_read_in_servers_and_direct_messages(harness: DiscordHarness, changes, name):
    call = harness.sign_request({**harness.build_press("h1.yes"), **changes})
    (press,) = (await harness.channel.handle_webhook(call)).interactions
    assert (press.user.user_id, press.user.name) == ("7", name)


async def test_reply_sent_before_the_acknowledgement_is_retried(
    harness: DiscordHarness, recorded_waits: list[float]
):
    press = await press_and_parse(harness)
    harness.server.planned += [refusal(404, 10015, "Unknown Webhook")] * 2
    await harness.channel.reply(press, "Recorded.")
    assert harness.list_replies() == ["Recorded."]
    assert recorded_waits == [0.5, 1.0]


async def test_after_fifteen_minutes_the_answer_is_a_reply_in_the_channel(harness: DiscordHarness):
    press = await press_and_parse(harness)
    harness.server.planned += [refusal(401, 50027, "Invalid Webhook Token")] * 5
    await harness.channel.reply(press, "Recorded.")
    assert harness.list_replies() == []
    reply = harness.server.requests[-1].json
    assert reply["content"] == "Recorded."
    assert reply["message_reference"] == {"message_id": "1001", "fail_if_not_exists": False}
    assert reply["flags"] == 4
    assert harness.list_messages()[-1].problems == ()


async def test_a_press_without_its_token_is_answered_in_the_channel_if_anywhere(harness: DiscordHarness):
    press = await press_and_parse(harness)
    await harness.channel.reply(replace(press, reply_to={}), "Recorded.")
    assert len(harness.server.requests) == 1


async def test_deleted_message_is_replaced_by_a_new_one(harness: DiscordHarness):
    ticket = await harness.channel.send(sample_card())
    harness.api.messages.clear()
    await harness.channel.mark_closed(ticket, sample_card(), sample_closure())
    (shown,) = harness.list_messages()
    assert "Approved by Ada" in shown.text
    assert shown.problems == ()


async def test_removed_bot_cannot_close_a_message(harness: DiscordHarness):
    ticket = await harness.channel.send(sample_card())
    harness.refuse_next()
    with pytest.raises(ChannelRefused, match="Missing Access"):
        await harness.channel.mark_closed(ticket, sample_card(), sample_closure())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal(401, 0, "401: Unauthorized"), "PLACET_DISCORD_BOT_TOKEN"),
        (refusal(404, 10003, "Unknown Channel"), "Unknown Channel"),
        (refusal(400, 50035, "Invalid Form Body https://acme.example?token=x"), "Invalid Form Body …"),
    ],
)
async def test_discords_error_is_passed_on_without_urls(harness: DiscordHarness, answer: Answer, words: str):
    harness.server.planned.append(answer)
    with pytest.raises(ChannelRefused, match=words) as refused:
        await harness.channel.send(sample_card())
    assert "acme" not in refused.value.message


async def test_response_to_a_send_must_contain_the_message_id(harness: DiscordHarness):
    harness.server.planned.append(Answer(json={"id": None}))
    with pytest.raises(Unreachable):
        await harness.channel.send(sample_card())


async def test_two_equal_buttons_are_refused_by_discord(harness: DiscordHarness):
    button = sample_card().buttons[0]
    harness.server.planned.append(refusal(400, 50035, "Component custom id cannot be duplicated"))
    with pytest.raises(ChannelRefused, match="duplicated"):
        await harness.channel.send(sample_card(buttons=(button, button)))


async def test_a_person_gets_direct_messages(harness: DiscordHarness):
    environ = {
        "PLACET_DISCORD_BOT_TOKEN": TOKEN,
        "PLACET_DISCORD_USER_ID": "42",
        "PLACET_DISCORD_API_URL": f"{harness.server.url}/api/v10",
    }
    channel = from_environment(environ)
    tickets = [await channel.send(sample_card()) for _ in range(2)]
    await channel.aclose()
    assert [ticket.conversation_id for ticket in tickets] == ["777", "777"]
    assert [one.json for one in harness.server.at("/users/@me/channels")] == [{"recipient_id": "42"}]


async def test_without_a_public_key_every_webhook_is_refused(harness: DiscordHarness):
    channel = DiscordChannel(token=TOKEN, channel_id=PLACE, api_url=harness.server.url)
    with pytest.raises(SettingsError, match="PLACET_DISCORD_PUBLIC_KEY"):
        await channel.handle_webhook(WebhookRequest(method="POST", headers={}, body=b"{}"))
    await channel.aclose()


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, "PLACET_DISCORD_BOT_TOKEN, and PLACET_DISCORD_CHANNEL_ID or PLACET_DISCORD_USER_ID"),
        ({"BOT_TOKEN": TOKEN}, "PLACET_DISCORD_CHANNEL_ID or PLACET_DISCORD_USER_ID"),
        ({"BOT_TOKEN": TOKEN, "CHANNEL_ID": "../users"}, "PLACET_DISCORD_CHANNEL_ID must be a number"),
        ({"BOT_TOKEN": TOKEN, "USER_ID": "ada"}, "PLACET_DISCORD_USER_ID must be a number"),
        ({"BOT_TOKEN": "a b\n", "CHANNEL_ID": "1"}, "PLACET_DISCORD_BOT_TOKEN is not"),
        ({"BOT_TOKEN": TOKEN, "CHANNEL_ID": "1", "PUBLIC_KEY": "abc"}, "PLACET_DISCORD_PUBLIC_KEY is not"),
        ({"BOT_TOKEN": TOKEN, "CHANNEL_ID": "1", "API_URL": "http://discord.example"}, "https"),
    ],
)
async def test_missing_or_invalid_settings_are_named(environ: dict[str, str], named: str):
    with pytest.raises(SettingsError, match=named):
        from_environment({f"PLACET_DISCORD_{name}": value for name, value in environ.items()})
