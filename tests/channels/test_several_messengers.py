"""One case in several messengers that share a pending file: each updates only its own cards."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from placet.agent import AsyncAgent, ChannelBridge, Decided, Notice, PendingCases
from placet.channels.platform_api import Sleep
from placet.channels.slack import SlackChannel
from placet.channels.telegram import TelegramChannel
from placet.channels.whatsapp import WhatsAppChannel
from placet.ports.channel import Channel
from tests.channels.loopback import HANG_UP, Answer, Loopback, loopback
from tests.channels.slack import workspace as slack
from tests.channels.telegram import bot_api as telegram
from tests.channels.whatsapp import cloud_api as whatsapp
from tests.server.running import RunningServer

pytestmark = pytest.mark.anyio
PATIENCE_S = 60
QUESTION = {
    "type": "approval",
    "prompt": "Deploy 4.2 to production?",
    "inline_actions": ["approve", "reject"],
}


class MessengerServers:
    """Telegram, Slack and WhatsApp, each with its own server."""

    def __init__(self, servers: list[Loopback], channels: list[Channel]) -> None:
        self.servers = servers
        self.channels = channels


@pytest.fixture
async def messengers() -> AsyncIterator[MessengerServers]:
    async with AsyncExitStack() as stack:
        apis = (telegram.BotApi(), slack.Workspace(), whatsapp.CloudApi())
        servers = [await stack.enter_async_context(loopback(api.handle)) for api in apis]
        channels: list[Channel] = [
            TelegramChannel(token=telegram.TOKEN, chat_id=str(telegram.CHAT), api_url=servers[0].url),
            SlackChannel(token=slack.TOKEN, conversation_id=slack.PLACE, api_url=f"{servers[1].url}/api"),
            WhatsAppChannel(
                access_token=whatsapp.ACCESS_TOKEN,
                phone_number_id=whatsapp.PHONE_NUMBER_ID,
                to=whatsapp.TO,
                api_url=servers[2].url,
            ),
        ]
        yield MessengerServers(servers, channels)


@asynccontextmanager
async def open_agent(boards: list[ChannelBridge], cases: PendingCases) -> AsyncIterator[AsyncAgent]:
    async def tell(notice: Notice) -> None:
        for board in boards:
            await board.tell(notice)

    async with AsyncAgent(tell=tell, pending=cases, interval_s=0.05) as agent:
        yield agent
    for board in boards:
        await board.aclose()


async def decide_case(
    agent: AsyncAgent, service: RunningServer, cases: PendingCases, told: Awaitable[None]
) -> None:
    headers = {"Authorization": f"Bearer {service.api_key}"}
    asked = asyncio.create_task(
        agent.request("POST", f"{service.url}/v1/cases", json=QUESTION, headers=headers)
    )
    await told
    (pending,) = cases.list_pending()
    link = {"submit_url": pending.case.submit_url, "submit_token": pending.case.submit_token}
    await asyncio.to_thread(service.press, link, "approve")
    assert isinstance(await asyncio.wait_for(asked, PATIENCE_S), Decided)


async def test_every_messenger_brings_its_own_copies_up_to_date_and_writes_to_nobody_else(
    messengers: MessengerServers, service: RunningServer, tmp_path: Path
) -> None:
    cases = PendingCases(tmp_path / "agent.db")
    boards = [ChannelBridge(channel, cases) for channel in messengers.channels]
    told = messengers.servers[-1].wait_until(lambda: len(messengers.servers[-1].requests) == 1)
    async with open_agent(boards, cases) as agent:
        await decide_case(agent, service, cases, told)
    calls = [
        [request.path.rpartition("/")[2] for request in server.requests] for server in messengers.servers
    ]
    assert calls == [
        ["sendMessage", "editMessageText"],
        ["chat.postMessage", "chat.update"],
        ["messages", "messages"],
    ]
    written_to = {request.json["to"] for request in messengers.servers[2].requests}
    assert written_to == {whatsapp.TO}
    assert b"Approved" in messengers.servers[2].requests[-1].body


async def test_a_message_is_brought_up_to_date_though_its_platform_fails_for_a_moment(
    messengers: MessengerServers,
    service: RunningServer,
    tmp_path: Path,
    sleep: Sleep,
    recorded_waits: list[float],
) -> None:
    cases = PendingCases(tmp_path / "agent.db")
    telegram_api = messengers.servers[0]
    boards = [ChannelBridge(messengers.channels[0], cases, sleep=sleep)]

    async def told() -> None:
        await telegram_api.wait_until(lambda: len(telegram_api.requests) == 1)
        telegram_api.planned += [HANG_UP, Answer(status=502, body=b"<html>Bad Gateway</html>")]

    async with open_agent(boards, cases) as agent:
        await decide_case(agent, service, cases, told())
    calls = [request.path.rpartition("/")[2] for request in telegram_api.requests]
    assert calls == ["sendMessage", *["editMessageText"] * 3]
    assert recorded_waits == [1, 4]


async def test_a_platform_that_stays_away_does_not_hold_up_the_decision(
    messengers: MessengerServers,
    service: RunningServer,
    tmp_path: Path,
    sleep: Sleep,
    recorded_waits: list[float],
) -> None:
    cases = PendingCases(tmp_path / "agent.db")
    telegram_api = messengers.servers[0]
    boards = [ChannelBridge(messengers.channels[0], cases, sleep=sleep)]

    async def told() -> None:
        await telegram_api.wait_until(lambda: len(telegram_api.requests) == 1)
        (pending,) = cases.list_pending()
        for _ in range(2):
            await boards[0].tell(Notice(name="reminder", case=pending.case))
        telegram_api.planned += [HANG_UP] * 9

    async with open_agent(boards, cases) as agent:
        await decide_case(agent, service, cases, told())
    assert len(telegram_api.at("editMessageText")) == 5  # three copies, and both breaks for the first of them
    assert recorded_waits == [1, 4]
