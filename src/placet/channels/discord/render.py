"""Render cards for Discord: escaped Markdown text with buttons below it."""

import re
from collections.abc import Mapping
from typing import Any

from placet.channels import texts
from placet.ports.channel import Card, CaseClosure
from placet.text.truncation import count_utf16_units, truncate

# Numbers of Discord's API.
ACTION_ROW, BUTTON = 1, 2
SECONDARY, SUCCESS, DANGER, LINK = 2, 3, 4, 5
SUPPRESS_EMBEDS, EPHEMERAL = 1 << 2, 1 << 6

MAX_CONTENT_LENGTH = 2000
"""Discord counts the text as it is sent, with the backslashes that escape markup."""
MAX_BUTTON_LABEL_LENGTH = 80
MAX_BUTTON_LINK_LENGTH = 512
BUTTONS_PER_ROW = 5
TEXT_LIMITS = texts.TextLimits(heading=150, prompt=480, message=480, facts=4, fact_name=30, fact_value=90)
# Used when the link does not fit a button and is part of the text instead.
TEXT_LIMITS_WITH_LINK = texts.TextLimits(heading=150, prompt=300, message=0, facts=0)
MAX_LINK_IN_TEXT = 1200
MAX_CLOSURE = 300
MAX_BUTTONS = 20
STYLES: Mapping[str, int] = {"positive": SUCCESS, "destructive": DANGER}
"""By the tone that the review type declares for the action."""
# Every character that starts Markdown, a mention, an emoji, a timestamp or a link.
_MARKUP = re.compile(r"[\\`*_~|<>#\[\]():@+-]")


def build_message(card: Card) -> dict[str, Any]:
    """Return the message for a question; raise ChannelRefused if the review link is too long."""
    in_button = texts.fits_link_button(card.review_url, MAX_BUTTON_LINK_LENGTH)
    lines = _build_lines(card, in_button=in_button)
    parts = [*_format_question(lines), f"{_format_deadline(card)}\n{escape(lines.no_answer)}"]
    if not in_button:
        parts.append(f"{escape(lines.link_label)}: <{_escape_brackets(card.review_url)}>")
    buttons = _build_buttons(card)
    if in_button:
        buttons.append({"type": BUTTON, "style": LINK, "label": lines.link_label, "url": card.review_url})
    return _build_body(parts, buttons)


def build_closed_message(card: Card, closure: CaseClosure) -> dict[str, Any]:
    """Return the message after the case closed: no buttons, and how it closed."""
    return _build_body(
        [
            *_format_question(texts.build_card_lines(card, TEXT_LIMITS, size=_count_embed_characters)),
            _format_closure(closure),
        ],
        [],
    )


def build_follow_up(card: Card, closure: CaseClosure, message_id: str) -> dict[str, Any]:
    """Return a new message that says how the case closed, for when the original cannot be edited."""
    lines = texts.build_card_lines(card, TEXT_LIMITS_WITH_LINK, size=_count_embed_characters)
    return make_reply_to(_build_body([*_format_question(lines), _format_closure(closure)], []), message_id)


def build_reply(text: str) -> dict[str, Any]:
    """Return a reply that only the person who pressed the button can see."""
    body = _build_body([escape(truncate(text, MAX_CONTENT_LENGTH - 100, size=_count_embed_characters))], [])
    return {**body, "flags": SUPPRESS_EMBEDS | EPHEMERAL}


def make_reply_to(body: dict[str, Any], message_id: str) -> dict[str, Any]:
    """Return the body as a public reply to a message, which may have been deleted."""
    reference = {"message_id": message_id, "fail_if_not_exists": False}
    return {**body, "flags": SUPPRESS_EMBEDS, "message_reference": reference}


def escape(text: str) -> str:
    """Escape Markdown."""
    return _MARKUP.sub(r"\\\g<0>", text)


def _count_embed_characters(text: str) -> int:
    """Return the escaped length of a text, including the quote mark before each line."""
    return count_utf16_units(escape(text)) + 2 * (text.count("\n") + 1)


def _build_lines(card: Card, *, in_button: bool) -> texts.CardLines:
    if in_button:
        return texts.build_card_lines(card, TEXT_LIMITS, size=_count_embed_characters)
    return texts.build_lines_with_link(
        card, TEXT_LIMITS_WITH_LINK, most=MAX_LINK_IN_TEXT, platform="Discord", size=_count_embed_characters
    )


def _format_question(lines: texts.CardLines) -> list[str]:
    facts = [f"- **{escape(name)}**: {escape(value)}" for name, value in lines.facts]
    quoted = "\n".join(f"> {escape(line)}" for line in lines.message.split("\n")) if lines.message else ""
    return [f"**{escape(lines.heading)}**", escape(lines.prompt), quoted, "\n".join(facts)]


def _format_deadline(card: Card) -> str:
    """Return the deadline as a timestamp that Discord shows in each reader's time zone."""
    seconds = int(card.expires_at.timestamp())
    return f"Open until <t:{seconds}:F>, <t:{seconds}:R>"


def _format_closure(closure: CaseClosure) -> str:
    return (
        f"**{escape(truncate(texts.describe_closure(closure), MAX_CLOSURE, size=_count_embed_characters))}**"
    )


def _escape_brackets(url: str) -> str:
    return re.sub(r"[\s<>]", lambda found: f"%{ord(found[0]):02X}", url)


def _build_buttons(card: Card) -> list[dict[str, Any]]:
    return [
        {
            "type": BUTTON,
            "style": STYLES.get(texts.find_tone(button.action), SECONDARY),
            "label": button.label,
            "custom_id": button.reference,
        }
        for button in texts.label_buttons(
            card, MAX_BUTTONS, label=MAX_BUTTON_LABEL_LENGTH, size=count_utf16_units
        )
    ]


def _build_body(parts: list[str], buttons: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [buttons[at : at + BUTTONS_PER_ROW] for at in range(0, len(buttons), BUTTONS_PER_ROW)]
    return {
        "content": "\n\n".join(part for part in parts if part),
        "flags": SUPPRESS_EMBEDS,
        "allowed_mentions": {"parse": []},
        "components": [{"type": ACTION_ROW, "components": row} for row in rows],
    }
