"""The problems that an answer can have: stable codes and the texts that a person reads."""

from collections.abc import Mapping

from msgspec import Struct

from placet.text.wording import Message, message, phrase, phrases

CATALOGUE: Mapping[str, str] = {
    "required": phrase("Fill this in."),
    "required_yes_no": phrase("Choose yes or no."),
    "required_option": phrase("Choose one of the options."),
    "required_options": phrase("Choose at least one option."),
    "not_text": phrase("Write text here."),
    "not_a_number": phrase("Write a number, such as 12 or 12.5."),
    "not_a_date": phrase("Write a date as year-month-day, such as 2026-01-31."),
    "not_an_email": phrase("Write an email address, such as name@example.com."),
    "not_a_url": phrase("Write a web address, such as https://example.com/page."),
    "not_yes_no": phrase("Choose yes or no."),
    "not_an_option": phrase("Choose one of the options offered here."),
    "not_options": phrase("Choose from the options offered here."),
    "repeated_option": phrase("Choose each option only once."),
    "too_short": "Write at least {minimum} characters.",
    "too_long": "Shorten this to at most {maximum} characters.",
    "one_character": phrase("Write a single character."),
    "too_small": phrase("Write {minimum} or more."),
    "too_large": phrase("Write {maximum} or less."),
    "too_early": phrase("Choose {minimum} or a later date."),
    "too_late": phrase("Choose {maximum} or an earlier date."),
    "wrong_form": phrase("This is not in the form asked for. Check for missing or extra characters."),
    "several_lines": phrase("Write this on one line."),
    "control_characters": phrase("Remove the invisible control characters; typing it again usually does."),
    "unknown_field": phrase("This form does not ask for this."),
}
# Texts with a singular and a plural form.
_COUNTED: Mapping[str, tuple[str, str]] = {
    "too_short": phrases("Write at least {minimum} character.", "Write at least {minimum} characters."),
    "too_long": phrases(
        "Shorten this to at most {maximum} character.", "Shorten this to at most {maximum} characters."
    ),
}


class Problem(Struct, frozen=True, kw_only=True):
    """One problem of one answer; has bounds from the form, never the answer itself."""

    code: str
    message: str
    params: dict[str, str]


def build_problem(code: str, **params: object) -> Problem:
    """Return the problem with this code, with a message that pages can translate."""
    bounds = {name: _drop_zero_fraction(value) for name, value in params.items()}
    shown = {name: str(value) for name, value in bounds.items()}
    return Problem(code=code, message=_build_message(code, bounds), params=shown)


def _build_message(code: str, bounds: Mapping[str, object]) -> Message:
    if code not in _COUNTED:
        return message(CATALOGUE[code], **bounds)
    (count,) = bounds.values()
    return Message(*_COUNTED[code], count=count, **bounds)


def _drop_zero_fraction(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
