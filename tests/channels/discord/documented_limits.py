"""What Discord accepts in a message according to its documentation, and a check of messages against it."""

from collections.abc import Iterable, Mapping
from typing import Any

from placet.channels.texts import fits_link_button
from placet.text.truncation import count_utf16_units

CONTENT = 2000
"""Counts the text as it is sent, with the backslashes that escape markup."""
BUTTON_LABEL = 80
CUSTOM_ID = 100
BUTTONS_PER_ROW = 5
ROWS = 5
BUTTON_LINK = 512

ACTION_ROW, BUTTON = 1, 2
SECONDARY, SUCCESS, DANGER, LINK = 2, 3, 4, 5
SUPPRESS_EMBEDS = 1 << 2


def find_violations(body: Mapping[str, Any]) -> list[str]:
    """List what Discord would refuse in a message, and mentions and previews, which we never send."""
    return [*_text_violations(body), *_row_violations(body.get("components", []))]


def _text_violations(body: Mapping[str, Any]) -> Iterable[str]:
    content = body.get("content", "")
    if not content.strip():
        yield "there is no text"
    if count_utf16_units(content) > CONTENT:
        yield "the text is too long"
    if body.get("allowed_mentions") != {"parse": []}:
        yield "people could be mentioned"
    if not body.get("flags", 0) & SUPPRESS_EMBEDS:
        yield "a preview is fetched"


def _row_violations(rows: list[Mapping[str, Any]]) -> Iterable[str]:
    buttons = [button for row in rows for button in row["components"]]
    if len(rows) > ROWS:
        yield "too many rows"
    if any(row["type"] != ACTION_ROW or not 0 < len(row["components"]) <= BUTTONS_PER_ROW for row in rows):
        yield "a row has no button, or too many"
    ids = [button["custom_id"] for button in buttons if "custom_id" in button]
    if len(set(ids)) < len(ids):
        yield "two buttons are the same"
    for button in buttons:
        yield from _button_violations(button)


def _button_violations(button: Mapping[str, Any]) -> Iterable[str]:
    if button["type"] != BUTTON or button["style"] not in (SECONDARY, SUCCESS, DANGER, LINK):
        yield "this is no button"
    if not 0 < count_utf16_units(button["label"]) <= BUTTON_LABEL:
        yield "a button's label is empty or too long"
    if (button["style"] == LINK) != ("url" in button) or ("url" in button) == ("custom_id" in button):
        yield "a button needs either a link or an id"
    if "url" in button and not fits_link_button(button["url"], BUTTON_LINK):
        yield "a button's link is none that Discord takes"
    if "custom_id" in button and not 0 < count_utf16_units(button["custom_id"]) <= CUSTOM_ID:
        yield "a button's id is empty or too long"
