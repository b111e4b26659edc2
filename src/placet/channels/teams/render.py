"""Render cards for Teams: an Adaptive Card of text runs, which are never markup, and buttons."""

import re
from collections.abc import Mapping
from typing import Any

from placet.channels import texts
from placet.errors import ChannelRefused
from placet.ports.channel import Card, CaseClosure
from placet.text.truncation import count_utf16_units, truncate

SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
VERSION = "1.5"
VERB = "placet.press"
TEXT_LIMITS = texts.TextLimits(heading=150, prompt=1200, message=2000, facts=10, fact_name=40, fact_value=160)
PROMPT_LINES = 12
MESSAGE_LINES = 24
MAX_BUTTONS = 17
ACTIONS_PER_ROW = 6
"""Teams hides the actions of a row that come after these."""
MAX_BUTTON_TITLE_LENGTH = 40
"""Teams documents no limit: this is how much of a title a phone shows."""
MAX_LINK_LENGTH = 4096
ROW_WIDTH = 50
"""In characters, at the width that a chat window gives to a card."""
BUTTON_MARGIN = 4
MAX_REPLY_LENGTH = 500
STYLES: Mapping[str, str] = {"positive": "positive", "destructive": "destructive"}
"""By the tone that the review type declares for the action."""

Element = dict[str, Any]

_FUNCTION = re.compile(r"(?<=\{)(?=\{\s*(?:DATE|TIME)\b)", re.IGNORECASE)


def build_card(card: Card) -> Element:
    """Return the Adaptive Card of a question; raise ChannelRefused if the review link is too long."""
    if count_utf16_units(card.review_url) > MAX_LINK_LENGTH:
        raise ChannelRefused("The review link is too long for a card in Teams.")
    lines = texts.build_card_lines(card, TEXT_LIMITS, size=count_utf16_units)
    link = {"type": "Action.OpenUrl", "title": lines.link_label, "url": card.review_url}
    until = [
        _build_text(lines.deadline, spacing="Medium", isSubtle=True),
        _build_text(lines.no_answer, spacing="None", isSubtle=True),
    ]
    return _build_card([*_format_question(lines), *until, *_split_rows([*_build_buttons(card), link])])


def build_closed_card(card: Card, closure: CaseClosure) -> Element:
    """Return the card after the case closed: no buttons, and how it closed."""
    lines = texts.build_card_lines(card, TEXT_LIMITS, size=count_utf16_units)
    return _build_card(
        [
            *_format_question(lines),
            _build_text(texts.describe_closure(closure), spacing="Medium", weight="Bolder"),
        ]
    )


def build_follow_up(card: Card, closure: CaseClosure) -> Element:
    """Return a new card that says how the case closed, for when the original cannot be edited."""
    lines = texts.build_card_lines(card, TEXT_LIMITS, size=count_utf16_units)
    prompt = _build_paragraph(lines.prompt, PROMPT_LINES)
    return _build_card(
        [
            _build_heading(lines),
            *prompt,
            _build_text(texts.describe_closure(closure), spacing="Medium", weight="Bolder"),
        ]
    )


def build_summary(card: Card, closure: CaseClosure | None = None) -> str:
    """Return the text of the notification."""
    heading = texts.build_card_lines(card, TEXT_LIMITS, size=count_utf16_units).heading
    return heading if closure is None else texts.describe_closure(closure)


def build_reply(text: str) -> str:
    """Return the text for the person who pressed the button."""
    return truncate(text, MAX_REPLY_LENGTH, size=count_utf16_units)


def _build_card(body: list[Element]) -> Element:
    return {"$schema": SCHEMA, "type": "AdaptiveCard", "version": VERSION, "body": body}


def _format_question(lines: texts.CardLines) -> list[Element]:
    return [
        _build_heading(lines),
        *_build_paragraph(lines.prompt, PROMPT_LINES),
        *_build_paragraph(lines.message, MESSAGE_LINES, isSubtle=True),
        *_build_facts(lines),
    ]


def _build_heading(lines: texts.CardLines) -> Element:
    return _build_text(lines.heading, weight="Bolder", size="Medium")


def _build_paragraph(text: str, most: int, **style: Any) -> list[Element]:
    """Return one element per line: Teams shows a line break inside an element as a space."""
    lines = [line for line in text.split("\n") if line.strip()]
    shown = [*lines[: most - 1], " ".join(lines[most - 1 :])]
    return [
        _build_text(line, spacing="Small" if number else "Default", **style)
        for number, line in enumerate(shown)
        if line
    ]


def _build_facts(lines: texts.CardLines) -> list[Element]:
    named = [(name, value) for name, value in lines.facts if name or value]
    return [
        _build_rich_text(
            [*_runs(f"{name}: " if name else "", weight="Bolder"), *_runs(value)], spacing="Small"
        )
        for name, value in named
    ]


def _build_text(text: str, *, spacing: str = "Default", **style: Any) -> Element:
    return _build_rich_text(_runs(text, **style), spacing=spacing)


def _build_rich_text(inlines: list[Element], *, spacing: str) -> Element:
    return {"type": "RichTextBlock", "spacing": spacing, "inlines": inlines}


def _runs(text: str, **style: Any) -> list[Element]:
    """Return the text in runs without markup; `{{DATE(…)}}` is split so that Teams ignores it."""
    pieces = _FUNCTION.split(text)
    return [{"type": "TextRun", "text": piece, **style} for piece in pieces if piece]


def _build_buttons(card: Card) -> list[Element]:
    return [
        {
            "type": "Action.Execute",
            "title": button.label,
            "verb": VERB,
            "data": {"reference": button.reference},
            "associatedInputs": "none",
            "fallback": "drop",
            **({"style": STYLES[tone]} if (tone := texts.find_tone(button.action)) in STYLES else {}),
        }
        for button in texts.label_buttons(
            card, MAX_BUTTONS, label=MAX_BUTTON_TITLE_LENGTH, size=count_utf16_units
        )
    ]


def _split_rows(actions: list[Element]) -> list[Element]:
    """Arrange buttons in rows that fit the card: Teams cuts off what does not fit."""
    rows: list[list[Element]] = []
    for action in actions:
        if rows and len(rows[-1]) < ACTIONS_PER_ROW and _measure_width([*rows[-1], action]) <= ROW_WIDTH:
            rows[-1].append(action)
        else:
            rows.append([action])
    return [{"type": "ActionSet", "actions": row} for row in rows]


def _measure_width(actions: list[Element]) -> int:
    return sum(count_utf16_units(action["title"]) + BUTTON_MARGIN for action in actions)
