"""E-mail only: threads, header injection, encryption, and servers that refuse mail."""

import ssl
from datetime import timedelta
from email.utils import parsedate_to_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from placet.channels.email import EmailChannel, from_environment, render
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Interaction, InteractionUser, WebhookRequest
from placet.testing.clock import DAYBREAK
from placet.testing.platforms import MARKUP, REVIEW_TOKEN, REVIEW_URL, sample_card, sample_closure
from tests.certificates import make_tls_contexts
from tests.channels.email.conftest import channel_at
from tests.channels.email.documented_limits import find_violations
from tests.channels.email.mail_server import (
    PASSWORD,
    RECIPIENT,
    SENDER,
    USER,
    EmailHarness,
    Mail,
    Page,
    mail_server,
    problems_of,
)

Tls = tuple[ssl.SSLContext, ssl.SSLContext]
ENVELOPE = render.EmailEnvelope(sender=SENDER, recipient=RECIPIENT, domain="acme.example")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """For a mail server, and for a client that trusts it."""
    return make_tls_contexts("127.0.0.1", tmp_path_factory.mktemp("tls"))


# What is sent


@pytest.mark.parametrize(
    ("source", "subject"),
    [
        ("Placet (127.0.0.1)", "Placet (127.0.0.1): Send the newsletter to 1,200 readers?"),
        ("Placet (placet-of-a-very-large-company.example)", "…et-of-a-very-large-company.example: Send"),
    ],
)
def test_long_subject_keeps_the_source_and_cuts_the_prompt(source: str, subject: str):
    assert render.build_subject(sample_card(source=source)).startswith(subject)


@pytest.mark.anyio
async def test_a_mail_says_who_asks_for_what_in_its_subject(harness: EmailHarness):
    await harness.channel.send(sample_card())
    (mail,) = harness.server.mails
    message = mail.message
    assert message["Subject"] == "Acme asks for your approval: Send the newsletter to 1,200 reader…"
    assert (message["From"], message["To"]) == (SENDER, RECIPIENT)
    assert parsedate_to_datetime(message["Date"]) == DAYBREAK
    assert (mail.sender, mail.recipient, mail.user) == ("placet@acme.example", RECIPIENT, USER)


@pytest.mark.anyio
async def test_the_page_in_a_mail_says_the_same_as_its_text(harness: EmailHarness):
    await harness.channel.send(sample_card(prompt=MARKUP))
    (mail,) = harness.server.mails
    page = Page(mail.part("html"))
    for part in (MARKUP, "The spring issue is ready.", "Readers: 1200", "Open until", "decides nothing"):
        assert part in page.text
        assert part in mail.part("plain")
    assert page.links == [REVIEW_URL]


@pytest.mark.anyio
async def test_mail_can_be_answered_only_by_its_link(harness: EmailHarness):
    card = sample_card()
    await harness.channel.send(card)
    raw = harness.server.mails[0].part("html") + harness.server.mails[0].part("plain")
    assert not any(button.reference in raw for button in card.buttons)
    assert "mailto:" not in raw
    assert "<form" not in raw


@pytest.mark.anyio
async def test_reminder_and_ending_are_in_the_thread_of_the_question(harness: EmailHarness):
    card = sample_card()
    first = await harness.channel.send(card)
    await harness.channel.send(replace(card, is_reminder=True))
    await harness.channel.mark_closed(first, card, sample_closure())
    question, reminder, ending = (mail.message for mail in harness.server.mails)
    assert question["Message-ID"] == first.message_id
    assert question["References"] is None
    for later in (reminder, ending):
        assert later["In-Reply-To"] == later["References"] == first.message_id
        assert later["Subject"] == f"Re: {question['Subject']}"
    assert len({question["Message-ID"], reminder["Message-ID"], ending["Message-ID"]}) == 3


@pytest.mark.anyio
async def test_a_thread_ends_once_however_often_it_was_reminded(harness: EmailHarness):
    card = sample_card()
    tickets = [await harness.channel.send(card), await harness.channel.send(replace(card, is_reminder=True))]
    for ticket in tickets:
        await harness.channel.mark_closed(ticket, card, sample_closure())
    assert len(harness.server.mails) == 3


