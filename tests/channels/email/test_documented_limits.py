"""The check against the limits of e-mail finds what a server or a mailbox would refuse."""

import pytest

from placet.channels.email.render import EmailEnvelope, build_follow_up, build_message, build_thread_id
from placet.testing.clock import DAYBREAK
from placet.testing.platforms import sample_card, sample_closure
from tests.channels.email.documented_limits import find_violations

ENVELOPE = EmailEnvelope(
    sender="Placet <a@acme.example>", recipient="ada@people.example", domain="acme.example"
)


def build_mail() -> bytes:
    return build_message(sample_card(), ENVELOPE, DAYBREAK).as_bytes()


def test_our_mails_have_no_violations():
    root = build_thread_id(sample_card(), ENVELOPE)
    closing = build_follow_up(sample_card(), sample_closure(), ENVELOPE, DAYBREAK, answers=root, root=root)
    assert find_violations(build_mail()) == []
    assert find_violations(closing.as_bytes()) == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (b"Subject: ", b"Subject: " + b"long " * 20, "subject is too long"),
        (b"Date: ", b"Bcc: eve@evil.example\r\nDate: ", "did not write: 'bcc'"),
        (b"Date: ", b"X-Date: ", "one Date"),
        (b"To: ", b"To: eve@evil.example\r\nTo: ", "one To"),
        (b"Acme", b"\xc3\x84cme", "not every server"),
        (b"readers?", b"readers?\n", "ends halfway"),
        (b"readers?", b"readers?\r.", "ends halfway"),
        (b"readers?", b"x" * 999, "line is too long"),
    ],
)
def test_violations_are_found(before: bytes, after: bytes, words: str):
    raw = build_mail()
    assert before in raw
    assert any(words in found for found in find_violations(raw.replace(before, after)))
