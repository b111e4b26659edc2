"""From a new case to a message, a press and a closed case, with nobody but the server in between."""

import asyncio
import re
import time
from datetime import timedelta

import httpx
import pytest

from tests.channels.slack import workspace as slack
from tests.channels.telegram.bot_api import refusal
from tests.notify.notified_people import NotifiedPeople, wait_until_delivered

pytestmark = pytest.mark.anyio


async def test_a_press_in_telegram_closes_the_case_and_updates_every_message(people: NotifiedPeople):
    hitl = await people.open()
    assert "submit_url" not in hitl  # the agent offers no buttons; the server does
    (shown,) = await people.wait_for_telegram(lambda seen: len(seen) == 1)
    assert shown.labels == ("Approve", "Reject")
    assert not shown.problems
    (mail,) = await people.wait_for_mails(1)
    assert "Deploy 4.2 to production?" in mail.part("plain")

    first = (await people.wait_for_attempts(hitl, 1))["notify:ada:telegram"]
    await asyncio.to_thread(people.server.run, people.server.parts.outbox.replay(first.id))
    await people.wait_for_attempts(hitl, 1)  # as after a crash: it was sent, and is not sent again
    assert len(people.list_telegrams()) == 1

    people.press_in_telegram("Approve", user_id=8)
    await people.telegram_server.wait_until(lambda: len(people.bot.notices) == 1)
    assert people.bot.notices[0].startswith("You are not allowed")
    assert (await people.poll(hitl))["status"] == "pending"

    people.press_in_telegram("Approve")
    (closed,) = await people.wait_for_telegram(lambda seen: "Approved by Ada Lovelace" in seen[0].text)
    assert closed.references == ()
    poll = await people.poll(hitl)
    assert (poll["status"], poll["result"]["action"]) == ("completed", "approve")
    assert poll["responded_by"] == {"name": "Ada Lovelace"}
    assert poll["submission_context"]["submitted_by"]["platform_user_id"] == "7"
    await people.telegram_server.wait_until(lambda: "Your answer was recorded." in people.bot.notices)
    assert await people.find_log_problems(hitl) == []
    ending = (await people.wait_for_mails(2))[-1]
    assert ending.message["In-Reply-To"] == mail.message["Message-ID"]
    assert "Approved by Ada Lovelace" in ending.part("plain")
    await people.pass_time(days=31)
    case = await people.wait_for_case(hitl, lambda case: case.erased_at is not None)
    assert case.recipients == ("ada",)
    assert await people.find_log_problems(hitl) == []


@pytest.mark.spec("8-reminder-sent-at")
async def test_a_reminder_shows_in_the_poll_once_it_went_out(people: NotifiedPeople):
    remind_at = people.server.clock() + timedelta(minutes=30)
    hitl = await people.open(reminder_at=remind_at.isoformat())
    await people.wait_for_telegram(lambda seen: len(seen) == 1)
    await people.wait_for_mails(1)
    assert "reminder_sent_at" not in await people.poll(hitl)
    await people.pass_time(minutes=31)
    messages = await people.wait_for_telegram(lambda seen: len(seen) == 2)
    assert messages[1].text.startswith("Reminder: ")
    await people.wait_for_case(hitl, lambda case: case.reminder_sent_at is not None)
    assert "reminder_sent_at" in await people.poll(hitl)
    mails = await people.wait_for_mails(2)
    assert mails[1].message["In-Reply-To"] == mails[0].message["Message-ID"]
    await people.pass_time(hours=1)
    messages = await people.wait_for_telegram(lambda seen: len(seen) == 3)
    assert messages[2].text.startswith("Expires soon: ")
    await wait_until_delivered(people.server, hitl)
    await people.pass_time(minutes=30)
    messages = await people.wait_for_telegram(lambda seen: all("Expired" in one.text for one in seen))
    assert [one.references for one in messages] == [(), (), ()]


