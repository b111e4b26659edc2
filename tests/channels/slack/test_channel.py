"""Slack only: threads, messages that cannot be changed, error texts, workspaces."""

from typing import Any

import pytest
from msgspec.structs import replace

from placet.channels.slack import SlackChannel, from_environment
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Interaction, InteractionUser
from placet.testing.platforms import MARKUP, sample_card, sample_closure
from tests.channels.loopback import HANG_UP, Answer
from tests.channels.slack.workspace import (
    APP_TOKEN,
    PLACE,
    SECRET,
    TOKEN,
    SlackHarness,
    form,
    refusal,
    sign_request,
)

pytestmark = pytest.mark.anyio

ENVIRON = {"PLACET_SLACK_BOT_TOKEN": TOKEN, "PLACET_SLACK_CHANNEL": PLACE}


async def press_and_parse(harness: SlackHarness, **changes: Any) -> Interaction:
    call = sign_request(form(harness.workspace.interaction("1.1", "ref-1", **changes)))
    (press,) = (await harness.channel.handle_webhook(call)).interactions
    return press


async def test_a_message_to_a_person_is_found_again_in_their_conversation(harness: SlackHarness):
    harness.server.planned.append(Answer(json={"ok": True, "channel": "D42", "ts": "1.5"}))
    ticket = await harness.channel.send(sample_card())
    assert (ticket.conversation_id, ticket.message_id) == ("D42", "1.5")
    harness.server.planned.append(Answer(json={"ok": True}))
    await harness.channel.mark_closed(ticket, sample_card(), sample_closure())
    assert harness.server.at("/api/chat.update")[0].json["channel"] == "D42"


async def test_the_notification_says_who_asks_what_without_markup(harness: SlackHarness):
    await harness.channel.send(sample_card(prompt=MARKUP))
    (message,) = harness.workspace.messages.values()
    assert message["text"].startswith("Acme asks for your approval: &lt;b&gt;bold&lt;/b&gt;")
    assert not set(message["text"]) & set("<>")


async def test_affirmative_and_negative_buttons_have_different_styles(harness: SlackHarness):
    await harness.channel.send(sample_card())
    (message,) = harness.workspace.messages.values()
    approve, reject, link = message["blocks"][-1]["elements"]
    assert (approve["style"], reject["style"]) == ("primary", "danger")
    assert "value" not in link


async def test_answered_reminder_shows_the_outcome(
    harness: SlackHarness,
):
    card = sample_card()
    ticket = await harness.channel.send(replace(card, is_reminder=True))
    await harness.channel.mark_closed(ticket, card, sample_closure())
    (shown,) = harness.list_messages()
    assert "Reminder" not in shown.text
    assert "Approved by Ada" in shown.text
    assert shown.links == ()


@pytest.mark.parametrize("error", ["cant_update_message", "edit_window_closed"])
async def test_a_message_that_cannot_change_gets_its_ending_in_a_thread(harness: SlackHarness, error: str):
    ticket = await harness.channel.send(sample_card())
    harness.server.planned.append(refusal(error))
    await harness.channel.mark_closed(ticket, sample_card(), sample_closure())
    follow_up = harness.server.requests[-1].json
    assert follow_up["thread_ts"] == ticket.message_id
    assert "Approved by Ada" in harness.list_messages()[-1].text
    assert harness.list_messages()[-1].problems == ()


async def test_a_deleted_message_gets_its_ending_beside_it(harness: SlackHarness):
    ticket = await harness.channel.send(sample_card())
    harness.workspace.messages.clear()
    await harness.channel.mark_closed(ticket, sample_card(), sample_closure())
    assert "thread_ts" not in harness.server.requests[-1].json
    assert "Approved by Ada" in harness.list_messages()[-1].text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("invalid_auth", "does not accept this token"),
        ("token_revoked", "does not accept this token"),
        ("channel_not_found", "Invite it"),
        ("missing_scope", "chat:write"),
        ("invalid_blocks", "invalid_blocks"),
        ("see https://slack.example/?token=x", "Slack says: see …"),
    ],
)
async def test_a_refusal_says_what_to_do(harness: SlackHarness, error: str, words: str):
    ticket = await harness.channel.send(sample_card())
    harness.server.planned += [refusal(error)] * 2
    with pytest.raises(ChannelRefused, match=words):
        await harness.channel.send(sample_card())
    with pytest.raises(ChannelRefused, match=words):
        await harness.channel.mark_closed(ticket, sample_card(), sample_closure())


