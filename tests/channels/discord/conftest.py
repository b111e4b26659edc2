"""A Discord channel, and the API it talks to."""

from collections.abc import AsyncIterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from placet.channels.discord import DiscordChannel
from placet.channels.platform_api import Sleep
from placet.testing.clock import DAYBREAK
from tests.channels.discord.discord_api import PLACE, TOKEN, DiscordApi, DiscordHarness
from tests.channels.loopback import loopback


@pytest.fixture
async def harness(sleep: Sleep) -> AsyncIterator[DiscordHarness]:
    api, key = DiscordApi(), Ed25519PrivateKey.generate()
    async with loopback(api.handle) as server:
        channel = DiscordChannel(
            token=TOKEN,
            channel_id=PLACE,
            public_key=key.public_key().public_bytes_raw().hex(),
            api_url=f"{server.url}/api/v10",
            sleep=sleep,
            clock=lambda: DAYBREAK,
        )
        yield DiscordHarness(api, server, channel, key)
        await channel.aclose()
