"""Normalize numbers typed with the digits and decimal mark of the reviewer's language."""

import re
import unicodedata

from placet.protocol.fields import Field
from placet.reviews.input.controls import choose_control

_WITH_COMMA = re.compile(r"([+-]?)([0-9]*),([0-9]+)")
_MARKS = str.maketrans(
    {"\u066b": ".", "\u2212": "-"}
)  # the Arabic decimal mark, and the minus of typographers


def is_number_field(field: Field) -> bool:
    """Whether the field takes a number."""
    return choose_control(field) in ("number", "range")


def normalize_number(field: Field, text: str) -> str:
    """Return the text with digits 0 to 9 and a decimal point, if the field takes a number.

    A comma is a decimal mark unless it may separate thousands: 1,000 is ambiguous and stays as it is.
    """
    if not is_number_field(field):
        return text
    digits = "".join(_read_digit(character) for character in text.strip().translate(_MARKS))
    found = _WITH_COMMA.fullmatch(digits)
    if found is None or (len(found[3]) == 3 and found[2] not in ("", "0")):
        return digits if found is None and digits.isascii() else text
    return f"{found[1]}{found[2] or '0'}.{found[3]}"


def _read_digit(character: str) -> str:
    value = unicodedata.decimal(character, None)
    return character if value is None else str(value)
