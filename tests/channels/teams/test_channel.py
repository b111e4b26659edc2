"""Teams only: sign-in, signing keys, personal conversations, deleted cards, error texts."""

from datetime import timedelta
from typing import Any

import pytest

from placet.channels.teams import TeamsChannel, from_environment
from placet.errors import ChannelRefused, SettingsError, SignatureInvalid, Unreachable
from placet.ports.channel import Interaction, InteractionUser
from placet.testing.clock import FakeClock
from placet.testing.platforms import sample_card, sample_closure
from tests.channels.loopback import HANG_UP, Answer
from tests.channels.teams.bot_connector import (
    APP_ID,
    APP_SECRET,
    CONVERSATION,
    NOW,
    PERSON,
    TENANT,
    TeamsHarness,
    build_request,
    invoke,
    refusal,
    sign_token,
)

pytestmark = pytest.mark.anyio

TOKEN_PATH = "/oauth2/v2.0/token"
KEYS_PATH = "/v1/.well-known/keys"
ENVIRON = {
    "PLACET_TEAMS_APP_ID": APP_ID,
    "PLACET_TEAMS_APP_SECRET": APP_SECRET,
    "PLACET_TEAMS_TENANT_ID": TENANT,
    "PLACET_TEAMS_TO": CONVERSATION,
}


async def press_and_parse(
    harness: TeamsHarness, authorization: str | None = None, **changes: Any
) -> Interaction:
    (press,) = (
        await harness.channel.handle_webhook(build_request(invoke("ref-1", 1, **changes), authorization))
    ).interactions
    return press


def build_environment(harness: TeamsHarness, **changes: str) -> dict[str, str]:
    urls = {
        "PLACET_TEAMS_SERVICE_URL": f"{harness.server.url}/teams",
        "PLACET_TEAMS_LOGIN_URL": harness.server.url,
        "PLACET_TEAMS_KEYS_URL": harness.server.url,
    }
    return {**ENVIRON, **urls, **changes}


# The bot's own credential


async def test_the_bot_signs_in_once_for_many_calls(harness: TeamsHarness):
    for _ in range(3):
        await harness.channel.send(sample_card())
    assert harness.connector.sign_ins == 1
    assert len(harness.list_messages()) == 3


async def test_the_bot_signs_in_again_before_its_token_ends(harness: TeamsHarness, clock: FakeClock):
    await harness.channel.send(sample_card())
    clock.advance(timedelta(minutes=54))
    await harness.channel.send(sample_card())
    assert harness.connector.sign_ins == 1
    clock.advance(timedelta(minutes=1))
    await harness.channel.send(sample_card())
    assert harness.connector.sign_ins == 2


async def test_a_token_that_was_withdrawn_is_fetched_anew(harness: TeamsHarness):
    await harness.channel.send(sample_card())
    harness.connector.token = "another"
    await harness.channel.send(sample_card())
    assert harness.connector.sign_ins == 2
    assert len(harness.list_messages()) == 2


async def test_refusal_with_a_new_token_is_reported(harness: TeamsHarness):
    await harness.channel.send(sample_card())
    sign_in = Answer(json={"token_type": "Bearer", "expires_in": 3599, "access_token": "wrong"})
    harness.server.planned += [refusal(401, "Unauthorized"), sign_in, refusal(401, "Unauthorized")]
    with pytest.raises(ChannelRefused, match="does not know this bot"):
        await harness.channel.send(sample_card())


async def test_wrong_secret_is_reported_without_showing_it(harness: TeamsHarness):
    channel = from_environment(build_environment(harness, PLACET_TEAMS_APP_SECRET="wr0ng-secret"))
    with pytest.raises(ChannelRefused, match="invalid_client") as raised:
        await channel.send(sample_card())
    await channel.aclose()
    assert not [secret for secret in ("wr0ng-secret", APP_SECRET) if secret in str(raised.value)]


