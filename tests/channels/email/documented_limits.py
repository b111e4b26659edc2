"""What RFC 5322 and common mailboxes accept in an e-mail, and a check of messages against it."""

from collections import Counter
from collections.abc import Iterable
from email import message_from_bytes
from email.policy import default

SUBJECT = 78 - len("Subject: ")
"""So that the header is one line wherever it is plain ASCII."""
LINE = 998
"""Bytes in a line, without its end."""
ONCE = ("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version")
AT_MOST_ONCE = ("In-Reply-To", "References", "X-Auto-Response-Suppress", "Content-Type")


def find_violations(mail: bytes) -> list[str]:
    """List what a mail server or a mailbox would refuse or misread."""
    return [*_header_violations(mail), *_line_violations(mail)]


def _header_violations(mail: bytes) -> Iterable[str]:
    message = message_from_bytes(mail, policy=default)
    given = Counter(name.lower() for name in message)
    for name in ONCE:
        if given.pop(name.lower(), 0) != 1:
            yield f"there must be one {name}"
    for name in AT_MOST_ONCE:
        if given.pop(name.lower(), 0) > 1:
            yield f"there is more than one {name}"
    if given:
        yield f"there is a header that we did not write: {next(iter(given))[:40]!r}"
    if len(str(message["Subject"])) > SUBJECT:
        yield "the subject is too long"


def _line_violations(raw: bytes) -> Iterable[str]:
    if not raw.isascii():
        yield "there are signs that not every server passes on"
    if b"\r" in raw.replace(b"\r\n", b"") or b"\n" in raw.replace(b"\r\n", b""):
        yield "a line ends halfway"
    if any(len(line) > LINE for line in raw.split(b"\r\n")):
        yield "a line is too long"
