"""Render cards for Slack: blocks of plain text, which Slack never parses as markup, and buttons."""

from collections.abc import Mapping
from typing import Any

from placet.channels import texts
from placet.errors import ChannelRefused
from placet.ports.channel import Card, CaseClosure
from placet.text.truncation import count_utf16_units, to_single_line, truncate

MAX_SECTION_FIELDS = 10
MAX_ACTION_ELEMENTS = 25
MAX_BUTTON_TEXT_LENGTH = 75
MAX_BUTTON_URL_LENGTH = 3000
TEXT_LIMITS = texts.TextLimits(
    heading=150, prompt=1500, message=2500, facts=MAX_SECTION_FIELDS, fact_name=40, fact_value=160
)
MAX_NOTIFICATION_LENGTH = 300
"""How much of a question a notification shows."""
MAX_REPLY_LENGTH = 1000
BUTTON_ID_PREFIX = "placet.press."
LINK_ID = "placet.link"
STYLES: Mapping[str, str] = {"positive": "primary", "destructive": "danger"}
"""By the tone that the review type declares for the action."""


def build_message(card: Card) -> dict[str, Any]:
    """Return the message for a question; raise ChannelRefused if the review link is too long."""
    if count_utf16_units(card.review_url) > MAX_BUTTON_URL_LENGTH:
        raise ChannelRefused("The review link is too long for a button in Slack.")
    lines = _build_lines(card)
    until = {
        "type": "context",
        "elements": [_build_plain_text(lines.deadline), _build_plain_text(lines.no_answer)],
    }
    actions = {
        "type": "actions",
        "elements": [*_build_buttons(card), _build_link_button(lines.link_label, card.review_url)],
    }
    return _build_body(lines, [until, actions], notice=lines.prompt)


def build_closed_message(card: Card, closure: CaseClosure) -> dict[str, Any]:
    """Return the message after the case closed: no buttons, and how it closed."""
    lines = _build_lines(card)
    closing = texts.describe_closure(closure)
    return _build_body(lines, [{"type": "section", "text": _build_plain_text(closing)}], notice=closing)


def build_follow_up(card: Card, closure: CaseClosure) -> dict[str, Any]:
    """Return a new message that says how the case closed, for when the original cannot be edited."""
    lines = _build_lines(card)
    closing = texts.describe_closure(closure)
    blocks = [_build_header(lines), *_build_sections(lines.prompt, closing)]
    return {"text": _build_notification(lines.heading, closing), "blocks": blocks}


def build_reply(text: str) -> str:
    """Return the text for an ephemeral message; Slack parses it as markup, so it is escaped."""
    return escape(truncate(text, MAX_REPLY_LENGTH, size=lambda start: count_utf16_units(escape(start))))


def escape(text: str) -> str:
    """Escape links, mentions and channel names."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _build_lines(card: Card) -> texts.CardLines:
    return texts.build_card_lines(card, TEXT_LIMITS, size=count_utf16_units)


def _build_body(lines: texts.CardLines, last: list[dict[str, Any]], *, notice: str) -> dict[str, Any]:
    blocks = [
        _build_header(lines),
        *_build_sections(lines.prompt, lines.message),
        *_build_facts(lines),
        *last,
    ]
    return {"text": _build_notification(lines.heading, notice), "blocks": blocks}


def _build_notification(heading: str, text: str) -> str:
    line = truncate(to_single_line(text), MAX_NOTIFICATION_LENGTH)
    return escape(f"{heading}: {line}" if line else heading)


def _build_header(lines: texts.CardLines) -> dict[str, Any]:
    return {"type": "header", "text": _build_plain_text(lines.heading)}


def _build_sections(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "section", "text": _build_plain_text(text)} for text in texts if text]


def _build_facts(lines: texts.CardLines) -> list[dict[str, Any]]:
    fields = [_build_plain_text(f"{name}\n{value}".strip()) for name, value in lines.facts if name or value]
    return [{"type": "section", "fields": fields}] if fields else []


def _build_buttons(card: Card) -> list[dict[str, Any]]:
    return [
        {
            "type": "button",
            "action_id": f"{BUTTON_ID_PREFIX}{number}",
            "text": _build_plain_text(button.label),
            "value": button.reference,
            **({"style": STYLES[tone]} if (tone := texts.find_tone(button.action)) in STYLES else {}),
        }
        for number, button in enumerate(
            texts.label_buttons(
                card, MAX_ACTION_ELEMENTS - 1, label=MAX_BUTTON_TEXT_LENGTH, size=count_utf16_units
            )
        )
    ]


def _build_link_button(label: str, url: str) -> dict[str, Any]:
    return {"type": "button", "action_id": LINK_ID, "text": _build_plain_text(label), "url": url}


def _build_plain_text(text: str) -> dict[str, Any]:
    # With emoji=False, `:name:` stays as it is.
    return {"type": "plain_text", "text": text, "emoji": False}