@pytest.mark.parametrize(
    "answer",
    [
        HANG_UP,
        Answer(status=500, json={}),
        Answer(status=200, body=b"<html>"),
        Answer(status=200, json=[]),
        Answer(status=200, json={"access_token": 7, "expires_in": 3599}),
        Answer(status=200, json={"access_token": "x", "expires_in": "soon"}),
    ],
    ids=range(6),
)
async def test_a_sign_in_without_a_token_is_unreachable(harness: TeamsHarness, answer: Answer):
    harness.server.planned.append(answer)
    with pytest.raises(Unreachable):
        await harness.channel.send(sample_card())


# Microsoft's proof


async def test_signing_keys_are_cached(harness: TeamsHarness, clock: FakeClock):
    for _ in range(3):
        await press_and_parse(harness)
    assert len(harness.server.at(KEYS_PATH)) == 1
    clock.advance(timedelta(hours=24))
    later = NOW + 86_400
    await press_and_parse(harness, sign_token(exp=later + 60, nbf=later - 60))
    assert len(harness.server.at(KEYS_PATH)) == 2


async def test_a_new_key_is_found_but_looked_for_no_more_often_than_every_few_minutes(
    harness: TeamsHarness, clock: FakeClock
):
    await press_and_parse(harness)
    harness.connector.kids = ["key-1", "key-2"]
    for _ in range(3):
        with pytest.raises(SignatureInvalid):
            await press_and_parse(harness, sign_token("key-2"))
    assert len(harness.server.at(KEYS_PATH)) == 1
    clock.advance(timedelta(minutes=5))
    await press_and_parse(harness, sign_token("key-2"))
    assert len(harness.server.at(KEYS_PATH)) == 2


async def test_withdrawn_signing_key_is_refused_after_a_day(harness: TeamsHarness, clock: FakeClock):
    await press_and_parse(harness)
    harness.connector.kids = ["key-2"]
    clock.advance(timedelta(hours=24))
    with pytest.raises(SignatureInvalid):
        await press_and_parse(harness, sign_token(exp=NOW + 90_000))


async def test_key_without_endorsements_is_accepted(harness: TeamsHarness):
    harness.connector.endorsements = None
    assert (await press_and_parse(harness)).reference == "ref-1"


async def test_key_endorsed_for_other_channels_is_refused(harness: TeamsHarness):
    harness.connector.endorsements = ("webchat",)
    with pytest.raises(SignatureInvalid, match="not endorsed"):
        await press_and_parse(harness)


@pytest.mark.parametrize("off_by", [-300, 300])
async def test_clocks_may_differ_by_five_minutes(harness: TeamsHarness, off_by: int):
    assert (
        await press_and_parse(harness, sign_token(nbf=NOW + off_by, exp=NOW + off_by))
    ).reference == "ref-1"


@pytest.mark.parametrize(
    "answers",
    [
        [HANG_UP],
        [Answer(status=404, json={})],
        [Answer(json={"jwks_uri": "https://elsewhere.example/keys"})],
        [Answer(json={"jwks_uri": 7})],
    ],
    ids=range(4),
)
async def test_presses_are_refused_while_the_keys_are_unreachable(
    harness: TeamsHarness, answers: list[Answer]
):
    harness.server.planned += answers
    with pytest.raises(Unreachable):
        await press_and_parse(harness)
    assert (await press_and_parse(harness)).reference == "ref-1"


@pytest.mark.parametrize("keys", [None, {}, "x"])
async def test_presses_are_refused_if_the_key_list_is_malformed(harness: TeamsHarness, keys: Any):
    where = {"jwks_uri": f"{harness.server.url}{KEYS_PATH}"}
    harness.server.planned += [Answer(json=where), Answer(json={"keys": keys})]
    with pytest.raises(Unreachable):
        await press_and_parse(harness)


@pytest.mark.parametrize("key", [{"kty": "oct", "k": "c2VjcmV0"}, {"kty": "RSA", "n": "x", "e": 7}, {}])
async def test_malformed_key_verifies_nothing(harness: TeamsHarness, key: dict[str, Any]):
    where = {"jwks_uri": f"{harness.server.url}{KEYS_PATH}"}
    listed = [{**key, "kid": "key-1"}, "strange", {"kid": 7}]
    harness.server.planned += [Answer(json=where), Answer(json={"keys": listed})]
    with pytest.raises(SignatureInvalid):
        await press_and_parse(harness)