async def test_nothing_is_reported_as_sent_while_the_platform_fails(people: NotifiedPeople):
    people.telegram_server.planned += [refusal(403, "Forbidden: bot was blocked by the user")]
    people.mails.planned["RCPT"] = [b"550 5.1.1 no such person"] * 20
    remind_at = people.server.clock() + timedelta(minutes=10)
    hitl = await people.open(reminder_at=remind_at.isoformat())

    failed = await people.wait_for_attempts(hitl, 1)
    told = failed["notify:ada:telegram"]
    assert (told.state, told.last_error) == (
        "waiting",
        "The bot may not write to this chat. Telegram says: Forbidden: bot was blocked by the user",
    )
    assert failed["notify:ada:email"].state == "waiting"
    await people.pass_time(seconds=6)
    await people.wait_for_telegram(lambda seen: len(seen) == 1)
    assert "reminder_sent_at" not in await people.poll(hitl)
    people.press_in_telegram("Reject")
    await people.wait_for_telegram(lambda seen: "Rejected" in seen[0].text)
    assert (await people.poll(hitl))["status"] == "completed"


async def test_a_label_chooses_slack_and_a_signed_press_there_counts(people: NotifiedPeople):
    hitl = await people.open(
        type="confirmation", context={"amount": "12 EUR"}, labels=["money"], inline_actions=["confirm"]
    )
    await people.slack_server.wait_until(lambda: bool(people.slack.messages))
    ((stamp, message),) = people.slack.messages.items()
    buttons = [one for block in message["blocks"] if block["type"] == "actions" for one in block["elements"]]
    references = [one["value"] for one in buttons if "value" in one]
    assert len(references) == 1  # the service allows one action inline
    payload = people.slack.interaction(stamp, references[0])
    call = slack.sign_request(slack.form(payload), at=int(time.time()))
    url = f"{people.server.url}/notify/webhooks/slack"

    async def post(body: bytes, **headers: str) -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.post(url, content=body, headers={**call.headers, **headers})

    forged = await post(call.body, **{"x-slack-signature": "v0=" + "0" * 64})
    assert forged.status_code == 401
    stranger = {**payload, "user": {**payload["user"], "id": "U8"}}
    refused = slack.sign_request(slack.form(stranger), at=int(time.time()))
    assert (await post(refused.body, **refused.headers)).status_code == 200
    assert (await people.poll(hitl))["status"] == "pending"
    assert (await post(call.body)).status_code == 200
    poll = await people.poll(hitl)
    assert poll["responded_by"] == {"name": "Grace Hopper"}
    assert not people.slack.problems
    assert (await people.call("POST", "/notify/webhooks/discord", content=b"{}")).status_code == 404


async def test_a_custom_action_of_an_escalation_is_pressed_in_telegram(people: NotifiedPeople):
    actions = ["retry", "roll_back", "abort"]
    hitl = await people.open(type="escalation", actions=actions, notify=["ada"])
    (shown,) = await people.wait_for_telegram(lambda seen: len(seen) == 1)
    assert shown.labels == ("Try again", "Roll back", "Stop")
    await wait_until_delivered(people.server, hitl)
    people.press_in_telegram("Roll back")
    await people.wait_for_telegram(lambda seen: "Decided: Roll back by Ada Lovelace" in seen[0].text)
    assert (await people.poll(hitl))["result"]["action"] == "roll_back"


async def test_each_recipient_has_a_link_of_their_own_and_no_submit_token_travels(people: NotifiedPeople):
    hitl = await people.open(inline_actions=["approve"], notify=["payments"])
    await people.wait_for_telegram(lambda seen: len(seen) == 1)
    (mail,) = await people.wait_for_mails(1)
    await people.slack_server.wait_until(lambda: bool(people.slack.messages))
    sent = [request.body for request in (*people.telegram_server.requests, *people.slack_server.requests)]
    everything = b"".join((*sent, mail.raw.replace(b"=\r\n", b"").replace(b"=3D", b"="))).decode()
    assert hitl["submit_token"] not in everything
    links = set(re.findall(r"token=([A-Za-z0-9_-]{43})", everything))
    assert len(links) == 2
    assert hitl["review_url"].partition("token=")[2] not in links
    for token in links:
        page = await people.call("GET", f"/review/{hitl['case_id']}?token={token}", follow_redirects=True)
        assert page.status_code == 200
        assert "Deploy 4.2 to production?" in page.text


async def test_a_case_that_names_an_unknown_recipient_is_refused(people: NotifiedPeople):
    answer = await people.call(
        "POST", "/v1/cases", json={"type": "approval", "prompt": "?", "notify": ["bob"]}
    )
    assert answer.status_code == 400
    assert answer.json()["message"] == "notify: this server has no recipient 'bob'."
