"""Render cards for WhatsApp: a message with reply buttons, with one link button, or plain text.

WhatsApp has no escape for its markup: characters that would format text are replaced by look-alikes.
A message has either reply buttons or a link button: with reply buttons, the link is part of the text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from placet.channels import texts
from placet.channels.texts import TextLimits, build_card_lines, fits_link_button, label_buttons
from placet.errors import ChannelRefused
from placet.ports.channel import Button, Card, CaseClosure
from placet.text.truncation import count_utf16_units, to_paragraphs, to_single_line, truncate

MAX_BUTTONS = 3
MAX_BUTTON_TITLE_LENGTH = 20
MAX_HEADER_LENGTH = 60
MAX_FOOTER_LENGTH = 60
MAX_INTERACTIVE_BODY_LENGTH = 1024
MAX_TEXT_BODY = 4096
MAX_LINK_LENGTH = 2048
TEXT_LIMITS = TextLimits(
    heading=MAX_HEADER_LENGTH, prompt=500, message=400, facts=6, fact_name=40, fact_value=120
)
MIN_QUESTION_LENGTH = 120
"""The least space for the question beside the link; with a longer link there are no reply buttons."""
TEMPLATE_LIMITS = {"heading": 90, "prompt": 250, "rest": 540}
LOOKALIKES: Mapping[str, str] = {
    "*": "\u2217",  # asterisk operator
    "_": "\u02cd",  # modifier letter low macron
    "~": "\u223c",  # tilde operator
    "`": "\u02cb",  # modifier letter grave accent
    ">": "\u203a",  # single right-pointing angle quotation mark
}

_FORMATS = re.compile(r"(?<![^\W_])([*_~])(?=\S[^\n]*\1)|`|^>", re.MULTILINE)

MessageBody = dict[str, Any]


def build_message(card: Card) -> MessageBody:
    """Return the message for a question; raise ChannelRefused if the review link is too long."""
    if count_utf16_units(card.review_url) > MAX_LINK_LENGTH:
        raise ChannelRefused("The review link is too long for a message in WhatsApp.")
    buttons = _make_titles_unique(
        label_buttons(card, MAX_BUTTONS, label=MAX_BUTTON_TITLE_LENGTH, size=count_utf16_units)
    )
    no_answer, link = texts.format_no_answer(card), _format_link_line(card)
    if buttons and _count_space_beside(no_answer, link) >= MIN_QUESTION_LENGTH:
        return _build_interactive(card, [no_answer, link], _build_reply_action(buttons))
    if fits_link_button(card.review_url, MAX_LINK_LENGTH, schemes=("https",)):
        return _build_interactive(card, [no_answer], _build_link_action(card))
    return _build_text(
        [
            _format_heading(card),
            _build_question(card, MAX_TEXT_BODY // 4),
            f"{texts.format_deadline(card)}.\n{no_answer}",
            link,
        ]
    )


def build_follow_up(card: Card, closure: CaseClosure) -> MessageBody:
    """Return a new message that says how the case closed: WhatsApp messages cannot be edited."""
    prompt = truncate(to_paragraphs(card.prompt), 300, size=count_utf16_units)
    return _build_text(
        [_format_heading(card), defuse_markup(prompt), defuse_markup(texts.describe_closure(closure))]
    )


def build_reply(text: str) -> MessageBody:
    """Return the text for the person who pressed the button."""
    return _build_text([defuse_markup(truncate(text, MAX_TEXT_BODY, size=count_utf16_units))])


def build_template_message(card: Card, *, name: str, language: str) -> MessageBody:
    """Return the template message for a question, for a person who has not written for a day."""
    rest = f"{texts.format_deadline(card)}. {texts.format_no_answer(card)} {_format_link_line(card)}"
    if count_utf16_units(rest) > TEMPLATE_LIMITS["rest"]:
        rest = _format_link_line(card)
    if count_utf16_units(rest) > TEMPLATE_LIMITS["rest"]:
        raise ChannelRefused("The review link is too long for a template in WhatsApp.")
    return _build_template(card, rest, name, language)


def build_template_follow_up(card: Card, closure: CaseClosure, *, name: str, language: str) -> MessageBody:
    """Return the template message that says how the case closed."""
    rest = defuse_markup(
        truncate(
            to_single_line(texts.describe_closure(closure)), TEMPLATE_LIMITS["rest"], size=count_utf16_units
        )
    )
    return _build_template(card, rest, name, language)


def defuse_markup(text: str) -> str:
    """Replace the characters that WhatsApp would parse as markup with look-alikes."""
    return _FORMATS.sub(lambda found: LOOKALIKES[found[0]], text)


# The parts of a message


def _format_heading(card: Card) -> str:
    return defuse_markup(
        truncate(
            texts.format_heading(card, MAX_HEADER_LENGTH, size=count_utf16_units),
            MAX_HEADER_LENGTH,
            size=count_utf16_units,
        )
    )


def _build_question(card: Card, most: int) -> str:
    lines = build_card_lines(card, TEXT_LIMITS, size=count_utf16_units)
    facts = "\n".join(f"• {name}: {value}" for name, value in lines.facts if name or value)
    parts = [part for part in (lines.prompt, lines.message, facts) if part]
    return defuse_markup(truncate("\n\n".join(parts), most, size=count_utf16_units))


def _format_link_line(card: Card) -> str:
    return f"{texts.find_link_label(card)}: {card.review_url}"


def _count_space_beside(*parts: str) -> int:
    return MAX_INTERACTIVE_BODY_LENGTH - sum(count_utf16_units(part) + 2 for part in parts)


def _make_titles_unique(buttons: Sequence[Button]) -> list[Button]:
    """Return the buttons with distinct titles, even if truncation made them equal."""
    named: list[Button] = []
    for button in buttons:
        taken = {other.label for other in named}
        shorter = truncate(button.label, MAX_BUTTON_TITLE_LENGTH - 2, size=count_utf16_units)
        titles = [button.label, *(f"{shorter} {number}" for number in range(2, MAX_BUTTONS + 1))]
        named.append(replace(button, label=next(title for title in titles if title not in taken)))
    return named


def _build_reply_action(buttons: Sequence[Button]) -> tuple[str, MessageBody]:
    replies = [{"id": button.reference, "title": button.label} for button in buttons]
    return "button", {"buttons": [{"type": "reply", "reply": reply} for reply in replies]}


def _build_link_action(card: Card) -> tuple[str, MessageBody]:
    label = truncate(texts.find_link_label(card), MAX_BUTTON_TITLE_LENGTH, size=count_utf16_units)
    return "cta_url", {"name": "cta_url", "parameters": {"display_text": label, "url": card.review_url}}


def _build_interactive(card: Card, closing: list[str], action: tuple[str, MessageBody]) -> MessageBody:
    asked = _build_question(card, _count_space_beside(*closing))
    return {
        "type": "interactive",
        "interactive": {
            "type": action[0],
            "header": {"type": "text", "text": _format_heading(card)},
            "body": {"text": "\n\n".join(part for part in (asked, *closing) if part)},
            "footer": {
                "text": truncate(texts.format_deadline(card), MAX_FOOTER_LENGTH, size=count_utf16_units)
            },
            "action": action[1],
        },
    }


def _build_text(parts: Sequence[str]) -> MessageBody:
    body = "\n\n".join(part for part in parts if part)
    return {"type": "text", "text": {"body": body, "preview_url": False}}


def _build_template(card: Card, rest: str, name: str, language: str) -> MessageBody:
    room = TEMPLATE_LIMITS["heading"]
    heading = truncate(texts.format_heading(card, room, size=count_utf16_units), room, size=count_utf16_units)
    prompt = truncate(
        to_single_line(card.prompt) or to_single_line(card.message),
        TEMPLATE_LIMITS["prompt"],
        size=count_utf16_units,
    )
    words = [defuse_markup(heading), defuse_markup(prompt) or "…", rest]
    parameters = [{"type": "text", "text": word} for word in words]
    return {
        "type": "template",
        "template": {
            "name": name,
            "language": {"code": language},
            "components": [{"type": "body", "parameters": parameters}],
        },
    }
