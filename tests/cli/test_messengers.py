"""`--via telegram`, `--via terminal`: the command tells the person there, and takes the answer there."""

import asyncio
from collections.abc import Callable

import pytest

from tests.channels.discord.discord_api import PLACE, DiscordApi
from tests.channels.discord.discord_api import TOKEN as DISCORD_TOKEN
from tests.channels.loopback import Loopback, loopback
from tests.channels.telegram.bot_api import CHAT, TOKEN, BotApi
from tests.cli.asking import Desk, WaitingCommand
from tests.cli.pseudo_terminal import terminal
from tests.waiting import eventually

QUESTION = ("ask", "approval", "Deploy 4.2?", "--timeout", "1h")


def settings(server: Loopback, **more: str) -> dict[str, str]:
    return {
        "PLACET_TELEGRAM_BOT_TOKEN": TOKEN,
        "PLACET_TELEGRAM_CHAT_ID": str(CHAT),
        "PLACET_TELEGRAM_API_URL": server.url,
        **more,
    }


def buttons(api: BotApi, number: int = 1) -> dict[str, str]:
    rows = api.messages[number].get("reply_markup", {}).get("inline_keyboard", [])
    return {
        button["text"]: button["callback_data"] for row in rows for button in row if "callback_data" in button
    }


async def wait_until(holds: Callable[[], object]) -> None:
    await asyncio.to_thread(eventually, holds)


async def end_command(asking: WaitingCommand, code: int = 0) -> dict[str, object]:
    return await asyncio.to_thread(asking.end, code)


@pytest.mark.anyio
async def test_a_press_in_telegram_ends_the_command_and_the_message_says_so(desk: Desk) -> None:
    api = BotApi()
    async with loopback(api.handle) as server:
        asking = desk.start(
            *QUESTION, "--via", "telegram", env=settings(server, PLACET_TELEGRAM_ANSWERERS="7, 8")
        )
        await wait_until(lambda: api.messages and server.at("/getUpdates"))
        api.deliver(api.press(1, buttons(api)["Reject"], user_id=9))
        await wait_until(lambda: api.notices)
        api.deliver(api.press(1, buttons(api)["Approve"]))
        result = await end_command(asking)
    assert result["action"] == "approve"
    assert api.notices[0].startswith("You are not allowed")
    assert "Approved" in api.messages[1]["text"]
    assert (buttons(api), api.problems) == ({}, [])
    assert "/review/" not in asking.stderr


@pytest.mark.anyio
async def test_without_answerers_only_the_link_is_sent(desk: Desk) -> None:
    api = BotApi()
    async with loopback(api.handle) as server:
        asking = desk.start(*QUESTION, "--via", "telegram", env=settings(server))
        await wait_until(lambda: api.messages)
        assert buttons(api) == {}
        (kept,) = desk.list_pending()
        desk.answer(kept.case.review_url, "reject")
        assert (await end_command(asking, 10))["action"] == "reject"
    assert "Rejected" in api.messages[1]["text"]


@pytest.mark.anyio
async def test_a_killed_command_is_resumed_and_its_buttons_still_work(desk: Desk) -> None:
    api = BotApi()
    async with loopback(api.handle) as server:
        env = settings(server, PLACET_TELEGRAM_ANSWERERS="7")
        asking = desk.start(*QUESTION, "--via", "telegram", env=env)
        await wait_until(
            lambda: api.messages and server.at("/getUpdates") and desk.list_pending()[0].is_notified
        )
        asking.process.kill()
        again = desk.start("pending", "resume", env=env)
        await wait_until(lambda: len(server.at("/getUpdates")) > 1)
        api.deliver(api.press(1, buttons(api)["Approve"]))
        assert (await end_command(again))["action"] == "approve"
    assert len(api.messages) == 1
    assert "Approved" in api.messages[1]["text"]