# Presses


async def test_users_of_other_tenants_have_distinct_ids(harness: TeamsHarness):
    guest = await press_and_parse(harness, channelData={"tenant": {"id": "other"}})
    local = await press_and_parse(harness, channelData=None)
    assert guest.user == InteractionUser(platform="teams", user_id="other:4711", name="Ada")
    assert local.user == InteractionUser(platform="teams", user_id=f"{TENANT}:4711", name="Ada")


async def test_reply_in_a_group_names_its_recipient(harness: TeamsHarness):
    place = {"id": "19:x@thread.tacv2;messageid=17", "conversationType": "channel", "tenantId": TENANT}
    press = await press_and_parse(harness, conversation=place)
    await harness.channel.reply(press, "Your answer was recorded.")
    (note,) = harness.connector.notes
    assert note == {
        "type": "message",
        "text": "Ada: Your answer was recorded.",
        "textFormat": "plain",
        "place": "19:x@thread.tacv2;messageid=17",
    }


async def test_reply_without_a_conversation_is_refused(harness: TeamsHarness):
    press = await press_and_parse(harness, conversation={"tenantId": TENANT})
    with pytest.raises(ChannelRefused):
        await harness.channel.reply(press, "Your answer was recorded.")


async def test_an_answer_that_teams_refuses_is_a_refusal(harness: TeamsHarness):
    press = await press_and_parse(harness)
    harness.refuse_next()
    with pytest.raises(ChannelRefused):
        await harness.channel.reply(press, "Your answer was recorded.")


# Cards


async def test_a_person_is_asked_in_a_conversation_of_their_own(harness: TeamsHarness):
    channel = from_environment(build_environment(harness, PLACET_TEAMS_TO=PERSON))
    tickets = [await channel.send(sample_card()) for _ in range(2)]
    await channel.mark_closed(tickets[0], sample_card(), sample_closure())
    await channel.aclose()
    assert [ticket.conversation_id for ticket in tickets] == ["a:personal/1"] * 2
    (conversation,) = harness.connector.conversations
    assert conversation["members"] == [{"id": PERSON}]
    assert conversation["channelData"] == {"tenant": {"id": TENANT}}
    assert "Approved by Ada" in harness.list_messages()[0].text


async def test_conversation_ids_are_escaped_in_urls(harness: TeamsHarness):
    channel = from_environment(build_environment(harness, PLACET_TEAMS_TO="19:a/../b?c#d@thread.v2"))
    await channel.send(sample_card())
    await channel.aclose()
    (message,) = harness.connector.messages.values()
    assert message["place"] == "19:a/../b?c#d@thread.v2"


async def test_a_card_that_is_gone_gets_its_ending_in_a_new_message(harness: TeamsHarness):
    ticket = await harness.channel.send(sample_card())
    harness.connector.messages.clear()
    await harness.channel.mark_closed(ticket, sample_card(), sample_closure())
    (shown,) = harness.list_messages()
    assert "Approved by Ada" in shown.text
    assert (shown.references, shown.links, shown.problems) == ((), (), ())


async def test_foreign_date_markup_is_shown_as_text(harness: TeamsHarness):
    written = "Until {{DATE(2026-11-15T12:00:00Z, SHORT)}} {{{{TIME(2026-11-15T12:00:00Z)}} {{x}} {{"
    await harness.channel.send(sample_card(prompt=written))
    (shown,) = harness.list_messages()
    (message,) = harness.connector.messages.values()
    assert written in shown.text
    assert not [run for run in list_text_runs(message) if "{{DATE" in run or "{{TIME" in run]


def list_text_runs(message: dict[str, Any]) -> list[str]:
    body = message["attachments"][0]["content"]["body"]
    return [run["text"] for part in body if "inlines" in part for run in part["inlines"]]


@pytest.mark.parametrize("written", ["{" * 5000, "{{DATE(" * 1000, "\n" * 5000 + "x\n" * 5000, "🤖" * 5000])
async def test_nothing_that_is_written_grows_too_large_for_a_card(harness: TeamsHarness, written: str):
    facts = ((written, written),) * 99
    ticket = await harness.channel.send(sample_card(prompt=written, message=written[::-1], facts=facts))
    await harness.channel.mark_closed(
        ticket, sample_card(prompt=written, facts=facts), sample_closure(by=written)
    )
    (shown,) = harness.list_messages()
    assert shown.problems == ()