@pytest.mark.anyio
async def test_reminder_without_a_known_first_mail_gets_its_own_ending(harness: EmailHarness):
    card = replace(sample_card(), is_reminder=True)
    ticket = await harness.channel.send(card)
    await harness.channel.mark_closed(ticket, sample_card(), sample_closure())
    ending = harness.server.mails[-1].message
    assert ending["In-Reply-To"] == ticket.message_id
    assert ending["References"].split() == [ticket.details["thread"], ticket.message_id]


@pytest.mark.anyio
async def test_an_ending_has_no_link(harness: EmailHarness):
    ticket = await harness.channel.send(sample_card())
    await harness.channel.mark_closed(ticket, sample_card(), sample_closure())
    assert harness.list_messages()[-1].links == ()
    assert REVIEW_TOKEN not in harness.server.mails[-1].part("plain")


def test_the_same_question_is_the_same_mail():
    later = DAYBREAK + timedelta(minutes=5)
    first, again = (render.build_message(sample_card(), ENVELOPE, at) for at in (DAYBREAK, later))
    assert first["Message-ID"] == again["Message-ID"]
    other = render.build_message(sample_card(review_url=f"{REVIEW_URL}x"), ENVELOPE, DAYBREAK)
    assert first["Message-ID"] != other["Message-ID"]
    assert REVIEW_TOKEN not in first["Message-ID"]


@given(st.text(st.characters(), max_size=300), st.text(st.characters(), max_size=120))
def test_prompt_cannot_inject_headers(prompt: str, source: str):
    card = sample_card(prompt=f"{prompt}\r\nBcc: eve@evil.example\r\n\r\n{prompt}", source=source)
    message = render.build_message(card, ENVELOPE, DAYBREAK)
    mail = Mail("", "", message.as_bytes(), encrypted=False, user=None)
    assert problems_of(mail) == []
    assert find_violations(mail.raw) == []
    assert mail.message["Bcc"] is None
    assert mail.message["Subject"] == render.build_subject(card)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "https://acme.example/\r\nBcc: eve@evil.example",
        "https://acme.example/a b",
        'https://acme.example/"><b>',
        "https://[acme/",
        "https:///path",
        f"https://acme.example/{'x' * 2048}",
        "https://acme.example/\u202e",
    ],
)
def test_an_odd_link_is_refused(url: str):
    assert not render.is_linkable(url)
    with pytest.raises(ChannelRefused):
        render.build_message(sample_card(review_url=url), ENVELOPE, DAYBREAK)


# The way to the server


@pytest.mark.anyio
async def test_mail_is_encrypted_by_starttls_before_anybody_signs_in(tls: Tls):
    async with mail_server(tls[0]) as server:
        channel = channel_at(server, [], security="starttls", user=USER, password=PASSWORD, tls=tls[1])
        await channel.send(sample_card())
    (mail,) = server.mails
    assert (mail.encrypted, mail.user) == (True, USER)
    assert server.commands.index("STARTTLS") < server.commands.index("AUTH")


@pytest.mark.anyio
async def test_mail_is_encrypted_with_implicit_tls(tls: Tls):
    async with mail_server(tls[0], at_once=True) as server:
        await channel_at(server, [], security="tls", tls=tls[1]).send(sample_card())
    assert server.mails[0].encrypted


@pytest.mark.anyio
async def test_a_server_without_encryption_gets_neither_mail_nor_password():
    async with mail_server() as server:
        channel = channel_at(server, [], security="starttls", user=USER, password=PASSWORD)
        with pytest.raises(ChannelRefused, match="encryption"):
            await channel.send(sample_card())
    assert server.mails == []
    assert "AUTH" not in server.commands


@pytest.mark.anyio
async def test_server_with_an_untrusted_certificate_gets_no_mail(tls: Tls):
    async with mail_server(tls[0]) as server:
        channel = channel_at(server, [], security="starttls", tls=ssl.create_default_context())
        with pytest.raises(ChannelRefused, match="certificate"):
            await channel.send(sample_card())
    assert server.mails == []


@pytest.mark.anyio
async def test_wrong_password_is_reported_without_showing_it(harness: EmailHarness):
    channel = channel_at(harness.server, [], user=USER, password="wrong-password")
    with pytest.raises(ChannelRefused, match="PLACET_EMAIL_PASSWORD") as caught:
        await channel.send(sample_card())
    assert "wrong-password" not in caught.value.message
    assert "wrong-password" not in repr(channel._server)


