"""WhatsApp only: the 24-hour window, templates, replies instead of edits, webhooks."""

import logging

import pytest
from msgspec.structs import replace

from placet.channels.whatsapp import WhatsAppChannel, from_environment
from placet.errors import ChannelRefused, SettingsError, SignatureInvalid, Unreachable
from placet.ports.channel import Button, WebhookRequest
from placet.testing.platforms import REVIEW_TOKEN, REVIEW_URL, sample_card, sample_closure
from tests.channels.loopback import HANG_UP, Answer, Loopback
from tests.channels.whatsapp.cloud_api import (
    ACCESS_TOKEN,
    APP_SECRET,
    PHONE_NUMBER_ID,
    TEMPLATE,
    TO,
    VERIFY_TOKEN,
    CloudApi,
    WhatsAppHarness,
    build_challenge_request,
    build_failure_request,
    build_notification,
    parts_of,
    refusal,
    sign_request,
)
from tests.channels.whatsapp.conftest import channel_at

pytestmark = pytest.mark.anyio


# What is sent


async def test_beside_buttons_the_link_stands_in_the_text(harness: WhatsAppHarness):
    await harness.channel.send(sample_card())
    (body,) = harness.api.messages.values()
    assert body["interactive"]["type"] == "button"
    assert f"Open the review: {REVIEW_URL}" in body["interactive"]["body"]["text"]


async def test_without_buttons_the_link_is_a_button(harness: WhatsAppHarness):
    await harness.channel.send(sample_card("selection"))
    (body,) = harness.api.messages.values()
    parameters = body["interactive"]["action"]["parameters"]
    assert parameters == {"display_text": "Open and choose", "url": REVIEW_URL}
    assert REVIEW_TOKEN not in "".join(parts_of(body))


async def test_a_link_too_long_to_stand_beside_buttons_is_the_only_button(harness: WhatsAppHarness):
    url = f"{REVIEW_URL}&{'x' * 1_500}"
    await harness.channel.send(sample_card(review_url=url))
    (shown,) = harness.list_messages()
    assert (shown.references, shown.links, shown.problems) == ((), (url,), ())


async def test_titles_that_are_cut_to_the_same_beginning_still_differ(harness: WhatsAppHarness):
    labels = ["Approve the transfer today", "Approve the transfer tomorrow", "Approve the transfer never"]
    buttons = tuple(Button(action=label, label=label, reference=label[-9:]) for label in labels)
    await harness.channel.send(sample_card(buttons=buttons))
    (shown,) = harness.list_messages()
    assert shown.labels == ("Approve the transfe…", "Approve the trans… 2", "Approve the trans… 3")
    assert shown.problems == ()


async def test_unclosed_code_markup_before_the_link_is_escaped(harness: WhatsAppHarness):
    await harness.channel.send(sample_card(prompt="```", message="~all~ __init__ 2 * 3 snake_case_name ```"))
    (body,) = harness.api.messages.values()
    text = body["interactive"]["body"]["text"]
    assert "`" not in text
    assert "2 * 3 snake_case_name" in text
    assert harness.api.problems == []


async def test_an_ending_replies_to_the_question(harness: WhatsAppHarness):
    ticket = await harness.channel.send(sample_card())
    await harness.channel.mark_closed(ticket, sample_card(), sample_closure())
    (reply,) = harness.api.replies_to(ticket.message_id)
    assert "Approved by Ada" in reply["text"]["body"]
    assert REVIEW_TOKEN not in reply["text"]["body"]


async def test_an_answer_replies_to_the_press(harness: WhatsAppHarness):
    ticket = await harness.channel.send(sample_card())
    (press,) = (
        await harness.channel.handle_webhook(harness.press(ticket, "h1.yes", user_id="4477", name="Ada"))
    ).interactions
    await harness.channel.reply(press, "Recorded.")
    (reply,) = harness.api.replies_to(press.id)
    assert (reply["to"], reply["text"]["body"]) == ("4477", "Recorded.")


