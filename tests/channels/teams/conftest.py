"""A Teams channel, and the services of Microsoft it talks to."""

from collections.abc import AsyncIterator

import pytest

from placet.channels.platform_api import Sleep
from placet.channels.teams import TeamsChannel
from placet.testing.clock import FakeClock
from tests.channels.loopback import loopback
from tests.channels.teams.bot_connector import (
    APP_ID,
    APP_SECRET,
    CONVERSATION,
    TENANT,
    BotConnector,
    TeamsHarness,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def harness(sleep: Sleep, clock: FakeClock) -> AsyncIterator[TeamsHarness]:
    connector = BotConnector()
    async with loopback(connector.handle) as server:
        connector.url = server.url
        channel = TeamsChannel(
            app_id=APP_ID,
            app_secret=APP_SECRET,
            tenant_id=TENANT,
            to=CONVERSATION,
            service_url=f"{server.url}/teams/",
            login_url=server.url,
            keys_url=server.url,
            sleep=sleep,
            clock=clock,
        )
        yield TeamsHarness(connector, server, channel)
        await channel.aclose()