async def test_lines_stay_lines_and_the_many_become_few(harness: TeamsHarness):
    await harness.channel.send(sample_card(prompt="one\ntwo\n\nthree", message="\n".join("abcdefgh" * 40)))
    (shown,) = harness.list_messages()
    assert "\none\ntwo\nthree\n" in shown.text
    assert shown.text.count("\n") < 50
    assert shown.problems == ()


async def test_affirmative_and_negative_buttons_have_different_styles(harness: TeamsHarness):
    await harness.channel.send(sample_card())
    (message,) = harness.connector.messages.values()
    approve, reject, link = message["attachments"][0]["content"]["body"][-1]["actions"]
    assert (approve["style"], reject["style"]) == ("positive", "destructive")
    assert link["type"] == "Action.OpenUrl"
    assert message["summary"] == "Acme asks for your approval"


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "BotNotInConversationRoster", "Install its app"),
        (404, "ConversationNotFound", "conversation does not exist"),
        (400, "BadSyntax", "BadSyntax"),
        (413, "MessageSizeTooBig", "MessageSizeTooBig"),
    ],
)
async def test_a_refusal_says_what_to_do(harness: TeamsHarness, status: int, code: str, words: str):
    await harness.channel.send(sample_card())
    harness.server.planned.append(refusal(status, code))
    with pytest.raises(ChannelRefused, match=words) as raised:
        await harness.channel.send(sample_card())
    assert APP_SECRET not in str(raised.value)


async def test_an_update_that_is_refused_is_a_refusal(harness: TeamsHarness):
    ticket = await harness.channel.send(sample_card())
    harness.refuse_next()
    with pytest.raises(ChannelRefused):
        await harness.channel.mark_closed(ticket, sample_card(), sample_closure())


async def test_refusal_with_an_unknown_code_is_reported(harness: TeamsHarness):
    await harness.channel.send(sample_card())
    harness.server.planned.append(Answer(status=400, json={"error": "no"}))
    with pytest.raises(ChannelRefused, match="no reason given"):
        await harness.channel.send(sample_card())


@pytest.mark.parametrize("body", [{}, {"id": 7}, {"id": ""}])
async def test_an_answer_without_an_id_is_unreachable(harness: TeamsHarness, body: dict[str, Any]):
    await harness.channel.send(sample_card())
    harness.server.planned.append(Answer(json=body))
    with pytest.raises(Unreachable):
        await harness.channel.send(sample_card())


async def test_temporary_failure_is_retried(harness: TeamsHarness, recorded_waits: list[float]):
    await harness.channel.send(sample_card())
    harness.server.planned += [refusal(412, "PreconditionFailed"), refusal(429, "TooManyRequests")]
    await harness.channel.send(sample_card())
    assert recorded_waits == [1, 4]


# Settings


@pytest.mark.parametrize("missing", ENVIRON)
def test_missing_settings_are_named(missing: str):
    with pytest.raises(SettingsError, match=f"Set {missing} to"):
        from_environment({**ENVIRON, missing: ""})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"PLACET_TEAMS_APP_ID": "my-bot"}, "must be UUIDs"),
        ({"PLACET_TEAMS_TENANT_ID": "../common"}, "must be UUIDs"),
        ({"PLACET_TEAMS_SERVICE_URL": "http://teams.example"}, "https"),
        ({"PLACET_TEAMS_LOGIN_URL": "http://login.example"}, "https"),
        ({"PLACET_TEAMS_KEYS_URL": "http://keys.example"}, "https"),
    ],
)
def test_invalid_settings_are_named(changes: dict[str, str], words: str):
    with pytest.raises(SettingsError, match=words):
        from_environment({**ENVIRON, **changes})


async def test_microsofts_own_addresses_are_the_default():
    channel = from_environment(ENVIRON)
    assert isinstance(channel, TeamsChannel)
    await channel.aclose()
