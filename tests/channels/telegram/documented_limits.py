"""What Telegram accepts in a message according to its documentation, and a check of messages against it."""

from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from typing import Any

from placet.channels.texts import fits_link_button
from placet.text.truncation import count_utf8_bytes, count_utf16_units

TEXT_UNITS = 4096
"""After the markup has been read."""
CALLBACK_DATA_BYTES = 64
BUTTON_TEXT = 64
BUTTONS_PER_ROW = 8
BUTTONS = 100
LONGEST_LINK = 2048
TAGS = frozenset({"b", "i", "code", "blockquote"})
"""Those of Telegram's tags that we use."""


def find_violations(body: Mapping[str, Any]) -> list[str]:
    """List what Telegram would refuse in a sendMessage or editMessageText."""
    found = [*_text_violations(body.get("text", ""))]
    rows = body.get("reply_markup", {}).get("inline_keyboard", [])
    buttons = [button for row in rows for button in row]
    if len(buttons) > BUTTONS:
        found.append("too many buttons")
    if any(not 0 < len(row) <= BUTTONS_PER_ROW for row in rows):
        found.append("a row has no button, or too many")
    return [*found, *(violation for button in buttons for violation in _button_violations(button))]


def _button_violations(button: Mapping[str, Any]) -> Iterable[str]:
    if not 0 < len(button["text"]) <= BUTTON_TEXT:
        yield "a button's text is empty or too long"
    if ("url" in button) == ("callback_data" in button):
        yield "a button needs either a link or data"
    if "url" in button and not fits_link_button(button["url"], LONGEST_LINK):
        yield "a button's link is none that Telegram takes"
    if "callback_data" in button and not 0 < count_utf8_bytes(button["callback_data"]) <= CALLBACK_DATA_BYTES:
        yield "a button's data is empty or too long"


def _text_violations(text: str) -> Iterable[str]:
    reader = _Markup()
    reader.feed(text)
    reader.close()
    if not reader.shown.strip():
        yield "there is no text"
    if count_utf16_units(reader.shown) > TEXT_UNITS:
        yield "the text is too long"
    if reader.open or reader.broken:
        yield "the markup is broken"


def read_text(text: str) -> str:
    """Return what a person reads of a text with markup."""
    reader = _Markup()
    reader.feed(text)
    reader.close()
    return reader.shown


class _Markup(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.shown = ""
        self.open: list[str] = []
        self.broken = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.broken |= tag not in TAGS or attrs not in ([], [("expandable", None)])
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.broken |= not self.open or self.open.pop() != tag

    def handle_data(self, data: str) -> None:
        self.shown += data

    def handle_comment(self, data: str) -> None:
        self.broken = True

    def handle_decl(self, decl: str) -> None:
        self.broken = True

    handle_pi = unknown_decl = handle_comment
