"""What Slack accepts in a message according to its Block Kit reference, and a check against it."""

from collections.abc import Iterable, Mapping
from typing import Any

from placet.text.truncation import count_utf16_units

BLOCKS = 50
HEADER_TEXT = 150
SECTION_TEXT = 3000
SECTION_FIELDS = 10
FIELD_TEXT = 2000
CONTEXT_ELEMENTS = 10
ACTION_ELEMENTS = 25
BUTTON_TEXT = 75
BUTTON_VALUE = 2000
BUTTON_URL = 3000
ACTION_ID = 255
TEXT = 4000
"""Slack cuts the text that stands in for the blocks only beyond 40,000; it asks for no more than this."""


def find_violations(body: Mapping[str, Any]) -> list[str]:
    """List what Slack would refuse in a chat.postMessage or chat.update."""
    blocks = body.get("blocks", [])
    found = [] if _fits(body.get("text", ""), TEXT) else ["the text is empty or too long"]
    if len(blocks) > BLOCKS:
        found.append("there are too many blocks")
    return [*found, *(violation for block in blocks for violation in _CHECKS[block["type"]](block))]


def _header_violations(block: Mapping[str, Any]) -> Iterable[str]:
    if not _fits(block["text"]["text"], HEADER_TEXT):
        yield "the heading is empty or too long"


def _section_violations(block: Mapping[str, Any]) -> Iterable[str]:
    if "text" in block and not _fits(block["text"]["text"], SECTION_TEXT):
        yield "a section's text is empty or too long"
    fields = block.get("fields", [])
    if len(fields) > SECTION_FIELDS or not (fields or "text" in block):
        yield "a section has no text and no fields, or too many fields"
    if not all(_fits(field["text"], FIELD_TEXT) for field in fields):
        yield "a field is empty or too long"


def _context_violations(block: Mapping[str, Any]) -> Iterable[str]:
    if not 0 < len(block["elements"]) <= CONTEXT_ELEMENTS:
        yield "a context has no elements, or too many"
    if not all(_fits(element["text"], SECTION_TEXT) for element in block["elements"]):
        yield "an element of a context is empty or too long"


def _actions_violations(block: Mapping[str, Any]) -> Iterable[str]:
    buttons = block["elements"]
    if not 0 < len(buttons) <= ACTION_ELEMENTS:
        yield "there is no button, or too many"
    if len({button["action_id"] for button in buttons}) < len(buttons):
        yield "two buttons have the same action_id"
    for button in buttons:
        yield from _button_violations(button)


def _button_violations(button: Mapping[str, Any]) -> Iterable[str]:
    if not _fits(button["text"]["text"], BUTTON_TEXT):
        yield "a button's text is empty or too long"
    if not 0 < len(button["action_id"]) <= ACTION_ID:
        yield "a button's action_id is empty or too long"
    if "value" in button and not _fits(button["value"], BUTTON_VALUE):
        yield "a button's value is empty or too long"
    if "url" in button and not _fits(button["url"], BUTTON_URL):
        yield "a button's link is empty or too long"


def _fits(text: str, most: int) -> bool:
    return bool(text.strip()) and count_utf16_units(text) <= most


_CHECKS = {
    "header": _header_violations,
    "section": _section_violations,
    "context": _context_violations,
    "actions": _actions_violations,
}
