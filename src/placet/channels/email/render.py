"""Render cards as e-mails: the same text as plain text and as simple HTML, with a link and no buttons.

The first e-mail about a case starts a thread; reminders and the closing e-mail reply to it. Its Message-ID is
derived from the case, so that mail programs show an e-mail that was sent twice only once.
"""

from collections.abc import Sequence
from datetime import datetime
from email.header import Header
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime
from hashlib import sha256
from html import escape
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from placet.channels import texts
from placet.channels.texts import CardLines, TextLimits, build_card_lines
from placet.errors import ChannelRefused
from placet.ports.channel import Card, CaseClosure
from placet.text.truncation import to_paragraphs, to_single_line, truncate

MAX_SUBJECT_LENGTH = 78 - len("Subject: ")
"""Keeps the header on one line where it is plain ASCII."""
MAX_LINK_LENGTH = 2048
TEXT_LIMITS = TextLimits(heading=150, prompt=2000, message=6000, facts=12, fact_name=60, fact_value=240)
NO_REPLY = "Answer on the page behind the link. Replying to this e-mail decides nothing."
RE = "Re: "
STYLE = "font-family: sans-serif; font-size: 16px; line-height: 1.5; max-width: 40em; overflow-wrap: anywhere"
BUTTON = (
    "display: inline-block; padding: 10px 18px; border-radius: 6px; "
    "background: #1f4fd8; color: #ffffff; text-decoration: none"
)
PAGE_START = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<body style="{STYLE}">'
PAGE_END = "</body>\n</html>\n"


class _SubjectPolicy(EmailPolicy):
    """Encodes a non-ASCII subject as a whole; the standard policy doubles spaces in a mixed one."""

    def fold_binary(self, name: str, value: str) -> bytes:
        if name != "Subject" or value.isascii():
            return super().fold_binary(name, value)
        folded = Header(str(value), "utf-8", header_name=name).encode(linesep=self.linesep)
        return f"{name}: {folded}{self.linesep}".encode("ascii")


POLICY = _SubjectPolicy(linesep="\r\n")


class EmailEnvelope(Struct, frozen=True, kw_only=True):
    """The sender and the recipient, from the settings."""

    sender: str
    recipient: str
    domain: str


def build_message(card: Card, envelope: EmailEnvelope, now: datetime) -> EmailMessage:
    """Return the e-mail for a question or a reminder; raise ChannelRefused if the link cannot be shown."""
    if not is_linkable(card.review_url):
        raise ChannelRefused("The review link is too long for an e-mail, or is not an HTTP URL.")
    lines = build_card_lines(card, TEXT_LIMITS)
    root = build_thread_id(card, envelope)
    if card.is_reminder:
        own = f"r{int(now.timestamp())}"
        message = _create_message(
            card, envelope, now, message_id=_append_to_id(root, own), references=(root,)
        )
    else:
        message = _create_message(card, envelope, now, message_id=root)
    closing = f"{lines.deadline}.\n{lines.no_answer}"
    return _set_content(
        message,
        [*_list_plain_paragraphs(lines), f"{lines.link_label}:\n{card.review_url}", closing, NO_REPLY],
        [
            *_list_html_paragraphs(lines),
            _format_html_link(lines, card.review_url),
            _format_html_paragraph(closing),
            _format_html_paragraph(NO_REPLY, quiet=True),
        ],
    )


def build_follow_up(
    card: Card, closure: CaseClosure, envelope: EmailEnvelope, now: datetime, *, answers: str, root: str
) -> EmailMessage:
    """Return the e-mail that says how the case closed, as a reply in its thread."""
    references = tuple(dict.fromkeys((root, answers)))
    message = _create_message(
        card, envelope, now, message_id=_append_to_id(answers, "end"), references=references
    )
    heading, prompt = truncate(texts.format_heading(card), 150), truncate(to_paragraphs(card.prompt), 600)
    words = truncate(texts.describe_closure(closure), 600)
    return _set_content(
        message,
        [words, heading, prompt, "There is nothing left to do here."],
        [
            _format_html_paragraph(words, strong=True),
            _format_html_paragraph(heading),
            _format_html_paragraph(prompt),
            _format_html_paragraph("There is nothing left to do here.", quiet=True),
        ],
    )


