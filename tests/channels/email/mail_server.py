"""A mail server on the loopback address, and what a mailbox shows of what it took."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from itertools import pairwise
from typing import NamedTuple, cast

from placet.channels.email import EmailChannel
from placet.testing.platforms import ChannelHarness, VisibleMessage
from tests.raw_server import serve_connections

SENDER = "Placet <placet@acme.example>"
RECIPIENT = "ada@people.example"
USER = "placet@acme.example"
PASSWORD = "mail-password-0123456789"
HEADERS = {
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Auto-Submitted",
    "X-Auto-Response-Suppress",
    "MIME-Version",
    "Content-Type",
}
TAGS = {"html", "meta", "body", "p", "b", "small", "br", "a"}


class Mail(NamedTuple):
    sender: str
    recipient: str
    raw: bytes
    encrypted: bool
    user: str | None

    @property
    def message(self) -> EmailMessage:
        return message_from_bytes(self.raw, policy=default)

    def part(self, kind: str) -> str:
        body = self.message.get_body((kind,))
        assert body is not None
        return str(cast("EmailMessage", body).get_content())


class MailServer:
    """Speaks as much SMTP as a client needs. `planned` answers a command, once each; `b""` hangs up."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self.mails: list[Mail] = []
        self.planned: dict[str, list[bytes]] = {}
        self.commands: list[str] = []
        self.tls = tls
        self.offers_tls = tls is not None
        self._news = asyncio.Event()

    def take(self, mail: Mail) -> None:
        self.mails.append(mail)
        self._news.set()

    async def wait_until(self, taken: int) -> None:
        """Wait until so many mails were taken."""
        async with asyncio.timeout(60):
            while len(self.mails) < taken:
                self._news.clear()
                await self._news.wait()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await SmtpSession(self, reader, writer).run()
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


class SmtpSession:
    def __init__(
        self, server: MailServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer
        self.encrypted = writer.get_extra_info("ssl_object") is not None
        self.user: str | None = None
        self.sender = self.recipient = ""

    async def run(self) -> None:
        answer: bytes | None = self.take_planned_reply("CONNECT") or b"220 mail.example ESMTP"
        while answer:
            self.writer.write(answer + b"\r\n")
            await self.writer.drain()
            if answer.startswith(b"221"):
                return
            if answer.startswith(b"220 go"):
                await self.encrypt()
            line = (await self.reader.readuntil(b"\r\n")).decode().rstrip("\r\n")
            command = line.split(" ")[0].upper()
            self.server.commands.append(command)
            planned = self.take_planned_reply(command)
            answer = planned if planned is not None else await self.respond_to(command, line)

    def take_planned_reply(self, command: str) -> bytes | None:
        plan = self.server.planned.get(command)
        return plan.pop(0) if plan else None

    async def encrypt(self) -> None:
        assert self.server.tls is not None
        await self.writer.start_tls(self.server.tls)
        self.encrypted = True

    async def respond_to(self, command: str, line: str) -> bytes:
        if command == "EHLO":
            starttls = b"250-STARTTLS\r\n" if self.server.offers_tls and not self.encrypted else b""
            return b"250-mail.example\r\n" + starttls + b"250 AUTH PLAIN"
        if command == "STARTTLS":
            return b"220 go ahead"
        if command == "AUTH":
            return self.sign_in(line)
        if command == "MAIL":
            self.sender = line.partition("<")[2].partition(">")[0]
        elif command == "RCPT":
            self.recipient = line.partition("<")[2].partition(">")[0]
        elif command == "DATA":
            return await self.take()
        elif command == "QUIT":
            return b"221 bye"
        return b"250 ok"

    def sign_in(self, line: str) -> bytes:
        given = base64.b64decode(line.split(" ")[2]).decode().split("\0")[1:]
        if given != [USER, PASSWORD]:
            return b"535 5.7.8 no such user " + given[1].encode()
        self.user = given[0]
        return b"235 welcome"

    async def take(self) -> bytes:
        self.writer.write(b"354 go ahead\r\n")
        raw = (await self.reader.readuntil(b"\r\n.\r\n"))[:-3]
        planned = self.take_planned_reply("BODY")
        if planned is not None:
            return planned
        clean = raw.replace(b"\r\n..", b"\r\n.")
        mail = Mail(self.sender, self.recipient, clean, self.encrypted, self.user)
        self.server.take(mail)
        return b"250 taken"


@asynccontextmanager
async def mail_server(
    tls: ssl.SSLContext | None = None, *, at_once: bool = False
) -> AsyncIterator[MailServer]:
    """A server in the test's own event loop; `require_sync` encrypts before the first word."""
    server = MailServer(tls)
    async with serve_connections(server.converse, ssl=tls if at_once else None, limit=2**20) as port:
        server.port = port
        yield server


class Page(HTMLParser):
    """What a mail program shows of HTML: its words, where links lead, and tags that ought not be there."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.links: list[str] = []
        self.strange: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.links += [named["href"] or ""] if "href" in named else []
        self.strange += [tag] if tag not in TAGS else []
        self.strange += [name for name in named if name not in ("href", "style", "dir", "lang", "charset")]

    def handle_data(self, data: str) -> None:
        self.text += data


def problems_of(mail: Mail) -> list[str]:
    """What a strict reader finds: defects, repeated headers, long lines, other text in one of the parts."""
    message = mail.message
    found = [str(defect) for part in message.walk() for defect in part.defects]
    found += [f"{name} repeats" for name in message if len(message.get_all(name) or []) != 1]
    found += [str(defect) for value in message.values() for defect in value.defects]
    found += ["a long line" for line in mail.raw.split(b"\r\n") if len(line) > 998]
    found += ["a long subject"] if len(message["Subject"]) > 69 else []
    if [part.get_content_type() for part in message.iter_parts()] != ["text/plain", "text/html"]:
        found.append("not as text and as HTML")
    if message["Auto-Submitted"] != "auto-generated":
        found.append("not marked as automatic")
    if not mail.raw.isascii() or set(message) - HEADERS:
        found.append("not clean")
    return found + [f"strange HTML: {one}" for one in Page(mail.part("html")).strange]


class EmailHarness(ChannelHarness):
    secrets = (PASSWORD,)
    can_edit = False

    def __init__(self, server: MailServer, channel: EmailChannel) -> None:
        self.server = server
        self.channel = channel

    def list_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(mail) for mail in self.server.mails]

    def _shown(self, mail: Mail) -> VisibleMessage:
        text, page = mail.part("plain"), Page(mail.part("html"))
        lines = text.splitlines()
        written = [line for before, line in pairwise(lines) if before.startswith("Open ")]
        return VisibleMessage(
            text=f"{mail.message['Subject']}\n{text}",
            links=(*page.links, *(line for line in written if line.startswith("http"))),
            problems=tuple(problems_of(mail)),
        )

    def refuse_next(self) -> None:
        self.server.planned["RCPT"] = [f"550 5.1.1 <{RECIPIENT}> no such person".encode()]

    def slow_down_next(self) -> None:
        self.server.planned["RCPT"] = [b"451 4.7.1 greylisted, try again"]

    def fail_next(self) -> None:
        self.server.planned["BODY"] = [b""]