# The 24-hour window


async def test_closed_window_without_a_template_is_reported_with_a_hint(harness: WhatsAppHarness):
    harness.api.is_open = False
    with pytest.raises(ChannelRefused, match="PLACET_WHATSAPP_TEMPLATE"):
        await harness.channel.send(sample_card())


async def test_closed_window_falls_back_to_the_template(harness_with_template: WhatsAppHarness):
    harness_with_template.api.is_open = False
    ticket = await harness_with_template.channel.send(sample_card())
    (body,) = harness_with_template.api.messages.values()
    assert body["template"]["name"] == TEMPLATE
    heading, prompt, rest = parts_of(body)
    assert heading == "Acme asks for your approval"
    assert prompt == "Send the newsletter to 1,200 readers?"
    assert rest.endswith(f" Open the review: {REVIEW_URL}")
    await harness_with_template.channel.mark_closed(ticket, sample_card(), sample_closure())
    assert "Approved by Ada" in parts_of(list(harness_with_template.api.messages.values())[-1])[2]
    assert harness_with_template.api.problems == []


async def test_a_message_that_failed_afterwards_is_followed_by_the_template_once(
    harness_with_template: WhatsAppHarness,
):
    ticket = await harness_with_template.channel.send(sample_card())
    for _ in range(3):
        heard = await harness_with_template.channel.handle_webhook(build_failure_request(ticket.message_id))
        assert (heard.status, heard.interactions) == (200, ())
    await harness_with_template.channel.mark_closed(ticket, sample_card(), sample_closure())
    await harness_with_template.channel.aclose()
    kinds = [body["type"] for body in harness_with_template.api.messages.values()]
    assert sorted(kinds) == ["interactive", "template", "text"]


async def test_failure_notice_may_arrive_before_the_send_response(
    harness_with_template: WhatsAppHarness,
):
    await harness_with_template.channel.handle_webhook(build_failure_request("wamid.1"))
    ticket = await harness_with_template.channel.send(sample_card())
    assert [body["type"] for body in harness_with_template.api.messages.values()] == [
        "interactive",
        "template",
    ]
    assert ticket.message_id == "wamid.2"


async def test_an_ending_replies_to_the_template_that_came_instead(harness_with_template: WhatsAppHarness):
    ticket = await harness_with_template.channel.send(sample_card())
    await harness_with_template.channel.handle_webhook(build_failure_request(ticket.message_id))
    await harness_with_template.channel.mark_closed(ticket, sample_card(), sample_closure())
    instead = [
        name for name, body in harness_with_template.api.messages.items() if body["type"] == "template"
    ]
    assert len(harness_with_template.api.replies_to(instead[0])) == 1


async def test_a_message_that_arrived_needs_no_template(harness_with_template: WhatsAppHarness):
    ticket = await harness_with_template.channel.send(sample_card())
    arrived = build_notification(statuses=[{"id": ticket.message_id, "status": "delivered"}])
    await harness_with_template.channel.handle_webhook(sign_request(arrived))
    await harness_with_template.channel.handle_webhook(build_failure_request(ticket.message_id))
    await harness_with_template.channel.aclose()
    assert len(harness_with_template.api.messages) == 1


async def test_without_a_webhook_every_message_uses_the_template(api: CloudApi, server: Loopback):
    channel = channel_at(server, [], app_secret=None, template=TEMPLATE)
    ticket = await channel.send(sample_card())
    await channel.mark_closed(ticket, sample_card(), sample_closure())
    await channel.aclose()
    assert [body["type"] for body in api.messages.values()] == ["template", "template"]
    assert api.problems == []


async def test_a_failed_delivery_is_logged_without_its_person(
    harness: WhatsAppHarness, caplog: pytest.LogCaptureFixture
):
    ticket = await harness.channel.send(sample_card())
    with caplog.at_level(logging.WARNING, "placet.channels.whatsapp"):
        await harness.channel.handle_webhook(build_failure_request(ticket.message_id, 131026))
    assert "whatsapp_message_failed" in caplog.text
    assert TO not in caplog.text


