"""Numbers as phones let people type them: their keypads offer the digits and the mark of the language."""

import re
import unicodedata

from placet.protocol.fields import Field
from placet.reviews.input.controls import choose_control

_WITH_COMMA = re.compile(r"([+-]?)([0-9]*),([0-9]+)")
_MARKS = str.maketrans(
    {"\u066b": ".", "\u2212": "-"}
)  # the Arabic decimal mark, and the minus of typographers


def is_number_field(field: Field) -> bool:
    """Whether a number is asked for."""
    return choose_control(field) in ("number", "range")


def normalize_number(field: Field, text: str) -> str:
    """The text with digits 0 to 9 and a decimal point, if the field asks for a number.

    A comma is a decimal mark unless it may stand between thousands: 1,000 is left for the person to clear up.
    """
    if not is_number_field(field):
        return text
    digits = "".join(_digit(character) for character in text.strip().translate(_MARKS))
    found = _WITH_COMMA.fullmatch(digits)
    if found is None or (len(found[3]) == 3 and found[2] not in ("", "0")):
        return digits if found is None and digits.isascii() else text
    return f"{found[1]}{found[2] or '0'}.{found[3]}"


def _digit(character: str) -> str:
    value = unicodedata.decimal(character, None)
    return character if value is None else str(value)
