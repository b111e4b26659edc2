"""Render cards for Telegram: text in its HTML subset with an inline keyboard."""

from collections.abc import Mapping
from html import escape
from typing import Any

from placet.channels import texts
from placet.ports.channel import Card, CaseClosure
from placet.text.truncation import count_utf16_units, truncate

MAX_BUTTON_TEXT_LENGTH = 64
MAX_REPLY_LENGTH = 200
MAX_LINK_LENGTH = 2048
TEXT_LIMITS = texts.TextLimits(heading=150, prompt=900, message=1400, facts=8, fact_name=40, fact_value=120)
# Used when the link does not fit a button and is part of the text instead.
TEXT_LIMITS_WITH_LINK = texts.TextLimits(
    heading=150, prompt=600, message=300, facts=4, fact_name=40, fact_value=120
)
LONG_MESSAGE = 400
MAX_BUTTONS = 20
BUTTONS_IN_A_ROW = 2
STYLES: Mapping[str, str] = {"positive": "success", "destructive": "danger"}
"""By the tone that the review type declares for the action."""


def build_message(card: Card) -> dict[str, Any]:
    """Return the message for a question; raise ChannelRefused if the review link is too long."""
    in_button = texts.fits_link_button(card.review_url, MAX_LINK_LENGTH)
    lines = _build_lines(card, in_button=in_button)
    parts = [*_format_question(lines), f"<i>{_escape(lines.deadline)}\n{_escape(lines.no_answer)}</i>"]
    if not in_button:
        parts.append(f"{_escape(lines.link_label)}: {_escape(card.review_url)}")
    rows = _build_rows(card)
    if in_button:
        rows.append([{"text": lines.link_label, "url": card.review_url}])
    return _build_body(parts, rows)


def build_closed_message(card: Card, closure: CaseClosure) -> dict[str, Any]:
    """Return the message after the case closed: no buttons, and how it closed."""
    return _build_body(
        [
            *_format_question(texts.build_card_lines(card, TEXT_LIMITS, size=count_utf16_units)),
            f"<b>{_escape(texts.describe_closure(closure))}</b>",
        ],
        [],
    )


def build_follow_up(card: Card, closure: CaseClosure, message_id: int) -> dict[str, Any]:
    """Return a new message that says how the case closed, for when the original cannot be edited."""
    lines = texts.build_card_lines(card, TEXT_LIMITS_WITH_LINK, size=count_utf16_units)
    parts = [
        f"<b>{_escape(lines.heading)}</b>",
        _escape(lines.prompt),
        f"<b>{_escape(texts.describe_closure(closure))}</b>",
    ]
    reply_to = {"message_id": message_id, "allow_sending_without_reply": True}
    return {**_build_body(parts, []), "reply_parameters": reply_to}


def _build_lines(card: Card, *, in_button: bool) -> texts.CardLines:
    if in_button:
        return texts.build_card_lines(card, TEXT_LIMITS, size=count_utf16_units)
    return texts.build_lines_with_link(
        card, TEXT_LIMITS_WITH_LINK, most=MAX_LINK_LENGTH, platform="Telegram", size=count_utf16_units
    )


def _format_question(lines: texts.CardLines) -> list[str]:
    facts = [f"• <b>{_escape(name)}</b>: {_escape(value)}" for name, value in lines.facts]
    fold = " expandable" if len(lines.message) > LONG_MESSAGE else ""
    quoted = f"<blockquote{fold}>{_escape(lines.message)}</blockquote>" if lines.message else ""
    return [f"<b>{_escape(lines.heading)}</b>", _escape(lines.prompt), quoted, "\n".join(facts)]


def _build_rows(card: Card) -> list[list[dict[str, str]]]:
    buttons = [
        {"text": button.label, "callback_data": button.reference, **_choose_style(button.action)}
        for button in texts.label_buttons(
            card, MAX_BUTTONS, label=MAX_BUTTON_TEXT_LENGTH, size=count_utf16_units
        )
    ]
    return [buttons[at : at + BUTTONS_IN_A_ROW] for at in range(0, len(buttons), BUTTONS_IN_A_ROW)]


def _choose_style(action: str) -> dict[str, str]:
    tone = texts.find_tone(action)
    return {"style": STYLES[tone]} if tone in STYLES else {}


def _build_body(parts: list[str], rows: list[list[dict[str, str]]]) -> dict[str, Any]:
    return {
        "text": "\n\n".join(part for part in parts if part),
        "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": True},
        "reply_markup": {"inline_keyboard": rows},
    }


def _escape(text: str) -> str:
    return escape(text, quote=False)


def build_reply(text: str) -> str:
    """Return the text of a notice for the person who pressed the button."""
    return truncate(text, MAX_REPLY_LENGTH, size=count_utf16_units)