async def test_late_failure_without_a_template_is_logged_with_a_hint(
    harness: WhatsAppHarness, caplog: pytest.LogCaptureFixture
):
    ticket = await harness.channel.send(sample_card())
    await harness.channel.handle_webhook(build_failure_request(ticket.message_id))
    assert "PLACET_WHATSAPP_TEMPLATE" in caplog.text


async def test_a_template_that_fails_too_is_logged(
    harness_with_template: WhatsAppHarness, caplog: pytest.LogCaptureFixture
):
    ticket = await harness_with_template.channel.send(sample_card())
    harness_with_template.server.planned.append(refusal(400, 132001, "Template name does not exist"))
    await harness_with_template.channel.handle_webhook(build_failure_request(ticket.message_id))
    await harness_with_template.channel.aclose()
    assert "whatsapp_template_failed reason=There is no approved template" in caplog.text


@pytest.mark.parametrize("length", [300, 470, 1_500])
async def test_a_long_link_fits_into_the_template_or_goes_without(
    harness_with_template: WhatsAppHarness, length: int
):
    url = f"{REVIEW_URL}&{'x' * length}"
    await harness_with_template.channel.send(sample_card(review_url=url))
    harness_with_template.api.is_open = False
    if length < 450:
        await harness_with_template.channel.send(sample_card(review_url=url))
        assert url in parts_of(list(harness_with_template.api.messages.values())[-1])[2]
    else:
        with pytest.raises(ChannelRefused):
            await harness_with_template.channel.send(sample_card(review_url=url))
    assert harness_with_template.api.problems == []


# Webhooks


async def test_the_webhook_answers_the_challenge_of_its_verify_token(harness: WhatsAppHarness):
    heard = await harness.channel.handle_webhook(build_challenge_request())
    assert (heard.status, heard.body, heard.content_type) == (200, b"1158201444", "text/plain")


async def test_unreadable_press_in_a_batch_does_not_drop_the_others(harness: WhatsAppHarness):
    replies = [harness.reply("wamid.1", f"h1.{number}") for number in range(3)]
    call = sign_request(
        build_notification(messages=[replies[2], {"id": 5}, replies[0], replies[1], replies[0]])
    )
    presses = (await harness.channel.handle_webhook(call)).interactions
    assert [press.reference for press in presses] == ["h1.2", "h1.0", "h1.1", "h1.0"]
    assert presses[1] == presses[3]


async def test_a_person_without_a_visible_number_is_known_by_their_id(harness: WhatsAppHarness):
    reply = {**harness.reply("wamid.1", "h1.yes"), "from_user_id": "CH.13491208655302741918"}
    del reply["from"]
    contact = {"profile": {"name": "Ada"}, "user_id": "CH.13491208655302741918"}
    (press,) = (
        await harness.channel.handle_webhook(
            sign_request(build_notification(contacts=[contact], messages=[reply]))
        )
    ).interactions
    assert (press.user.user_id, press.user.name) == ("CH.13491208655302741918", "Ada")
    await harness.channel.reply(press, "Recorded.")
    (body,) = harness.api.messages.values()
    assert body["recipient"] == "CH.13491208655302741918"
    assert harness.api.problems == []


@pytest.mark.parametrize("setting", ["app_secret", "verify_token"])
async def test_webhook_without_configured_secrets_is_refused(server: Loopback, setting: str):
    channel = channel_at(server, [], **{setting: None})
    call = build_challenge_request() if setting == "verify_token" else sign_request(build_notification())
    with pytest.raises(SettingsError, match=setting.upper()):
        await channel.handle_webhook(call)
    await channel.aclose()


