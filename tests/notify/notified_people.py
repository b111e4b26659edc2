"""A server that notifies people by itself: Ada in Telegram and by e-mail, the payments group in Slack."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from placet.cases.case import Case
from placet.cases.case_verification import find_problems
from placet.notify.settings import NotifySettings
from placet.ports.outbox_store import Delivery, DeliveryFilter
from placet.testing.platforms import VisibleMessage
from tests.channels.email.mail_server import Mail, MailServer, mail_server
from tests.channels.loopback import Loopback, loopback
from tests.channels.slack import workspace as slack
from tests.channels.telegram import bot_api as telegram
from tests.channels.telegram.bot_api import BotApi, TelegramHarness
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S, eventually

ADA = 7
NOTIFY: dict[str, Any] = {
    "expiry_warning": "30m",
    "recipients": {
        "ada": {
            "send_to": [f"telegram:{telegram.CHAT}", "email:ada@people.example"],
            "answerers": {"Ada Lovelace": f"telegram:{ADA}"},
        },
        "payments": {
            "send_to": [f"slack:{slack.PLACE}"],
            "answerers": {"Grace Hopper": [f"slack:{slack.TEAM}:U7"]},
        },
    },
    "rules": [
        {"recipients": ["ada"], "types": ["approval"]},
        {"recipients": ["payments"], "labels": ["money"]},
    ],
}
APPROVAL: dict[str, Any] = {
    "type": "approval",
    "prompt": "Deploy 4.2 to production?",
    "context": {"version": "4.2"},
    "timeout": "2h",
}


class NotifiedPeople:
    """The server and the platforms on which its people see messages."""

    def __init__(
        self,
        server: RunningServer,
        bot: BotApi,
        telegram_server: Loopback,
        slack_workspace: slack.Workspace,
        slack_server: Loopback,
        mails: MailServer,
    ) -> None:
        self.server = server
        self.bot = bot
        self.telegram_server = telegram_server
        self.slack = slack_workspace
        self.slack_server = slack_server
        self.mails = mails

    async def open(self, **draft: Any) -> dict[str, Any]:
        """The `hitl` object of a new case."""
        answer = await self.call("POST", "/v1/cases", json={**APPROVAL, **draft})
        assert answer.status_code == 202, answer.text
        hitl: dict[str, Any] = answer.json()["hitl"]
        return hitl

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A call with the API key of the service."""
        with self.server.client(self.server.api_key) as client:
            return await asyncio.to_thread(client.request, method, path, **options)

    async def poll(self, hitl: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = (await self.call("GET", hitl["poll_url"])).json()
        return answer

    async def wait_for_case(self, hitl: dict[str, Any], holds: Callable[[Case], bool]) -> Case:
        """The stored case, once this is true of it."""

        def read() -> Case | None:
            case = self.server.run(self.server.parts.store.get_case(hitl["case_id"]))
            assert case is not None
            return case if holds(case) else None

        return await asyncio.to_thread(eventually, read)

    async def find_log_problems(self, hitl: dict[str, Any]) -> list[str]:
        """What does not match the log of the case."""
        finding = self.server.parts.store.find_stored_case(hitl["case_id"])
        stored = await asyncio.to_thread(self.server.run, finding)
        assert stored is not None
        return find_problems(stored)

    async def wait_for_attempts(self, hitl: dict[str, Any], attempts: int) -> dict[str, Delivery]:
        """The deliveries by their target, once each was attempted so often."""

        def read() -> dict[str, Delivery] | None:
            filter = DeliveryFilter(case_id=hitl["case_id"])
            found = self.server.run(self.server.parts.store.list_deliveries(filter))
            is_done = all(one.attempts >= attempts for one in found)
            return {one.target: one for one in found} if is_done else None

        return await asyncio.to_thread(eventually, read)

    async def pass_time(self, **time: float) -> None:
        """Let time pass and do what has become due."""
        self.server.advance(**time)
        await asyncio.to_thread(self.server.sweep)
        await asyncio.to_thread(self.server.deliver)

    def list_telegrams(self) -> list[VisibleMessage]:
        """The messages in Telegram as people see them."""
        channel: Any = None
        return list(TelegramHarness(self.bot, self.telegram_server, channel).list_messages())

    async def wait_for_telegram(self, holds: Callable[[list[VisibleMessage]], bool]) -> list[VisibleMessage]:
        await self.telegram_server.wait_until(lambda: holds(self.list_telegrams()), within=PATIENCE_S)
        return self.list_telegrams()

    async def wait_for_mails(self, count: int) -> list[Mail]:
        await self.mails.wait_until(count)
        return self.mails.mails

    def press_in_telegram(self, label: str, *, user_id: int = ADA, message: int = 0) -> None:
        shown = self.list_telegrams()[message]
        reference = shown.references[shown.labels.index(label)]
        self.bot.deliver(self.bot.press(message + 1, reference, user_id=user_id))


async def wait_until_delivered(server: RunningServer, hitl: dict[str, Any]) -> None:
    """Wait until what was sent is also recorded as sent.

    Otherwise the update of a closed case waits for it, by a clock that stands still.
    """

    def is_delivered() -> bool:
        filter = DeliveryFilter(case_id=hitl["case_id"], state="waiting")
        return not server.run(server.parts.store.list_deliveries(filter))

    await asyncio.to_thread(eventually, is_delivered)


@asynccontextmanager
async def notified_people(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[NotifiedPeople]:
    """A running server whose channels lead to platforms on the loopback address."""
    bot, workspace = BotApi(), slack.Workspace()
    async with (
        loopback(bot.handle) as telegram_server,
        loopback(workspace.handle) as slack_server,
        mail_server() as mails,
    ):
        variables = {
            "PLACET_TELEGRAM_BOT_TOKEN": telegram.TOKEN,
            "PLACET_TELEGRAM_API_URL": telegram_server.url,
            "PLACET_SLACK_BOT_TOKEN": slack.TOKEN,
            "PLACET_SLACK_SIGNING_SECRET": slack.SECRET,
            "PLACET_SLACK_API_URL": slack_server.url,
            "PLACET_EMAIL_HOST": "127.0.0.1",
            "PLACET_EMAIL_PORT": str(mails.port),
            "PLACET_EMAIL_FROM": "Placet <placet@acme.example>",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        notify = msgspec.convert(NOTIFY, NotifySettings)
        work = running(folder, present=True, **{"notify": notify, **settings})
        server = await asyncio.to_thread(work.__enter__)
        try:
            yield NotifiedPeople(server, bot, telegram_server, workspace, slack_server, mails)
        finally:
            await asyncio.to_thread(work.__exit__, None, None, None)