@pytest.mark.anyio
async def test_failing_messenger_is_an_error_and_the_case_stays_pending(desk: Desk) -> None:
    api = BotApi()
    async with loopback(api.handle) as server:
        env = {**settings(server), "PLACET_TELEGRAM_BOT_TOKEN": "1:wrong"}
        asking = desk.start(*QUESTION, "--via", "telegram", env=env)
        await asyncio.to_thread(asking.read_stdout, 1)
        error, hint, command = asking.stderr.splitlines()
        assert error == (
            "placet: The review link could not be sent to the person: Telegram does not know this bot."
            " Check PLACET_TELEGRAM_BOT_TOKEN."
        )
        assert hint.startswith("The case is still open. The person was not notified.")
        assert command.startswith("  placet pending resume review_")
        again = desk.start("pending", "resume", "--via", "print", env=settings(server))
        desk.answer(await asyncio.to_thread(again.link), "approve")
        assert (await end_command(again))["action"] == "approve"


@pytest.mark.anyio
async def test_json_error_contains_the_case_that_was_not_announced(desk: Desk) -> None:
    api = BotApi()
    async with loopback(api.handle) as server:
        env = {**settings(server), "PLACET_TELEGRAM_BOT_TOKEN": "1:wrong"}
        result = await end_command(desk.start(*QUESTION, "--via", "telegram", "--json", env=env), 1)
    assert (result["status"], result["error"]) == ("error", "notification_failed")
    assert [one.case.case_id for one in desk.list_pending()] == [result["case_id"]]


def test_invalid_answerers_are_reported_before_anything_is_sent(desk: Desk) -> None:
    env = {"PLACET_TELEGRAM_BOT_TOKEN": TOKEN, "PLACET_TELEGRAM_CHAT_ID": "7"}
    asking = desk.start(*QUESTION, "--via", "telegram", env={**env, "PLACET_TELEGRAM_ANSWERERS": "@ada"})
    assert asking.read_stdout(1) == b""
    assert "PLACET_TELEGRAM_ANSWERERS: '@ada' is not a user id in telegram" in asking.stderr
    assert desk.list_pending() == []


@pytest.mark.anyio
async def test_missing_discord_buttons_are_explained(desk: Desk) -> None:
    api = DiscordApi()
    async with loopback(api.handle) as server:
        env = {
            "PLACET_DISCORD_BOT_TOKEN": DISCORD_TOKEN,
            "PLACET_DISCORD_CHANNEL_ID": PLACE,
            "PLACET_DISCORD_API_URL": f"{server.url}/api/v10",
            "PLACET_DISCORD_ANSWERERS": "800",
        }
        asking = desk.start(*QUESTION, "--via", "discord", "--max-wait", "0", env=env)
        await end_command(asking, 13)
    assert asking.stderr.startswith("placet: There are no buttons in discord from here")
    (message,) = api.messages.values()
    assert [one["label"] for row in message["components"] for one in row["components"]] == ["Open the review"]


@pytest.mark.anyio
async def test_failing_messenger_is_named_and_the_others_continue(desk: Desk) -> None:
    api = BotApi()
    async with loopback(api.handle) as server:
        env = {**settings(server), "PLACET_TELEGRAM_BOT_TOKEN": "1:wrong"}
        asking = desk.start(*QUESTION, "--via", "telegram", "--via", "print", env=env)
        desk.answer(await asyncio.to_thread(asking.link), "approve")
        assert (await end_command(asking))["action"] == "approve"
    assert "placet: Telegram" in asking.stderr


def test_an_answer_is_typed_where_the_command_runs(desk: Desk) -> None:
    with terminal(desk, 80, *QUESTION, "--via", "terminal") as shown:
        shown.wait_for("Approve\r\n")
        eventually(lambda: "Waiting for a person" in shown.seen)
        shown.type("2\n")
        assert shown.end() == 10
        shown.wait_for('"action": "reject"')


def test_closing_standard_input_prints_that_the_link_still_works(desk: Desk) -> None:
    with terminal(desk, 80, *QUESTION, "--via", "terminal") as shown:
        shown.wait_for("Waiting for a person")
        shown.type("\x04")
        shown.wait_for("Input is closed. Open the link to answer.")
        assert shown.process.poll() is None


def test_numbered_answer_names_what_only_the_page_shows(desk: Desk) -> None:
    question = ("ask", "confirmation", "Delete these?", "--item", "a=Autumn 2019", "--irreversible")
    with terminal(desk, 80, *question, "--via", "terminal") as shown:
        shown.wait_for("Only on the page: Items, Irreversible\r\n")
        shown.wait_for("Confirm\r\n")