async def test_empty_secret_is_treated_as_missing(harness: WhatsAppHarness):
    call = sign_request(build_notification(messages=[harness.reply("wamid.1", "h1.yes")]))
    with pytest.raises(SignatureInvalid):
        await harness.channel.handle_webhook(
            WebhookRequest(method="POST", headers={}, body=call.body, query=build_challenge_request().query)
        )


# Trouble


@pytest.mark.parametrize(
    "answer", [refusal(429, 130429, "Rate limit hit"), refusal(400, 131056, "Pair rate limit hit")]
)
async def test_rate_limited_requests_are_retried_with_growing_waits(
    harness: WhatsAppHarness, recorded_waits: list[float], answer: Answer
):
    harness.server.planned += [answer, answer]
    await harness.channel.send(sample_card())
    assert recorded_waits == [2.0, 8.0]
    harness.server.planned += [answer] * 3
    with pytest.raises(Unreachable):
        await harness.channel.send(sample_card())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal(401, 190, "Error validating access token"), "PLACET_WHATSAPP_ACCESS_TOKEN"),
        (refusal(400, 131030, "Recipient phone number not in allowed list"), "registered people"),
        (refusal(400, 131026, "Message undeliverable"), "PLACET_WHATSAPP_TO"),
        (refusal(400, 100, "Invalid parameter"), "WhatsApp says: Invalid parameter"),
        (Answer(status=403, json={"error": "no"}), "no reason given"),
    ],
)
async def test_a_refusal_says_what_helps(harness: WhatsAppHarness, answer: Answer, words: str):
    harness.server.planned.append(answer)
    with pytest.raises(ChannelRefused) as caught:
        await harness.channel.send(sample_card())
    assert words in caught.value.message
    assert ACCESS_TOKEN not in caught.value.message


@pytest.mark.parametrize(
    "answer", [HANG_UP, Answer(json={}), Answer(json={"messages": []}), Answer(status=503, body=b"<html>")]
)
async def test_empty_response_is_unreachable(harness: WhatsAppHarness, answer: Answer):
    harness.server.planned.append(answer)
    with pytest.raises(Unreachable):
        await harness.channel.send(sample_card())


# Settings


ENVIRON = {
    "PLACET_WHATSAPP_ACCESS_TOKEN": ACCESS_TOKEN,
    "PLACET_WHATSAPP_PHONE_NUMBER_ID": PHONE_NUMBER_ID,
    "PLACET_WHATSAPP_TO": "+41 (79) 123-45 67",
    "PLACET_WHATSAPP_APP_SECRET": APP_SECRET,
    "PLACET_WHATSAPP_VERIFY_TOKEN": VERIFY_TOKEN,
}


async def test_the_environment_opens_the_channel(server: Loopback, api: CloudApi):
    channel = from_environment({**ENVIRON, "PLACET_WHATSAPP_API_URL": server.url})
    ticket = await channel.send(replace(sample_card(), is_reminder=True))
    await channel.aclose()
    assert ticket.conversation_id == TO
    assert isinstance(channel, WhatsAppChannel)
    assert api.problems == []


def test_missing_settings_are_named():
    with pytest.raises(SettingsError, match="ACCESS_TOKEN and PLACET_WHATSAPP_PHONE_NUMBER_ID"):
        from_environment({"PLACET_WHATSAPP_TO": TO})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PLACET_WHATSAPP_TO", "somebody", "country code"),
        ("PLACET_WHATSAPP_PHONE_NUMBER_ID", "+1 555", "not the phone number itself"),
        ("PLACET_WHATSAPP_ACCESS_TOKEN", "two\nlines", "one line"),
        ("PLACET_WHATSAPP_API_VERSION", "../me", "v24.0"),
        ("PLACET_WHATSAPP_API_URL", "http://graph.example", "https://"),
    ],
)
def test_invalid_settings_are_named(name: str, value: str, words: str):
    with pytest.raises(SettingsError, match=words):
        from_environment({**ENVIRON, name: value})