@pytest.mark.anyio
@pytest.mark.parametrize("command", ["CONNECT", "MAIL", "RCPT", "BODY"])
async def test_temporary_failure_is_retried_twice(
    harness: EmailHarness, recorded_waits: list[float], command: str
):
    harness.server.planned[command] = [b"451 4.7.1 later"] * 2
    await harness.channel.send(sample_card())
    assert recorded_waits == [5.0, 20.0]
    assert len(harness.server.mails) == 1
    harness.server.planned[command] = [b"451 4.7.1 later"] * 3
    with pytest.raises(Unreachable, match="retry later"):
        await harness.channel.send(sample_card())


@pytest.mark.anyio
@pytest.mark.parametrize("command", ["CONNECT", "MAIL", "RCPT", "BODY"])
async def test_a_refusal_repeats_what_the_server_said_without_addresses(harness: EmailHarness, command: str):
    harness.server.planned[command] = [b"554 5.7.1 looks like spam, see https://mail.example/?q=secret"]
    with pytest.raises(ChannelRefused, match="looks like spam") as caught:
        await harness.channel.send(sample_card())
    assert "secret" not in caught.value.message


@pytest.mark.anyio
async def test_error_at_quit_does_not_fail_a_sent_mail(harness: EmailHarness):
    harness.server.planned["QUIT"] = [b"500 what"]
    await harness.channel.send(sample_card())
    assert len(harness.server.mails) == 1


@pytest.mark.anyio
async def test_refused_connection_is_unreachable(harness: EmailHarness):
    async with mail_server() as server:
        channel = channel_at(server, [])
    with pytest.raises(Unreachable):
        await channel.send(sample_card())


@pytest.mark.anyio
async def test_email_channel_receives_no_answers(harness: EmailHarness):
    with pytest.raises(SettingsError, match="on the review page"):
        await harness.channel.handle_webhook(WebhookRequest(method="POST", headers={}, body=b""))
    user = InteractionUser(platform="email", user_id="1")
    with pytest.raises(SettingsError):
        await harness.channel.reply(Interaction(id="1", reference="r", user=user, via="x-email"), "no")


# Settings


ENVIRON = {
    "PLACET_EMAIL_HOST": "smtp.acme.example",
    "PLACET_EMAIL_FROM": SENDER,
    "PLACET_EMAIL_TO": RECIPIENT,
}


@pytest.mark.anyio
async def test_the_environment_opens_the_channel():
    async with mail_server() as server:
        there = {"PLACET_EMAIL_HOST": "127.0.0.1", "PLACET_EMAIL_PORT": str(server.port)}
        channel = from_environment(ENVIRON | there)
        await channel.send(sample_card())
    assert isinstance(channel, EmailChannel)
    assert len(server.mails) == 1


def test_missing_settings_are_named():
    with pytest.raises(SettingsError, match="PLACET_EMAIL_FROM and PLACET_EMAIL_TO"):
        from_environment({"PLACET_EMAIL_HOST": "smtp.acme.example"})


@pytest.mark.parametrize(
    ("port", "named", "security"),
    [("587", "", "starttls"), ("465", "", "tls"), ("25", "", "starttls"), ("2525", "tls", "tls")],
)
def test_mail_to_another_machine_is_encrypted(port: str, named: str, security: str):
    channel = from_environment(
        {**ENVIRON, "PLACET_EMAIL_PORT": port, "PLACET_EMAIL_SECURITY": named},
    )
    assert channel._server.security == security


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PLACET_EMAIL_SECURITY", "none", "only for a server on this machine"),
        ("PLACET_EMAIL_SECURITY", "ssl", "starttls, tls, none"),
        ("PLACET_EMAIL_PORT", "smtp", "number"),
        ("PLACET_EMAIL_PORT", "0", "number"),
        ("PLACET_EMAIL_TO", "ada", "one e-mail address"),
        ("PLACET_EMAIL_TO", "ada@a.example, bob@b.example", "one e-mail address"),
        ("PLACET_EMAIL_TO", "ada@a.example\r\nBcc: eve@evil.example", "one e-mail address"),
        ("PLACET_EMAIL_TO", "Ada <ada@a.example", "one e-mail address"),
        ("PLACET_EMAIL_FROM", "<>", "one e-mail address"),
        ("PLACET_EMAIL_FROM", "ödä@acme.example", "one e-mail address"),
    ],
)
def test_invalid_settings_are_named(name: str, value: str, words: str):
    with pytest.raises(SettingsError, match=words):
        from_environment({**ENVIRON, name: value})
