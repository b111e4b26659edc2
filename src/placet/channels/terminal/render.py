"""Render cards for a terminal: wrapped lines, a number for every button, and the unbroken link."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from placet.channels import texts
from placet.channels.texts import TextLimits, build_card_lines
from placet.errors import ChannelRefused
from placet.ports.channel import Button, Card, CaseClosure
from placet.text.truncation import to_single_line, truncate
from placet.text.width import display_width

MIN_WIDTH = 20
MAX_WIDTH = 100
"""Longer lines are hard to read in a window of any width."""
MAX_LINK_LENGTH = 2048
BOLD = "\x1b[1m"
DIM = "\x1b[2m"
RESET = "\x1b[0m"
TEXT_LIMITS = TextLimits(heading=150, prompt=1500, message=3000, facts=10, fact_name=40, fact_value=200)
MAX_BUTTONS = 20
MAX_LABEL_LENGTH = 60
INDENT = "  "


class NumberedButton(Struct, frozen=True, kw_only=True):
    """A button, and the number to type for it."""

    number: int
    button: Button


class TerminalLayout(Struct, frozen=True, kw_only=True):
    """The width of the lines, and whether to use bold and dim text."""

    width: int
    styled: bool

    def lines(self, text: str, *, style: str = "") -> list[str]:
        """Return the text in lines that fit the width, each in this style."""
        room = self.width - display_width(INDENT)
        return [
            f"{INDENT}{self.apply_style(style, line)}" if line else ""
            for part in text.replace("\t", "    ").split("\n")
            for line in wrap(part, room)
        ]

    def apply_style(self, style: str, text: str) -> str:
        """Return the text in a style, if styles are enabled."""
        return f"{style}{text}{RESET}" if self.styled and style and text else text


def build_message(card: Card, answers: Sequence[NumberedButton], paper: TerminalLayout) -> str:
    """Return the question, its buttons and the link; raise ChannelRefused if the link cannot be printed."""
    if not is_linkable(card.review_url):
        raise ChannelRefused("The review link is too long for a terminal, or is not an HTTP URL.")
    lines = build_card_lines(card, TEXT_LIMITS)
    facts = [f"{name}: {value}" for name, value in lines.facts if name or value]
    parts = [
        paper.lines(lines.heading, style=DIM),
        paper.lines(lines.prompt, style=BOLD),
        paper.lines(lines.message),
        [line for fact in facts for line in paper.lines(fact)],
        _list_button_lines(answers, paper),
        [f"{INDENT}{lines.link_label}:", f"{INDENT}{card.review_url}"],
        [*paper.lines(f"{lines.deadline}.", style=DIM), *paper.lines(lines.no_answer, style=DIM)],
    ]
    return _join_parts(parts)


def build_follow_up(card: Card, closure: CaseClosure, paper: TerminalLayout) -> str:
    """Return how a case closed, below everything that was written since."""
    prompt = truncate(to_single_line(card.prompt), 200)
    heading = truncate(texts.format_heading(card), TEXT_LIMITS.heading)
    about = paper.lines(f"{heading}: {prompt}" if prompt else heading, style=DIM)
    return _join_parts([[*about, *paper.lines(texts.describe_closure(closure), style=BOLD)]])


def build_reply(text: str, paper: TerminalLayout) -> str:
    """Return a text for the person who typed."""
    return "".join(f"{line}\n" for line in paper.lines(to_single_line(text)))


def list_numbers(answers: Sequence[NumberedButton]) -> str:
    """Return the numbers that can be typed: "1, 2 or 3"."""
    named = [str(answer.number) for answer in answers]
    return " or ".join(filter(None, [", ".join(named[:-1]), *named[-1:]]))


def wrap(text: str, width: int) -> Iterator[str]:
    """Yield the text in lines of at most `width` columns; a word longer than that is split."""
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if display_width(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        *full, line = _split_word(word, width)
        yield from full
    yield line


def is_linkable(url: str) -> bool:
    """Return whether the URL can be printed whole: HTTP, and printable ASCII without spaces."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    fits = len(url) <= MAX_LINK_LENGTH and url.isascii() and url.isprintable() and " " not in url
    return fits and parts.scheme in ("http", "https") and bool(parts.netloc)


def _split_word(word: str, width: int) -> list[str]:
    pieces = [""]
    taken = 0
    for character in word:
        size = display_width(character)
        if taken + size > width:
            pieces.append("")
            taken = 0
        pieces[-1] += character
        taken += size
    return pieces


def _list_button_lines(answers: Sequence[NumberedButton], paper: TerminalLayout) -> list[str]:
    if not answers:
        return []
    widest = max(len(str(answer.number)) for answer in answers)
    named = [
        f"{INDENT}{paper.apply_style(BOLD, str(one.number).rjust(widest))}  {one.button.label}"
        for one in answers
    ]
    return [
        *named,
        *paper.lines(f"Type {list_numbers(answers)} and press Enter, or open the link.", style=DIM),
    ]


def _join_parts(parts: Sequence[Sequence[str]]) -> str:
    return "\n" + "".join("".join(f"{line}\n" for line in part) + "\n" for part in parts if any(part))
