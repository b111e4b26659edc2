"""The words of a card, whichever messenger shows it: readable, harmless to read, and no longer than allowed.

Escaping for a platform's own markup is that platform's business, and comes after everything here.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from placet.ports.channel import ONLY_THERE, Button, Card, Ended

Size = Callable[[str], int]

MOST_READ = 20_000
"""So many characters of a text are looked at; no messenger shows more."""

# Control and format characters, fillers, bidirectional marks, surrogates, private use, tags.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_HOST = re.compile(r"[A-Za-z0-9.:-]+")
_JOINERS = "\u200c\u200d"
_EMOJI_STYLE = "\ufe0e\ufe0f"
# What depends on the characters before it: whoever cuts in between changes what is left.
_TRAILING = re.compile("[\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")
_FURTHEST_BACK = 32

ACTION_LABELS: Mapping[str, str] = {
    "approve": "Approve",
    "edit": "Request changes",
    "reject": "Reject",
    "select": "Choose",
    "submit": "Answer",
    "confirm": "Confirm",
    "cancel": "Do not do it",
    "retry": "Try again",
    "skip": "Skip this step",
    "abort": "Stop",
}
ANSWERED: Mapping[str, str] = {
    "approve": "Approved",
    "edit": "Changes requested",
    "reject": "Rejected",
    "select": "Chosen",
    "submit": "Answered",
    "confirm": "Confirmed",
    "cancel": "Not to be done",
    "retry": "To be tried again",
    "skip": "Step left out",
    "abort": "Stopped",
}
ASKS: Mapping[str, str] = {
    "approval": "{source} asks for your approval",
    "selection": "{source} asks you to choose",
    "input": "{source} asks you for information",
    "confirmation": "{source} asks you to confirm",
    "escalation": "{source} asks you how to go on",
}
LINK_LABELS: Mapping[str, str] = {
    "approval": "Open the review",
    "selection": "Open and choose",
    "input": "Open and answer",
    "confirmation": "Open the review",
    "escalation": "Open the review",
}
IF_SILENT: Mapping[str, str] = {
    "skip": "this step is left out.",
    "reject": "it counts as a no.",
    "abort": "the agent is told to stop.",
    "approve": "it counts as a yes.",
}


LONGEST_HEADING = 150
LONGEST_ASKER = 80
SHORTEST_NAME = 8
LINK_ONLY = frozenset({"selection", "input"})
"""What no single press can answer."""


# Measuring and cutting


def utf16_units(text: str) -> int:
    """The length that platforms count which were written in Java, JavaScript or C#."""
    return len(text) + sum(character > "\uffff" for character in text)


def utf8_bytes(text: str) -> int:
    """The length that platforms count which limit bytes; lone surrogates count as what replaces them."""
    return len(text.encode("utf-8", "replace"))


def cut(text: str, most: int, *, size: Size = len) -> str:
    """The text, or its beginning and an ellipsis, at most so long; `size` says how the platform counts.

    A platform whose markup is escaped gives the size of the escaped text. Nothing is torn apart that only
    makes sense together: an emoji and its colour, a letter and its accents, a mark for a hidden character.
    """
    if len(text) <= most and size(text) <= most:
        return text
    start = text[: most + 1]
    fits = bisect_right(range(1, len(start) + 1), most, key=lambda end: size(start[:end] + "…"))
    whole = _whole(start, fits).rstrip()
    return f"{whole}…" if size(f"{whole}…") <= most else ""


def _whole(text: str, end: int) -> str:
    """The beginning of a text up to here, or a little less where something would be torn apart."""
    for back in range(min(end, _FURTHEST_BACK)):
        here = end - back
        after = text[here : here + 1]
        if not (_continues(after) or text[here - 1] == "\u200d"):
            end = here
            break
    opened = text.rfind("⟦", max(0, end - 12), end)
    return text[:opened] if opened >= 0 and "⟧" not in text[opened:end] else text[:end]


def _continues(character: str) -> bool:
    return bool(character) and (bool(unicodedata.combining(character)) or bool(_TRAILING.match(character)))