@pytest.mark.parametrize(
    "answer",
    [
        refusal("internal_error"),
        refusal("ratelimited"),
        HANG_UP,
        Answer(json=[]),
        Answer(json={"ok": True}),
        Answer(json={"ok": True, "channel": 1, "ts": 2}),
        Answer(status=500, json={"ok": False, "error": "fatal_error"}),
    ],
    ids=range(7),
)
async def test_slack_server_error_is_unreachable(harness: SlackHarness, answer: Answer):
    harness.server.planned.append(answer)
    with pytest.raises(Unreachable):
        await harness.channel.send(sample_card())


async def test_reply_is_ephemeral_and_beside_the_button(harness: SlackHarness):
    container = {"type": "message", "message_ts": "1.1", "channel_id": "C9", "thread_ts": "1.0"}
    press = await press_and_parse(harness, container=container)
    await harness.channel.reply(press, "Someone <else> & you")
    (note,) = harness.workspace.notes
    assert note == {
        "channel": "C9",
        "user": "U7",
        "thread_ts": "1.0",
        "text": "Someone &lt;else&gt; &amp; you",
    }


async def test_refused_ephemeral_reply_is_reported(harness: SlackHarness):
    press = await press_and_parse(harness)
    harness.server.planned.append(refusal("user_not_in_channel"))
    with pytest.raises(ChannelRefused):
        await harness.channel.reply(press, "Recorded.")


async def test_a_long_note_is_cut_between_escapes(harness: SlackHarness):
    await harness.channel.reply(await press_and_parse(harness), "&" * 5000)
    (note,) = harness.workspace.notes
    assert note["text"].removesuffix("…").replace("&amp;", "") == ""


async def test_users_of_other_workspaces_have_distinct_ids(harness: SlackHarness):
    guest = await press_and_parse(harness, user={"id": "U7", "name": "ada", "team_id": "T99"})
    local = await press_and_parse(harness, user={"id": "U7", "name": "ada"})
    nobody = await press_and_parse(harness, user={"id": "U7"}, team=None)
    assert guest.user == InteractionUser(platform="slack", user_id="T99:U7", name="ada")
    assert local.user == InteractionUser(platform="slack", user_id="T01:U7", name="ada")
    assert nobody.user == InteractionUser(platform="slack", user_id=":U7", name=None)


async def test_signatures_are_accepted_within_the_time_window(harness: SlackHarness):
    body = form(harness.workspace.interaction("1.1", "ref-1"))
    now = int(sign_request(body).headers["x-slack-request-timestamp"])
    for at in (now - 300, now, now + 300):
        assert (await harness.channel.handle_webhook(sign_request(body, at=at))).interactions


async def test_without_a_signing_secret_every_webhook_is_refused(harness: SlackHarness):
    channel = SlackChannel(token=TOKEN, conversation_id=PLACE, api_url=harness.server.url)
    with pytest.raises(SettingsError, match="PLACET_SLACK_SIGNING_SECRET"):
        await channel.handle_webhook(sign_request(form(harness.workspace.interaction("1.1", "ref-1"))))
    await channel.aclose()


@pytest.mark.parametrize("secret", ["", " ", "\n"])
def test_empty_signing_secret_is_refused(secret: str):
    with pytest.raises(SettingsError, match="SIGNING_SECRET is empty"):
        SlackChannel(token=TOKEN, conversation_id=PLACE, signing_secret=secret)


async def test_the_environment_opens_a_channel(harness: SlackHarness):
    channel = from_environment(
        {
            **ENVIRON,
            "PLACET_SLACK_SIGNING_SECRET": SECRET,
            "PLACET_SLACK_APP_TOKEN": APP_TOKEN,
            "PLACET_SLACK_API_URL": f"{harness.server.url}/api/",
        }
    )
    ticket = await channel.send(sample_card())
    await channel.aclose()
    assert ticket.conversation_id == PLACE


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "PLACET_SLACK_BOT_TOKEN and PLACET_SLACK_CHANNEL"),
        ({"PLACET_SLACK_BOT_TOKEN": TOKEN}, "Set PLACET_SLACK_CHANNEL to"),
        ({**ENVIRON, "PLACET_SLACK_BOT_TOKEN": "xapp-1\r\nX: y"}, "xoxb-"),
        ({**ENVIRON, "PLACET_SLACK_APP_TOKEN": TOKEN}, "xapp-"),
        ({**ENVIRON, "PLACET_SLACK_API_URL": "http://slack.example"}, "https"),
    ],
)
def test_an_incomplete_environment_is_named_without_its_secrets(environ: dict[str, str], words: str):
    with pytest.raises(SettingsError, match=words) as raised:
        from_environment(environ)
    assert not [value for name, value in environ.items() if "TOKEN" in name and value in str(raised.value)]