def build_thread_id(card: Card, envelope: EmailEnvelope) -> str:
    """Return the Message-ID of the first e-mail about a case."""
    digest = sha256(b"placet e-mail\0" + card.review_url.encode("utf-8", "replace")).hexdigest()
    return f"<{digest[:20]}@{envelope.domain}>"


def build_subject(card: Card) -> str:
    """Return one short line: who asks for what, and the beginning of the question."""
    heading, room = texts.format_heading(card), MAX_SUBJECT_LENGTH - 30 - len(RE)
    if len(heading) > room:
        heading = texts.format_source(card, room)
    prompt = to_single_line(card.prompt)
    return truncate(f"{heading}: {prompt}" if prompt else heading, MAX_SUBJECT_LENGTH - len(RE))


def is_linkable(url: str) -> bool:
    """Return whether a mail can link to this URL: HTTP, printable ASCII, without quotes or brackets."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    fits = (
        len(url) <= MAX_LINK_LENGTH and url.isascii() and url.isprintable() and not set(url) & set(" <>\"'`")
    )
    return fits and parts.scheme in ("http", "https") and bool(host)


# The parts of a mail


def _append_to_id(message_id: str, part: str) -> str:
    local, _, domain = message_id.rpartition("@")
    return f"{local}.{part}@{domain}"


def _create_message(
    card: Card, envelope: EmailEnvelope, now: datetime, *, message_id: str, references: Sequence[str] = ()
) -> EmailMessage:
    message = EmailMessage(policy=POLICY)
    message["From"] = envelope.sender
    message["To"] = envelope.recipient
    message["Subject"] = (RE if references else "") + build_subject(replace(card, is_reminder=False))
    message["Date"] = format_datetime(now)
    message["Message-ID"] = message_id
    if references:
        message["In-Reply-To"] = references[-1]
        message["References"] = " ".join(references)
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    return message


def _set_content(message: EmailMessage, plain: Sequence[str], html: Sequence[str]) -> EmailMessage:
    text = "\n\n".join(part for part in plain if part)
    page = "\n".join((PAGE_START, *(part for part in html if part), PAGE_END))
    message.set_content(f"{text}\n", cte="quoted-printable")
    message.add_alternative(page, subtype="html", cte="quoted-printable")
    return message


def _list_plain_paragraphs(lines: CardLines) -> list[str]:
    facts = [f"{name}: {value}" for name, value in lines.facts if name or value]
    return [lines.heading, lines.prompt, lines.message, "\n".join(facts)]


def _list_html_paragraphs(lines: CardLines) -> list[str]:
    facts = [f"<b>{escape(name)}</b>: {escape(value)}" for name, value in lines.facts if name or value]
    listed = f'<p dir="auto">{"<br>".join(facts)}</p>' if facts else ""
    return [
        _format_html_paragraph(lines.heading, quiet=True),
        _format_html_paragraph(lines.prompt, strong=True),
        _format_html_paragraph(lines.message),
        listed,
    ]


def _format_html_link(lines: CardLines, url: str) -> str:
    link, label = escape(url), escape(lines.link_label)
    return f'<p><a href="{link}" style="{BUTTON}">{label}</a></p>\n<p><small>{link}</small></p>'


def _format_html_paragraph(text: str, *, strong: bool = False, quiet: bool = False) -> str:
    words = escape(text).replace("\n", "<br>\n")
    marked = f"<b>{words}</b>" if strong else f"<small>{words}</small>" if quiet else words
    return f'<p dir="auto">{marked}</p>' if text else ""
