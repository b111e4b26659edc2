"""The terminal only: typed numbers, real keyboards, narrow windows, output that is not a terminal."""

import asyncio
import io
import os
import pwd
import sys
import termios
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing

import pytest

from placet.channels.terminal import TerminalChannel, from_environment
from placet.channels.terminal.channel import get_login_name
from placet.channels.terminal.interactions import split_lines
from placet.channels.terminal.render import TerminalLayout, build_message, is_linkable, wrap
from placet.errors import ChannelRefused, SettingsError
from placet.ports.channel import Button, Interaction, WebhookRequest
from placet.testing.clock import DAYBREAK
from placet.testing.platforms import HIDDEN, REVIEW_URL, sample_card, sample_closure
from placet.text.width import display_width
from tests.channels.terminal.control_characters import find_control_characters
from tests.channels.terminal.screens import Screen, TerminalHarness, Window, open_window


@pytest.fixture
def terminal() -> Iterator[Window]:
    with open_window() as found:
        yield found


@pytest.fixture
def terminal_with_keyboard(terminal: Window) -> TerminalHarness:
    """A channel with a keyboard."""
    screen = Screen()
    channel = TerminalChannel(
        screen=screen, keyboard=terminal.keyboard, user="ada", columns=lambda: 80, clock=lambda: DAYBREAK
    )
    return TerminalHarness(screen, channel)


class PressListener:
    """What a channel hears, one after the other."""

    def __init__(self, channel: TerminalChannel) -> None:
        self.interactions = channel.listen()

    async def next(self) -> Sequence[Interaction]:
        async with asyncio.timeout(60):
            return await anext(self.interactions)


# What is typed


@pytest.mark.anyio
async def test_typed_number_is_a_press_by_the_logged_in_user(
    terminal_with_keyboard: TerminalHarness, terminal: Window
):
    card = sample_card()
    await terminal_with_keyboard.channel.send(card)
    async with aclosing(terminal_with_keyboard.channel.listen()) as listening:  # type: ignore[type-var]
        terminal.type("2\n")
        async with asyncio.timeout(60):
            (press,) = await anext(listening)
    assert press.reference == card.buttons[1].reference
    assert (press.user.platform, press.user.user_id) == ("x-terminal", "ada")
    assert press.via == "x-terminal_prompt"


@pytest.mark.anyio
async def test_unknown_input_is_answered_and_is_no_press(
    terminal_with_keyboard: TerminalHarness, terminal: Window
):
    card = sample_card()
    await terminal_with_keyboard.channel.send(card)
    listening = PressListener(terminal_with_keyboard.channel)
    terminal.type("yes\n3\n-1\n\n1.0\n\u0661\n1 2\n1\n")
    (press,) = await listening.next()
    assert press.reference == card.buttons[0].reference
    remarks = [text for text in terminal_with_keyboard.screen.messages if "not an answer" in text]
    assert len(remarks) == 6
    assert "Type 1 or 2, or open the link." in remarks[0]


@pytest.mark.anyio
async def test_every_question_has_numbers_of_its_own(
    terminal_with_keyboard: TerminalHarness, terminal: Window
):
    first, second = sample_card(), sample_card("confirmation")
    ticket = await terminal_with_keyboard.channel.send(first)
    await terminal_with_keyboard.channel.send(second)
    listening = PressListener(terminal_with_keyboard.channel)
    terminal.type("3\n1\n")
    found = [press async for press in _take_presses(listening, 2)]
    assert [press.reference for press in found] == [second.buttons[0].reference, first.buttons[0].reference]
    assert found[0].id != found[1].id
    await terminal_with_keyboard.channel.mark_closed(ticket, first, sample_closure())
    terminal.type("1\n4\n")
    (press,) = await listening.next()
    assert press.reference == second.buttons[1].reference


async def _take_presses(listening: PressListener, many: int) -> AsyncIterator[Interaction]:
    while many > 0:
        for press in await listening.next():
            many -= 1
            yield press


@pytest.mark.anyio
async def test_what_was_typed_before_the_question_does_not_answer_it(
    terminal_with_keyboard: TerminalHarness, terminal: Window
):
    terminal.type("1\n")
    card = sample_card()
    await terminal_with_keyboard.channel.send(card)
    listening = PressListener(terminal_with_keyboard.channel)
    terminal.type("2\n")
    (press,) = await listening.next()
    assert press.reference == card.buttons[1].reference


@pytest.mark.anyio
async def test_closing_the_terminal_ends_listening(terminal_with_keyboard: TerminalHarness, terminal: Window):
    await terminal_with_keyboard.channel.send(sample_card())
    listening = PressListener(terminal_with_keyboard.channel)
    terminal.type("1\n")
    await listening.next()
    terminal.close()
    with pytest.raises(StopAsyncIteration):
        await listening.next()


@pytest.mark.anyio
async def test_outcome_of_a_typed_answer_is_printed(
    terminal_with_keyboard: TerminalHarness, terminal: Window
):
    await terminal_with_keyboard.channel.send(sample_card())
    listening = PressListener(terminal_with_keyboard.channel)
    terminal.type("1\n")
    (press,) = await listening.next()
    await terminal_with_keyboard.channel.reply(press, "Your answer was recorded.\x1b[2J")
    assert terminal_with_keyboard.screen.messages[-1] == "  Your answer was recorded.⟦U+001B⟧[2J\n"


