"""The words of a card, whichever messenger shows it: readable, harmless to read, and no longer than allowed.

Escaping for a platform's own markup is that platform's business, and comes after everything here.
"""

import re
from collections.abc import Collection
from datetime import UTC, datetime
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from placet.ports.channel import ONLY_ON_PAGE, Button, Card, CaseClosure
from placet.reviews.declaration import Tone
from placet.reviews.registry import find_action, find_declaration
from placet.text.shared_wording import ASKS_FOR_DECISION, describe_no_answer
from placet.text.truncation import Size, to_paragraphs, to_single_line, truncate

_HOST = re.compile(r"[A-Za-z0-9.:-]+")

DEFAULT_LINK_LABEL = "Open the review"
LONGEST_HEADING = 150
LONGEST_ASKER = 80
SHORTEST_NAME = 8


def fits_link_button(url: str, longest: int, *, schemes: Collection[str] = ("http", "https")) -> bool:
    """Whether platforms take a link for a button: not too long, and no host without a dot (localhost)."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    fits = len(url) <= longest and url.isascii() and url.isprintable() and " " not in url
    return fits and parts.scheme in schemes and "." in host.strip(".")


# The lines of a card


class TextLimits(Struct, frozen=True, kw_only=True):
    """How much of each part a platform has room for, as that platform counts."""

    heading: int = 150
    prompt: int = 600
    message: int = 1200
    facts: int = 8
    fact_name: int = 40
    fact_value: int = 120


class Lines(Struct, frozen=True, kw_only=True):
    """What a card says, part by part, cut to its room and not yet escaped; empty parts are left out."""

    heading: str
    prompt: str
    message: str
    facts: tuple[tuple[str, str], ...]
    deadline: str
    silence: str
    link_label: str


def lines_of(card: Card, room: TextLimits, *, size: Size = len) -> Lines:
    """The lines of a card; a message that only repeats the prompt is left out."""
    prompt = truncate(to_paragraphs(card.prompt), room.prompt, size=size)
    message = truncate(to_paragraphs(card.message), room.message, size=size)
    facts = tuple(
        (
            truncate(to_single_line(name), room.fact_name, size=size),
            truncate(to_single_line(value), room.fact_value, size=size),
        )
        for name, value in _facts_within(card, room.facts)
        if name.strip() and value.strip()
    )
    return Lines(
        heading=truncate(heading(card, room.heading, size=size), room.heading, size=size),
        prompt=prompt,
        message="" if card.message.strip() == card.prompt.strip() else message,
        facts=facts,
        deadline=deadline(card),
        silence=silence(card),
        link_label=link_label(card),
    )


def _facts_within(card: Card, most: int) -> tuple[tuple[str, str], ...]:
    """So many facts; beside buttons the last names those that there is no room for."""
    if len(card.facts) <= most or not card.buttons or most == 0:
        return card.facts[:most]
    return (*card.facts[: most - 1], (ONLY_ON_PAGE, ", ".join(name for name, _ in card.facts[most - 1 :])))


def heading(card: Card, most: int = LONGEST_HEADING, *, size: Size = len) -> str:
    """Who asks for what, at most so long: "Acme asks for your approval"."""
    whole = _asking(card, asker(card, LONGEST_ASKER))
    if size(whole) <= most:
        return whole
    room = most - size(_asking(card, ""))
    fits = size(_name_and_host(card)[1]) <= room
    return _asking(card, asker(card, room, size=size)) if fits else asker(card, most, size=size)


def asker(card: Card, most: int, *, size: Size = len) -> str:
    """Who asks: a name never without its host, and of a host that is too long the end, which tells most."""
    source = to_single_line(card.source) or "An agent"
    if size(source) <= most:
        return source
    name, host = _name_and_host(card)
    left = most - size(f" ({host})")
    if name and left >= SHORTEST_NAME:
        return f"{truncate(name, left, size=size)} ({host})"
    if not _HOST.fullmatch(host):
        return truncate(source, most, size=size)
    ends = (f"…{host[start:]}" for start in range(max(0, len(host) - most), len(host)))
    return host if size(host) <= most else next((end for end in ends if size(end) <= most), "")


def _asking(card: Card, source: str) -> str:
    declared = find_declaration(card.type)
    asks = (declared.question if declared else ASKS_FOR_DECISION).replace("{service}", source)
    if card.round > 1:
        asks = f"{asks} (round {card.round})"
    return f"Reminder: {asks}" if card.is_reminder else asks


def _name_and_host(card: Card) -> tuple[str, str]:
    """The parts of "Acme (acme.example)"; what has no such parts is taken for the latter."""
    source = to_single_line(card.source) or "An agent"
    name, _, host = source.removesuffix(")").rpartition(" (")
    return (name, host) if name and source.endswith(")") else ("", source)


def deadline(card: Card) -> str:
    """Until when an answer counts: "Open until Tuesday 17 November 2026, 18:00 UTC"."""
    return f"Open until {moment(card.expires_at)}"


def silence(card: Card) -> str:
    """What comes of no answer: "If nobody answers: it counts as a no."."""
    return f"If nobody answers: {describe_no_answer(card.default_action)}"


def link_label(card: Card) -> str:
    """What the button with the link says."""
    declared = find_declaration(card.type)
    return declared.link_label if declared is not None else DEFAULT_LINK_LABEL


def buttons_of(card: Card, most: int, *, label: int, size: Size = len) -> tuple[Button, ...]:
    """The card's native buttons, labelled in one short line each; none where only the page can answer."""
    declared = find_declaration(card.type)
    if declared is not None and not declared.inline_actions:
        return ()
    return tuple(
        replace(
            button,
            label=truncate(to_single_line(button.label) or action_label(button.action), label, size=size),
        )
        for button in card.buttons[:most]
    )


def find_tone(action: str) -> Tone:
    """Return whether a button goes ahead, stops something, or neither."""
    declared = find_action(action)
    return declared.tone if declared is not None else "neutral"


def action_label(action: str) -> str:
    """What a button says, for an action whose service gives no label."""
    declared = find_action(action)
    if declared is not None:
        return declared.messenger_label or declared.label
    words = to_single_line(action).replace("_", " ").replace("-", " ").strip()
    return words.capitalize() or "Answer"


def ending(ended: CaseClosure) -> str:
    """What became of a card in one line: "Approved by Ada, Tuesday 17 November 2026, 18:00 UTC"."""
    if ended.how == "expired":
        return f"Expired: nobody answered in time ({moment(ended.at)})"
    if ended.how == "withdrawn":
        reason = truncate(to_single_line(ended.reason or ""), 200)
        return f"Withdrawn{f': {reason}' if reason else ''} ({moment(ended.at)})"
    declared = find_action(ended.action or "")
    answered = (declared.answered if declared is not None else "") or (
        f"Decided: {truncate(action_label(ended.action), 60)}" if ended.action else "Decided"
    )
    by = truncate(to_single_line(ended.by or ""), 80)
    return f"{answered}{f' by {by}' if by else ''}, {moment(ended.at)}"


def moment(at: datetime) -> str:
    """A moment in words, in UTC: "Tuesday 17 November 2026, 18:00 UTC"."""
    here = at.astimezone(UTC)
    return f"{_WEEKDAYS[here.weekday()]} {here.day} {_MONTHS[here.month - 1]} {here.year}, {here:%H:%M} UTC"


# Not strftime, whose words follow the machine's locale.
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
