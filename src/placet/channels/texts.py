"""The texts of a card for all messengers: readable, without control characters, and within length limits.

The texts are not escaped yet. Each channel escapes them for the markup of its platform.
"""

import re
from collections.abc import Collection
from datetime import UTC, datetime
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from placet.errors import ChannelRefused
from placet.ports.channel import ONLY_ON_PAGE, Button, Card, CaseClosure
from placet.reviews.declaration import Tone
from placet.reviews.registry import find_action, find_declaration
from placet.text.shared_wording import ASKS_FOR_DECISION, OPEN_REVIEW, describe_no_answer
from placet.text.truncation import MeasureText, count_utf16_units, to_paragraphs, to_single_line, truncate

_HOST = re.compile(r"[A-Za-z0-9.:-]+")

MAX_HEADING_LENGTH = 150
MAX_SOURCE_LENGTH = 80
MIN_NAME_LENGTH = 8


def fits_link_button(url: str, longest: int, *, schemes: Collection[str] = ("http", "https")) -> bool:
    """Return whether platforms accept this link in a button: not too long, and a host with a dot."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    fits = len(url) <= longest and url.isascii() and url.isprintable() and " " not in url
    return fits and parts.scheme in schemes and "." in host.strip(".")


# The lines of a card


class TextLimits(Struct, frozen=True, kw_only=True):
    """The maximum length of each part on a platform, as that platform counts."""

    heading: int = 150
    prompt: int = 600
    message: int = 1200
    facts: int = 8
    fact_name: int = 40
    fact_value: int = 120


class CardLines(Struct, frozen=True, kw_only=True):
    """The parts of a card, truncated but not escaped; parts without a text are empty."""

    heading: str
    prompt: str
    message: str
    facts: tuple[tuple[str, str], ...]
    deadline: str
    no_answer: str
    link_label: str


def build_card_lines(card: Card, limits: TextLimits, *, size: MeasureText = len) -> CardLines:
    """Return the lines of a card; a message that only repeats the prompt is left out."""
    prompt = truncate(to_paragraphs(card.prompt), limits.prompt, size=size)
    message = truncate(to_paragraphs(card.message), limits.message, size=size)
    facts = tuple(
        (
            truncate(to_single_line(name), limits.fact_name, size=size),
            truncate(to_single_line(value), limits.fact_value, size=size),
        )
        for name, value in _limit_facts(card, limits.facts)
        if name.strip() and value.strip()
    )
    return CardLines(
        heading=truncate(format_heading(card, limits.heading, size=size), limits.heading, size=size),
        prompt=prompt,
        message="" if card.message.strip() == card.prompt.strip() else message,
        facts=facts,
        deadline=format_deadline(card),
        no_answer=format_no_answer(card),
        link_label=find_link_label(card),
    )


def build_lines_with_link(
    card: Card, limits: TextLimits, *, most: int, platform: str, size: MeasureText = len
) -> CardLines:
    """Return the lines of a card whose text contains the review link.

    Raises ChannelRefused if the link is longer than `most` or cannot be shown.
    """
    if count_utf16_units(card.review_url) > most or not card.review_url.isprintable():
        raise ChannelRefused(
            f"The review link is too long for {platform}, or contains characters that cannot be shown."
        )
    return build_card_lines(card, limits, size=size)


def _limit_facts(card: Card, most: int) -> tuple[tuple[str, str], ...]:
    """Return at most `most` facts; if the card has buttons, the last one names those left out."""
    if len(card.facts) <= most or not card.buttons or most == 0:
        return card.facts[:most]
    return (*card.facts[: most - 1], (ONLY_ON_PAGE, ", ".join(name for name, _ in card.facts[most - 1 :])))


def format_heading(card: Card, most: int = MAX_HEADING_LENGTH, *, size: MeasureText = len) -> str:
    """Return who asks for what, at most `most` long: "Acme asks for your approval"."""
    whole = _format_question(card, format_source(card, MAX_SOURCE_LENGTH))
    if size(whole) <= most:
        return whole
    room = most - size(_format_question(card, ""))
    fits = size(_split_source(card)[1]) <= room
    return (
        _format_question(card, format_source(card, room, size=size))
        if fits
        else format_source(card, most, size=size)
    )


def format_source(card: Card, most: int, *, size: MeasureText = len) -> str:
    """Return who asks: a name always with its host; of a host that is too long, its end."""
    source = to_single_line(card.source) or "An agent"
    if size(source) <= most:
        return source
    name, host = _split_source(card)
    left = most - size(f" ({host})")
    if name and left >= MIN_NAME_LENGTH:
        return f"{truncate(name, left, size=size)} ({host})"
    if not _HOST.fullmatch(host):
        return truncate(source, most, size=size)
    ends = (f"…{host[start:]}" for start in range(max(0, len(host) - most), len(host)))
    return host if size(host) <= most else next((end for end in ends if size(end) <= most), "")


def _format_question(card: Card, source: str) -> str:
    declared = find_declaration(card.type)
    asks = (declared.question if declared else ASKS_FOR_DECISION).replace("{service}", source)
    if card.round > 1:
        asks = f"{asks} (round {card.round})"
    if card.is_reminder:
        return f"Expires soon: {asks}" if card.is_expiring else f"Reminder: {asks}"
    return asks


def _split_source(card: Card) -> tuple[str, str]:
    """Return the name and the host of "Acme (acme.example)"; any other source is the host."""
    source = to_single_line(card.source) or "An agent"
    name, _, host = source.removesuffix(")").rpartition(" (")
    return (name, host) if name and source.endswith(")") else ("", source)


def format_deadline(card: Card) -> str:
    """Return until when the case is open: "Open until Tuesday 17 November 2026, 18:00 UTC"."""
    return f"Open until {format_time(card.expires_at)}"


def format_no_answer(card: Card) -> str:
    """Return what happens without an answer: "If nobody answers: it counts as a no."."""
    return f"If nobody answers: {describe_no_answer(card.default_action)}"


def find_link_label(card: Card) -> str:
    """Return the label of the button with the link."""
    declared = find_declaration(card.type)
    return declared.link_label if declared is not None else OPEN_REVIEW


def label_buttons(card: Card, most: int, *, label: int, size: MeasureText = len) -> tuple[Button, ...]:
    """Return the card's buttons with short labels; none if only the page can answer."""
    declared = find_declaration(card.type)
    if declared is not None and not declared.inline_actions:
        return ()
    return tuple(
        replace(
            button,
            label=truncate(
                to_single_line(button.label) or find_action_label(button.action), label, size=size
            ),
        )
        for button in card.buttons[:most]
    )


