"""What can be wrong with an answer: stable codes, and the words a person reads."""

from collections.abc import Mapping

from msgspec import Struct

CATALOGUE: Mapping[str, str] = {
    "required": "Fill this in.",
    "required_yes_no": "Choose yes or no.",
    "required_option": "Choose one of the options.",
    "required_options": "Choose at least one option.",
    "not_text": "Write text here.",
    "not_a_number": "Write a number, such as 12 or 12.5.",
    "not_a_date": "Write a date as year-month-day, such as 2026-01-31.",
    "not_an_email": "Write an email address, such as name@example.com.",
    "not_a_url": "Write a web address, such as https://example.com/page.",
    "not_yes_no": "Choose yes or no.",
    "not_an_option": "Choose one of the options offered here.",
    "not_options": "Choose from the options offered here.",
    "repeated_option": "Choose each option only once.",
    "too_short": "Write at least {minimum} characters.",
    "too_long": "Shorten this to at most {maximum} characters.",
    "one_character": "Write a single character.",
    "too_small": "Write {minimum} or more.",
    "too_large": "Write {maximum} or less.",
    "too_early": "Choose {minimum} or a later date.",
    "too_late": "Choose {maximum} or an earlier date.",
    "wrong_form": "This is not in the form asked for. Check for missing or extra characters.",
    "several_lines": "Write this on one line.",
    "control_characters": "Remove the invisible control characters; typing it again usually does.",
    "unknown_field": "This form does not ask for this.",
}


class Problem(Struct, frozen=True, kw_only=True):
    """One thing wrong with one answer; carries bounds from the form, never the answer itself."""

    code: str
    message: str
    params: dict[str, str]


def problem(code: str, **params: object) -> Problem:
    """The problem of this code, in English; translate by `code` and `params`."""
    shown = {name: _shown(value) for name, value in params.items()}
    return Problem(code=code, message=CATALOGUE[code].format(**shown), params=shown)


def _shown(value: object) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole and isinstance(value, float) else str(value)
