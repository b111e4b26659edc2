"""A Slack channel, and the workspace it talks to."""

from collections.abc import AsyncIterator

import pytest

from placet.channels.platform_api import Sleep
from placet.channels.slack import SlackChannel
from placet.testing.clock import DAYBREAK
from tests.channels.loopback import loopback
from tests.channels.slack.workspace import APP_TOKEN, PLACE, SECRET, TOKEN, SlackHarness, Workspace


@pytest.fixture
async def harness(sleep: Sleep) -> AsyncIterator[SlackHarness]:
    workspace = Workspace()
    async with loopback(workspace.handle) as server:
        channel = SlackChannel(
            token=TOKEN,
            conversation_id=PLACE,
            signing_secret=SECRET,
            app_token=APP_TOKEN,
            api_url=f"{server.url}/api",
            sleep=sleep,
            clock=lambda: DAYBREAK,
        )
        yield SlackHarness(workspace, server, channel)
        await channel.aclose()
