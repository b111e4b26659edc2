"""What Teams accepts in a message with an Adaptive Card, and a check of cards against it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from placet.text.truncation import count_utf8_bytes, count_utf16_units

CARD_BYTES = 28 * 1024
"""The strictest of Teams' figures: that of connectors and workflows. A bot's message may have 100 KB."""
ACTIONS_IN_A_SET = 6
"""More than these are hidden or left out."""
TITLE = 40
"""No documented limit: what a button shows of its title on a phone."""
REFERENCE = 64


def find_violations(card: Mapping[str, Any]) -> list[str]:
    """List what Teams would refuse or leave out of a card."""
    found = [] if len(msgspec.json.encode(card)) <= CARD_BYTES else ["the card is too large"]
    if not card.get("body"):
        found.append("the card is empty")
    return [*found, *(violation for part in _parts(card) for violation in _part_violations(part))]


def _parts(part: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(part, Mapping):
        yield part
    children = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    for child in children:
        yield from _parts(child)


def _part_violations(part: Mapping[str, Any]) -> Iterable[str]:
    if part.get("type") == "ActionSet" and not 0 < len(part["actions"]) <= ACTIONS_IN_A_SET:
        yield "a row has no button, or too many"
    if (
        part.get("type") in ("Action.Execute", "Action.OpenUrl")
        and not 0 < count_utf16_units(part["title"]) <= TITLE
    ):
        yield "a button's title is empty or too long"
    if (
        part.get("type") == "Action.Execute"
        and not 0 < count_utf8_bytes(part["data"]["reference"]) <= REFERENCE
    ):
        yield "a button's data is empty or too long"
    if part.get("type") == "TextRun" and not part["text"]:
        yield "a text is empty"
