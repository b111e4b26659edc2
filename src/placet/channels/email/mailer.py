"""Send short e-mails to any address, with the mail server of the `PLACET_EMAIL_…` variables."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import make_msgid

from placet.channels.email.channel import SUBMISSION_PORT, parse_address, parse_port, parse_security
from placet.channels.email.smtp import MailServer

NEEDED = ("PLACET_EMAIL_HOST", "PLACET_EMAIL_FROM")


class Mailer:
    """Sends plain text from one sender."""

    def __init__(
        self,
        server: MailServer,
        sender: str,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._server = server
        self._sender = parse_address("PLACET_EMAIL_FROM", sender)
        self._now = clock

    async def send(self, recipient: str, subject: str, text: str) -> None:
        """Send one e-mail. Raises ChannelRefused or Unreachable."""
        message = EmailMessage(policy=SMTP)
        message["From"] = str(self._sender)
        message["To"] = recipient
        message["Subject"] = subject
        message["Date"] = self._now()
        message["Message-ID"] = make_msgid(domain=self._sender.domain)
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        await asyncio.to_thread(
            self._server.deliver,
            message.as_bytes(),
            sender=self._sender.addr_spec,
            recipient=recipient,
        )


def mailer_from_environment(environ: Mapping[str, str]) -> Mailer | None:
    """Return the mailer, or None without a mail server. Raises SettingsError for invalid variables."""
    if not all(environ.get(name) for name in NEEDED):
        return None
    host = environ["PLACET_EMAIL_HOST"]
    port = parse_port(environ.get("PLACET_EMAIL_PORT") or str(SUBMISSION_PORT))
    server = MailServer(
        host=host,
        port=port,
        security=parse_security(environ.get("PLACET_EMAIL_SECURITY") or None, host, port),
        user=environ.get("PLACET_EMAIL_USER") or None,
        password=environ.get("PLACET_EMAIL_PASSWORD") or None,
        greeting=parse_address("PLACET_EMAIL_FROM", environ["PLACET_EMAIL_FROM"]).domain,
    )
    return Mailer(server, environ["PLACET_EMAIL_FROM"])
