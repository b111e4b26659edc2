"""An e-mail channel, and the mail server it talks to."""

from collections.abc import AsyncIterator

import pytest

from placet.channels.email import EmailChannel
from placet.testing.clock import DAYBREAK
from tests.channels.email.mail_server import (
    PASSWORD,
    RECIPIENT,
    SENDER,
    USER,
    EmailHarness,
    MailServer,
    mail_server,
)


@pytest.fixture
async def harness(recorded_waits: list[float]) -> AsyncIterator[EmailHarness]:
    async with mail_server() as server:
        channel = channel_at(server, recorded_waits, user=USER, password=PASSWORD)
        yield EmailHarness(server, channel)
        await channel.aclose()


def channel_at(server: MailServer, breaks: list[float], **settings: object) -> EmailChannel:
    async def sleep(seconds: float) -> None:
        breaks.append(seconds)

    return EmailChannel(
        **{  # type: ignore[arg-type]
            "host": "127.0.0.1",
            "port": server.port,
            "sender": SENDER,
            "recipient": RECIPIENT,
            **settings,
        },
        sleep=sleep,
        clock=lambda: DAYBREAK,
    )
