"""What Slack's messages take, as its Block Kit reference says, and a check of messages against it."""

from collections.abc import Iterable, Mapping
from typing import Any

from placet.channels.texts import utf16_units

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
SIGNED_FOR_S = 300
"""How far the moment in a signature may be from now."""


def misfits(body: Mapping[str, Any]) -> list[str]:
    """What Slack would refuse in a chat.postMessage or chat.update; nothing if all is well."""
    blocks = body.get("blocks", [])
    found = [] if _fits(body.get("text", ""), TEXT) else ["the text is empty or too long"]
    if len(blocks) > BLOCKS:
        found.append("there are too many blocks")
    return [*found, *(misfit for block in blocks for misfit in _CHECKS[block["type"]](block))]


def _header_misfits(block: Mapping[str, Any]) -> Iterable[str]:
    if not _fits(block["text"]["text"], HEADER_TEXT):
        yield "the heading is empty or too long"


def _section_misfits(block: Mapping[str, Any]) -> Iterable[str]:
    if "text" in block and not _fits(block["text"]["text"], SECTION_TEXT):
        yield "a section's text is empty or too long"
    fields = block.get("fields", [])
    if len(fields) > SECTION_FIELDS or not (fields or "text" in block):
        yield "a section has no text and no fields, or too many fields"
    if not all(_fits(field["text"], FIELD_TEXT) for field in fields):
        yield "a field is empty or too long"


def _context_misfits(block: Mapping[str, Any]) -> Iterable[str]:
    if not 0 < len(block["elements"]) <= CONTEXT_ELEMENTS:
        yield "a context has no elements, or too many"
    if not all(_fits(element["text"], SECTION_TEXT) for element in block["elements"]):
        yield "an element of a context is empty or too long"


def _actions_misfits(block: Mapping[str, Any]) -> Iterable[str]:
    buttons = block["elements"]
    if not 0 < len(buttons) <= ACTION_ELEMENTS:
        yield "there is no button, or too many"
    if len({button["action_id"] for button in buttons}) < len(buttons):
        yield "two buttons have the same action_id"
    for button in buttons:
        yield from _button_misfits(button)


def _button_misfits(button: Mapping[str, Any]) -> Iterable[str]:
    if not _fits(button["text"]["text"], BUTTON_TEXT):
        yield "a button's text is empty or too long"
    if not 0 < len(button["action_id"]) <= ACTION_ID:
        yield "a button's action_id is empty or too long"
    if "value" in button and not _fits(button["value"], BUTTON_VALUE):
        yield "a button's value is empty or too long"
    if "url" in button and not _fits(button["url"], BUTTON_URL):
        yield "a button's link is empty or too long"


def _fits(text: str, most: int) -> bool:
    return bool(text.strip()) and utf16_units(text) <= most


_CHECKS = {
    "header": _header_misfits,
    "section": _section_misfits,
    "context": _context_misfits,
    "actions": _actions_misfits,
}