@pytest.mark.anyio
@pytest.mark.parametrize("is_there", [True, False], ids=["a file", "nothing"])
async def test_without_a_keyboard_nothing_is_read(is_there: bool):
    reading, writing = os.pipe()
    channel = TerminalChannel(screen=Screen(), keyboard=reading if is_there else None)
    try:
        with pytest.raises(SettingsError, match="Standard input is not a terminal"):
            await PressListener(channel).next()
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("typed", "lines", "rest"),
    [
        (b"1\n", ["1"], b""),
        (b" 12 \r\n3\r4", ["12", "3"], b"4"),
        (b"\xff\n", ["\ufffd"], b""),
        (b"x" * 9000, [], b"x" * 256),
    ],
)
def test_typed_bytes_are_read_line_by_line(typed: bytes, lines: list[str], rest: bytes):
    assert split_lines(typed) == (lines, rest)


# What is shown


@pytest.mark.anyio
async def test_card_is_rendered_as_expected():
    screen = Screen()
    channel = TerminalChannel(screen=screen, user="ada", styled=False, columns=lambda: 50)
    await channel.send(sample_card(message="The spring issue is ready, and nobody has read it yet."))
    assert screen.messages == [
        "\n"
        "  Acme asks for your approval\n"
        "\n"
        "  Send the newsletter to 1,200 readers?\n"
        "\n"
        "  The spring issue is ready, and nobody has read\n"
        "  it yet.\n"
        "\n"
        "  Subject: Spring\n"
        "  Readers: 1200\n"
        "\n"
        "  1  Approve\n"
        "  2  Reject\n"
        "  Type 1 or 2 and press Enter, or open the link.\n"
        "\n"
        "  Open the review:\n"
        f"  {REVIEW_URL}\n"
        "\n"
        "  Open until Thursday 1 January 2026, 10:00 UTC.\n"
        "  If nobody answers: it counts as a no.\n"
        "\n"
    ]


@pytest.mark.parametrize(("rows_and_columns", "width"), [((24, 40), 39), ((0, 0), 69)], ids=["40", "unknown"])
def test_the_window_says_how_wide_it_is(
    terminal: Window,
    monkeypatch: pytest.MonkeyPatch,
    rows_and_columns: tuple[int, int],
    width: int,
):
    monkeypatch.setenv("COLUMNS", "70")
    termios.tcsetwinsize(terminal.keyboard, rows_and_columns)
    with open(terminal.keyboard, "w", closefd=False) as screen:
        assert TerminalChannel(screen=screen)._choose_layout().width == width


@pytest.mark.parametrize("width", [20, 33, 80])
def test_no_line_but_the_link_is_wider_than_the_window(width: int):
    card = sample_card(
        prompt="日本語のとても長い質問です。" * 9,
        message="word " * 60 + "x" * 300,
        facts=(("N", "👩‍💻" * 60),),
    )
    lines = build_message(card, (), TerminalLayout(width=width, styled=False)).splitlines()
    assert [line for line in lines if display_width(line) > width and REVIEW_URL not in line] == []
    assert f"  {REVIEW_URL}" in lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("a b c", ["a b", "c"]),
        ("abcdef", ["abc", "def"]),
        ("e\u0301e\u0301e\u0301e\u0301", ["e\u0301e\u0301e\u0301", "e\u0301"]),
        ("日本", ["日", "本"]),
    ],
)
def test_text_is_broken_between_words_and_never_inside_a_letter(text: str, lines: list[str]):
    assert list(wrap(text, 3)) == lines


@pytest.mark.anyio
async def test_hidden_characters_of_a_label_are_shown_and_not_obeyed(terminal_with_keyboard: TerminalHarness):
    button = Button(action="approve", label=f"Yes\x1b]0;title\x07{HIDDEN}", reference="r")
    await terminal_with_keyboard.channel.send(sample_card(buttons=(button,), default_action="\x1b[2J"))
    (shown,) = terminal_with_keyboard.list_messages()
    assert shown.problems == ()
    assert "⟦U+001B⟧]0;title⟦U+0007⟧" in shown.text


def test_control_characters_are_found():
    assert find_control_characters("plain ünïcode 👩‍💻\n\x1b[1mbold\x1b[0m") == []
    for sign in "\x07\x08\t\r\x1b\x7f\x9b\u202e\u2066":
        assert find_control_characters(f"a{sign}[31mb") == [f"U+{ord(sign):04X}"]


@pytest.mark.parametrize(
    "url", ["javascript:x", "https://a.example/\x1b[2J", "https://[a", "https://a.example/ü"]
)
def test_an_odd_link_is_refused(url: str):
    assert not is_linkable(url)
    with pytest.raises(ChannelRefused):
        build_message(sample_card(review_url=url), (), TerminalLayout(width=80, styled=False))


@pytest.mark.anyio
async def test_output_that_is_not_a_terminal_is_refused():
    with pytest.raises(ChannelRefused, match="Standard error is not a terminal"):
        await TerminalChannel(screen=io.StringIO()).send(sample_card())


@pytest.mark.anyio
async def test_a_terminal_has_no_webhook(harness: TerminalHarness):
    with pytest.raises(SettingsError):
        await harness.channel.handle_webhook(WebhookRequest(method="POST", headers={}, body=b""))


# Settings


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("environ", "styled"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
async def test_styles_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], styled: bool
):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdin", None)
    await from_environment(environ).send(sample_card())
    assert ("\x1b[1m" in screen.messages[0]) == styled


def test_user_name_is_not_read_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert get_login_name() == pwd.getpwuid(os.getuid()).pw_name
