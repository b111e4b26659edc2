"""Asked in their own messenger, people answer there, and the link passes neither client nor model."""

import asyncio
from typing import Any

import pytest

from placet.errors import ChannelRefused
from placet.testing.channel import RecordingChannel
from tests.channels.loopback import loopback
from tests.channels.telegram.bot_api import CHAT, TOKEN, BotApi
from tests.mcp.assistant import ERA, Person, Setting, answer, read_structured, run, wait_until

ADA = frozenset({"7"})
GO = {"prompt": "Go?", "wait_seconds": 0}


def test_a_press_in_telegram_answers_an_assistant(setting: Setting) -> None:
    async def main() -> None:
        api = BotApi()
        async with loopback(api.handle) as server:
            env = setting.env(
                PLACET_TELEGRAM_BOT_TOKEN=TOKEN,
                PLACET_TELEGRAM_CHAT_ID=str(CHAT),
                PLACET_TELEGRAM_API_URL=server.url,
                PLACET_TELEGRAM_ANSWERERS="7",
            )
            async with setting.over_stdio("--via", "telegram", env=env) as client:
                asking = asyncio.create_task(
                    client.call_tool("ask_approval", {"prompt": "Deploy?", "text": "4.2", "wait_seconds": 60})
                )
                await wait_until(lambda: api.messages and server.at("/getUpdates"))
                approve = api.messages[1]["reply_markup"]["inline_keyboard"][0][0]
                api.deliver(api.press(1, approve["callback_data"]))
                assert read_structured(await asking)["action"] == "approve"
                await wait_until(lambda: "Approved" in api.messages[1]["text"])
        assert api.problems == []

    run(main())


@pytest.mark.parametrize("era", ERA)
def test_a_press_in_the_messenger_is_the_answer(setting: Setting, era: str) -> None:
    person = Person()

    async def main() -> None:
        channel = RecordingChannel()
        async with setting.in_process(
            channel=channel, answerers=ADA, elicitation_callback=person, mode=ERA[era]
        ) as client:
            asking = asyncio.create_task(client.call_tool("ask_confirmation", {**GO, "wait_seconds": 60}))
            await channel.wait_until(lambda: len(channel.sent) == 1)
            channel.press("confirm")
            ended = read_structured(await asking)
            assert (ended["action"], ended["verified"]) == ("confirm", True)
            (sent,) = channel.sent
            assert sent.closure is not None
            assert sent.closure.action == "confirm"
        assert channel.is_closed

    run(main())
    assert person.seen == []


def test_the_link_is_in_no_result_and_can_be_sent_again(setting: Setting) -> None:
    async def main() -> None:
        channel = RecordingChannel()
        async with setting.in_process(channel=channel) as client:
            asked = read_structured(await client.call_tool("ask_confirmation", GO))
            (listed,) = read_structured(await client.call_tool("list_questions"))["questions"]
            check = {"case_id": asked["case_id"], "wait_seconds": 0, "show_link": True}
            checked = read_structured(await client.call_tool("check_question", check))
            assert [one["review_url"] for one in (asked, listed, checked)] == [None, None, None]
            first, second = channel.sent
            assert (first.card.is_reminder, second.card.is_reminder) == (False, True)
            assert first.card.buttons == ()  # nobody may press, so there is the link alone
            await asyncio.to_thread(answer, second.card.review_url, "cancel")
            assert read_structured(await client.call_tool("check_question", check))["action"] == "cancel"
            assert first.closure is not None
            assert second.closure is not None

    run(main())


def test_a_messenger_that_fails_leaves_the_link_to_the_client(setting: Setting) -> None:
    async def main() -> Any:
        channel = RecordingChannel()
        channel.expect(ChannelRefused("The chat is gone."))
        async with setting.in_process(channel=channel) as client:
            return read_structured(await client.call_tool("ask_confirmation", GO))

    assert run(main())["review_url"]


def test_buttons_work_after_a_restart_and_messages_are_brought_up_to_date(setting: Setting) -> None:
    async def main() -> None:
        channel, again = RecordingChannel(), RecordingChannel()
        async with setting.in_process(channel=channel, answerers=ADA) as client:
            asked = read_structured(await client.call_tool("ask_escalation", {**GO, "error": "It broke."}))
        again.sent = channel.sent
        async with setting.in_process(channel=again, answerers=ADA) as client:
            again.press("skip")
            await again.wait_until(lambda: again.sent[0].closure is not None)
            check = {"case_id": asked["case_id"], "wait_seconds": 30}
            assert read_structured(await client.call_tool("check_question", check))["action"] == "skip"

    run(main())


def test_a_word_that_must_be_typed_cannot_be_pressed(setting: Setting) -> None:
    async def main() -> None:
        channel = RecordingChannel()
        async with setting.in_process(channel=channel, answerers=ADA) as client:
            read_structured(await client.call_tool("ask_confirmation", {**GO, "confirm_word": "delete"}))
            options = [{"id": "a", "title": "A"}]
            read_structured(await client.call_tool("ask_selection", {**GO, "options": options}))
            assert [[button.action for button in sent.card.buttons] for sent in channel.sent] == [
                ["cancel"],
                [],
            ]

    run(main())


def test_an_assistant_can_have_the_person_reminded(setting: Setting) -> None:
    async def main() -> None:
        channel = RecordingChannel()
        async with setting.in_process(channel=channel) as client:
            read_structured(await client.call_tool("ask_confirmation", {**GO, "remind_after": ["1s", "1d"]}))
            await channel.wait_until(lambda: len(channel.sent) == 2)
            assert [one.card.is_reminder for one in channel.sent] == [False, True]
            assert channel.sent[0].card.review_url == channel.sent[1].card.review_url

    run(main())


def test_where_proof_of_a_person_is_asked_for_there_are_no_buttons(setting: Setting) -> None:
    async def main() -> None:
        channel = RecordingChannel()
        async with setting.in_process(channel=channel, answerers=ADA) as client:
            proof = {"provider": "passkeys.example", "min_assurance": "high"}
            asked = read_structured(await client.call_tool("ask_confirmation", {**GO, "verification": proof}))
            (sent,) = channel.sent
            assert sent.card.buttons == ()
            assert (await asyncio.to_thread(answer, sent.card.review_url, "confirm")).status_code == 200
            check = {"case_id": asked["case_id"], "wait_seconds": 60}
            assert read_structured(await client.call_tool("check_question", check))["action"] == "confirm"

    run(main())
