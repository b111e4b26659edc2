"""A WhatsApp channel, and the Cloud API it talks to."""

from collections.abc import AsyncIterator

import pytest

from placet.channels.whatsapp import WhatsAppChannel
from placet.testing.clock import DAYBREAK
from tests.channels.loopback import Loopback, loopback
from tests.channels.whatsapp.cloud_api import (
    ACCESS_TOKEN,
    APP_SECRET,
    PHONE_NUMBER_ID,
    TEMPLATE,
    TO,
    VERIFY_TOKEN,
    CloudApi,
    WhatsAppHarness,
)


@pytest.fixture
def api() -> CloudApi:
    return CloudApi()


@pytest.fixture
async def server(api: CloudApi) -> AsyncIterator[Loopback]:
    async with loopback(api.handle) as server:
        yield server


@pytest.fixture
async def harness(
    api: CloudApi, server: Loopback, recorded_waits: list[float]
) -> AsyncIterator[WhatsAppHarness]:
    """A channel that hears its webhook, and has no template."""
    channel = channel_at(server, recorded_waits)
    yield WhatsAppHarness(api, server, channel)
    await channel.aclose()


@pytest.fixture
async def harness_with_template(
    api: CloudApi, server: Loopback, recorded_waits: list[float]
) -> AsyncIterator[WhatsAppHarness]:
    """The same with a template."""
    channel = channel_at(server, recorded_waits, template=TEMPLATE)
    yield WhatsAppHarness(api, server, channel)
    await channel.aclose()


def channel_at(server: Loopback, breaks: list[float], **changes: str | None) -> WhatsAppChannel:
    async def sleep(seconds: float) -> None:
        breaks.append(seconds)

    settings: dict[str, str | None] = {
        "access_token": ACCESS_TOKEN,
        "phone_number_id": PHONE_NUMBER_ID,
        "to": TO,
        "app_secret": APP_SECRET,
        "verify_token": VERIFY_TOKEN,
        "api_url": server.url,
    }
    return WhatsAppChannel(**settings | changes, sleep=sleep, clock=lambda: DAYBREAK)  # type: ignore[arg-type]
