"""The e-mail channel: sends questions with their review link. Answers by e-mail are not supported."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, cast

from placet.channels.email import render
from placet.channels.email.smtp import SECURITIES, SMTPS_PORT, MailServer, Security
from placet.channels.environment import require_variables
from placet.channels.link_only import LinkOnlyChannel
from placet.channels.platform_api import Sleep
from placet.errors import SettingsError, Unreachable
from placet.ports.channel import Card, CaseClosure, SentMessage
from placet.protocol.addresses import LOOPBACK_HOSTS

SUBMISSION_PORT = 587
RETRY_DELAYS_S = (5.0, 20.0)
MAX_THREADS = 1_000
REQUIRED = ("PLACET_EMAIL_HOST", "PLACET_EMAIL_FROM", "PLACET_EMAIL_TO")
LINK_ONLY = "Answers by e-mail are not supported. The recipient answers on the review page."


class EmailChannel(LinkOnlyChannel):
    """One recipient, reached through one mail server.

    `security` is `starttls`, `tls`, or `none` for a server on this machine; default: derived from the port
    and the host.
    """

    name = "email"
    why = LINK_ONLY

    def __init__(
        self,
        *,
        host: str,
        sender: str,
        recipient: str,
        port: int = SUBMISSION_PORT,
        security: str | None = None,
        user: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._sender = parse_address("PLACET_EMAIL_FROM", sender)
        self._recipient = parse_address("PLACET_EMAIL_TO", recipient)
        self._envelope = render.EmailEnvelope(
            sender=str(self._sender), recipient=str(self._recipient), domain=self._sender.domain
        )
        self._server = MailServer(
            host=host,
            port=port,
            security=parse_security(security, host, port),
            user=user,
            password=password,
            greeting=self._sender.domain,
            tls=tls,
        )
        self._sleep = sleep
        self._now = clock
        self._ended: dict[str, None] = {}

    async def send(self, card: Card) -> SentMessage:
        """Send the question; a reminder continues its thread."""
        now = self._now()
        message = render.build_message(card, self._envelope, now)
        await self._deliver(message)
        return SentMessage(
            channel=self.name,
            conversation_id=self._recipient.addr_spec,
            message_id=str(message["Message-ID"]),
            details={"thread": render.build_thread_id(card, self._envelope)},
            sent_at=now,
        )

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Send how the case closed to the thread, once for a question and its reminders."""
        root = sent_message.details.get("thread", sent_message.message_id)
        if root != sent_message.message_id and root in self._ended:
            return
        message = render.build_follow_up(
            card, closure, self._envelope, self._now(), answers=sent_message.message_id, root=root
        )
        await self._deliver(message)
        if len(self._ended) >= MAX_THREADS:
            del self._ended[next(iter(self._ended))]
        self._ended[root] = None

    async def _deliver(self, message: EmailMessage) -> None:
        mail = message.as_bytes()
        for delay_s in RETRY_DELAYS_S:
            try:
                return await self._hand_over(mail)
            except Unreachable as error:
                if not error.details.get("later"):
                    raise
                await self._sleep(delay_s)
        return await self._hand_over(mail)

    async def _hand_over(self, mail: bytes) -> None:
        await asyncio.to_thread(
            self._server.deliver,
            mail,
            sender=self._sender.addr_spec,
            recipient=self._recipient.addr_spec,
        )


def from_environment(environ: Mapping[str, str]) -> EmailChannel:
    """Create the channel from PLACET_EMAIL_… variables; raise SettingsError if one is missing."""
    require_variables(environ, REQUIRED, purpose="send questions by e-mail")
    return EmailChannel(
        host=environ["PLACET_EMAIL_HOST"],
        port=parse_port(environ.get("PLACET_EMAIL_PORT") or str(SUBMISSION_PORT)),
        security=environ.get("PLACET_EMAIL_SECURITY") or None,
        user=environ.get("PLACET_EMAIL_USER") or None,
        password=environ.get("PLACET_EMAIL_PASSWORD") or None,
        sender=environ["PLACET_EMAIL_FROM"],
        recipient=environ["PLACET_EMAIL_TO"],
    )


def parse_port(text: str) -> int:
    """Return the port; raise SettingsError if it is none."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise SettingsError("PLACET_EMAIL_PORT must be a number such as 587 or 465.")
    return int(text)


def parse_security(named: str | None, host: str, port: int) -> Security:
    """Return how the connection is encrypted; raise SettingsError for an unknown name."""
    if named is None:
        return "tls" if port == SMTPS_PORT else "none" if host in LOOPBACK_HOSTS else "starttls"
    if named not in SECURITIES:
        raise SettingsError(f"PLACET_EMAIL_SECURITY must be one of {', '.join(SECURITIES)}.")
    return named


def parse_address(setting: str, text: str) -> Address:
    """Parse one ASCII address such as `Placet <placet@acme.example>`."""
    refused = SettingsError(f"{setting} must be one e-mail address, such as Ada <ada@acme.example>.")
    if not text.isascii() or not text.isprintable():
        raise refused
    try:
        header = cast("Any", SMTP.header_factory("To", text))
        addresses: tuple[Address, ...] = header.addresses
    except (HeaderParseError, ValueError, IndexError):
        raise refused from None
    if len(addresses) != 1 or header.defects or not addresses[0].username or not addresses[0].domain:
        raise refused
    return addresses[0]