def find_tone(action: str) -> Tone:
    """Return whether a button approves, stops or does neither."""
    declared = find_action(action)
    return declared.tone if declared is not None else "neutral"


def find_action_label(action: str) -> str:
    """Return the label of an action for which the service gives none."""
    declared = find_action(action)
    if declared is not None:
        return declared.messenger_label or declared.label
    words = to_single_line(action).replace("_", " ").replace("-", " ").strip()
    return words.capitalize() or "Answer"


def describe_closure(closure: CaseClosure) -> str:
    """Return how the case closed: "Approved by Ada, Tuesday 17 November 2026, 18:00 UTC"."""
    if closure.how == "expired":
        return f"Expired: nobody answered in time ({format_time(closure.at)})"
    if closure.how == "withdrawn":
        reason = truncate(to_single_line(closure.reason or ""), 200)
        return f"Withdrawn{f': {reason}' if reason else ''} ({format_time(closure.at)})"
    declared = find_action(closure.action or "")
    answered = (declared.answered if declared is not None else "") or (
        f"Decided: {truncate(find_action_label(closure.action), 60)}" if closure.action else "Decided"
    )
    by = truncate(to_single_line(closure.by or ""), 80)
    warning = ". But its signature is invalid: do not act on it" if closure.is_forged else ""
    return f"{answered}{f' by {by}' if by else ''}, {format_time(closure.at)}{warning}"


def format_time(at: datetime) -> str:
    """Return a time in words, in UTC: "Tuesday 17 November 2026, 18:00 UTC"."""
    here = at.astimezone(UTC)
    return f"{_WEEKDAYS[here.weekday()]} {here.day} {_MONTHS[here.month - 1]} {here.year}, {here:%H:%M} UTC"


# Not strftime, which uses the machine's locale.
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
