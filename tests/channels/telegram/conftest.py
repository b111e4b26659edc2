"""A Telegram channel, and the Bot API it talks to."""

from collections.abc import AsyncIterator

import pytest

from placet.channels.platform_api import Sleep
from placet.channels.telegram import TelegramChannel
from placet.testing.clock import DAYBREAK
from tests.channels.loopback import loopback
from tests.channels.telegram.bot_api import CHAT, SECRET, TOKEN, BotApi, TelegramHarness


@pytest.fixture
async def harness(sleep: Sleep) -> AsyncIterator[TelegramHarness]:
    api = BotApi()
    async with loopback(api.handle) as server:
        channel = TelegramChannel(
            token=TOKEN,
            chat_id=str(CHAT),
            webhook_secret=SECRET,
            api_url=server.url,
            poll_timeout_s=1,
            sleep=sleep,
            clock=lambda: DAYBREAK,
        )
        yield TelegramHarness(api, server, channel)
        await channel.aclose()