def fits_link_button(url: str, longest: int, *, schemes: Collection[str] = ("http", "https")) -> bool:
    """Whether platforms take a link for a button: not too long, and no host without a dot (localhost)."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    fits = len(url) <= longest and url.isascii() and url.isprintable() and " " not in url
    return fits and parts.scheme in schemes and "." in host.strip(".")


# Making readable


def visible(text: str) -> str:
    """The text with every character that hides, reorders or pretends shown by its number, as in ⟦U+202E⟧."""
    start = text[:MOST_READ].replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(_marked, start)


def one_line(text: str) -> str:
    """The text as one visible line: any line break or run of spaces is one space."""
    return visible(" ".join(text[:MOST_READ].split()))


def paragraphs(text: str) -> str:
    """The text visible in its own lines, never more than one of them empty in a row."""
    lines = [line.rstrip() for line in visible(text).strip().split("\n")]
    return "\n".join(line for line, next in zip(lines, [*lines[1:], "."], strict=True) if line or next)


def _marked(found: re.Match[str]) -> str:
    character = found[0]
    before = found.string[found.start() - 1 : found.start()]
    after = found.string[found.end() : found.end() + 1]
    joins = character in _JOINERS and _joins(before, after)
    styles = character in _EMOJI_STYLE and _styles(before, after)
    return character if joins or styles else f"⟦U+{ord(character):04X}⟧"


def _joins(before: str, after: str) -> bool:
    """Joiners belong between emoji and inside the words of scripts that connect their letters."""
    if not before or not after:
        return False
    return (_is_pictorial(before) and _is_pictorial(after)) or (_connects(before) and _connects(after))


def _styles(before: str, after: str) -> bool:
    """A style selector belongs after one visible sign; a run of them is a message to a machine."""
    return bool(before.strip()) and not _HIDDEN.match(before) and (not after or after not in _EMOJI_STYLE)


def _is_pictorial(character: str) -> bool:
    return (
        "\u2190" <= character <= "\u2bff"
        or "\U0001f000" <= character <= "\U0001faff"
        or character in _EMOJI_STYLE
    )


def _connects(character: str) -> bool:
    return "\u0600" <= character <= "\u109f" or "\u1780" <= character <= "\u18af"


# The lines of a card


class Room(Struct, frozen=True, kw_only=True):
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


def lines_of(card: Card, room: Room, *, size: Size = len) -> Lines:
    """The lines of a card; a message that only repeats the prompt is left out."""
    prompt = cut(paragraphs(card.prompt), room.prompt, size=size)
    message = cut(paragraphs(card.message), room.message, size=size)
    facts = tuple(
        (cut(one_line(name), room.fact_name, size=size), cut(one_line(value), room.fact_value, size=size))
        for name, value in _facts_within(card, room.facts)
        if name.strip() and value.strip()
    )
    return Lines(
        heading=cut(heading(card, room.heading, size=size), room.heading, size=size),
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
    return (*card.facts[: most - 1], (ONLY_THERE, ", ".join(name for name, _ in card.facts[most - 1 :])))


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
    source = one_line(card.source) or "An agent"
    if size(source) <= most:
        return source
    name, host = _name_and_host(card)
    left = most - size(f" ({host})")
    if name and left >= SHORTEST_NAME:
        return f"{cut(name, left, size=size)} ({host})"
    if not _HOST.fullmatch(host):
        return cut(source, most, size=size)
    ends = (f"…{host[start:]}" for start in range(max(0, len(host) - most), len(host)))
    return host if size(host) <= most else next((end for end in ends if size(end) <= most), "")


def _asking(card: Card, source: str) -> str:
    asks = ASKS.get(card.type, "{source} asks for your decision").replace("{source}", source)
    if card.round > 1:
        asks = f"{asks} (round {card.round})"
    return f"Reminder: {asks}" if card.is_reminder else asks


def _name_and_host(card: Card) -> tuple[str, str]:
    """The parts of "Acme (acme.example)"; what has no such parts is taken for the latter."""
    source = one_line(card.source) or "An agent"
    name, _, host = source.removesuffix(")").rpartition(" (")
    return (name, host) if name and source.endswith(")") else ("", source)


def deadline(card: Card) -> str:
    """Until when an answer counts: "Open until Tuesday 17 November 2026, 18:00 UTC"."""
    return f"Open until {moment(card.expires_at)}"


def silence(card: Card) -> str:
    """What comes of no answer: "If nobody answers: it counts as a no."."""
    known = IF_SILENT.get(card.default_action)
    return f"If nobody answers: {known or 'nothing is decided.'}"


def link_label(card: Card) -> str:
    """What the button with the link says."""
    return LINK_LABELS.get(card.type, "Open the review")


def buttons_of(card: Card, most: int, *, label: int, size: Size = len) -> tuple[Button, ...]:
    """The card's native buttons, labelled in one short line each; none where only the page can answer."""
    if card.type in LINK_ONLY:
        return ()
    return tuple(
        replace(button, label=cut(one_line(button.label) or action_label(button.action), label, size=size))
        for button in card.buttons[:most]
    )


def action_label(action: str) -> str:
    """What a button says, for an action whose service gives no label."""
    words = one_line(action).replace("_", " ").replace("-", " ").strip()
    return ACTION_LABELS.get(action) or words.capitalize() or "Answer"


def ending(ended: Ended) -> str:
    """What became of a card in one line: "Approved by Ada, Tuesday 17 November 2026, 18:00 UTC"."""
    if ended.how == "expired":
        return f"Expired: nobody answered in time ({moment(ended.at)})"
    if ended.how == "withdrawn":
        reason = cut(one_line(ended.reason or ""), 200)
        return f"Withdrawn{f': {reason}' if reason else ''} ({moment(ended.at)})"
    answered = ANSWERED.get(ended.action or "") or (
        f"Decided: {cut(action_label(ended.action), 60)}" if ended.action else "Decided"
    )
    by = cut(one_line(ended.by or ""), 80)
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
