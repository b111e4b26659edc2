"""A card as Slack shows it: blocks of plain text, in which nothing is markup, and a row of buttons."""

from collections.abc import Mapping
from typing import Any

from placet.channels.texts import Lines, Room, buttons_of, ending, lines_of
from placet.errors import ChannelRefused
from placet.ports.channel import Card, CaseClosure
from placet.text.truncation import count_utf16_units, to_single_line, truncate

MAX_SECTION_FIELDS = 10
MAX_ACTION_ELEMENTS = 25
MAX_BUTTON_TEXT = 75
MAX_BUTTON_URL = 3000
ROOM = Room(heading=150, prompt=1500, message=2500, facts=MAX_SECTION_FIELDS, fact_name=40, fact_value=160)
MAX_NOTIFICATION = 300
"""So much of a question is read out in a notification."""
MAX_REPLY = 1000
BUTTON_ID_PREFIX = "placet.press."
LINK_ID = "placet.link"
STYLES: Mapping[str, str] = {
    "approve": "primary",
    "confirm": "primary",
    "reject": "danger",
    "abort": "danger",
}


def build_message(card: Card) -> dict[str, Any]:
    """The blocks of a question; raises ChannelRefused for a link too long for a button."""
    if count_utf16_units(card.review_url) > MAX_BUTTON_URL:
        raise ChannelRefused("The review link is too long for a button in Slack.")
    lines = _lines(card)
    until = {"type": "context", "elements": [_plain(lines.deadline), _plain(lines.silence)]}
    actions = {"type": "actions", "elements": [*_buttons(card), _link(lines.link_label, card.review_url)]}
    return _body(lines, [until, actions], notice=lines.prompt)


def build_closed_message(card: Card, closure: CaseClosure) -> dict[str, Any]:
    """The same question once it has ended: no buttons, and how it ended."""
    lines = _lines(card)
    said = ending(closure)
    return _body(lines, [{"type": "section", "text": _plain(said)}], notice=said)


def build_follow_up(card: Card, closure: CaseClosure) -> dict[str, Any]:
    """How a question ended, where its own build_message cannot be changed any more."""
    lines = _lines(card)
    said = ending(closure)
    blocks = [_header(lines), *_sections(lines.prompt, said)]
    return {"text": _build_notification(lines.heading, said), "blocks": blocks}


def build_reply(text: str) -> str:
    """What whoever pressed is told; the text is read as Slack's markup, so it is escaped."""
    return escape(truncate(text, MAX_REPLY, size=lambda start: count_utf16_units(escape(start))))


def escape(text: str) -> str:
    """A text in which Slack's markup finds no link, no mention and no channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _lines(card: Card) -> Lines:
    return lines_of(card, ROOM, size=count_utf16_units)


def _body(lines: Lines, last: list[dict[str, Any]], *, notice: str) -> dict[str, Any]:
    blocks = [_header(lines), *_sections(lines.prompt, lines.message), *_facts(lines), *last]
    return {"text": _build_notification(lines.heading, notice), "blocks": blocks}


def _build_notification(heading: str, text: str) -> str:
    said = truncate(to_single_line(text), MAX_NOTIFICATION)
    return escape(f"{heading}: {said}" if said else heading)


def _header(lines: Lines) -> dict[str, Any]:
    return {"type": "header", "text": _plain(lines.heading)}


def _sections(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "section", "text": _plain(text)} for text in texts if text]


def _facts(lines: Lines) -> list[dict[str, Any]]:
    fields = [_plain(f"{name}\n{value}".strip()) for name, value in lines.facts if name or value]
    return [{"type": "section", "fields": fields}] if fields else []


def _buttons(card: Card) -> list[dict[str, Any]]:
    return [
        {
            "type": "button",
            "action_id": f"{BUTTON_ID_PREFIX}{number}",
            "text": _plain(button.label),
            "value": button.reference,
            **({"style": STYLES[button.action]} if button.action in STYLES else {}),
        }
        for number, button in enumerate(
            buttons_of(card, MAX_ACTION_ELEMENTS - 1, label=MAX_BUTTON_TEXT, size=count_utf16_units)
        )
    ]


def _link(label: str, url: str) -> dict[str, Any]:
    return {"type": "button", "action_id": LINK_ID, "text": _plain(label), "url": url}


def _plain(text: str) -> dict[str, Any]:
    # Without emoji, `:name:` is read as it was written.
    return {"type": "plain_text", "text": text, "emoji": False}
