"""What every relay store can keep: bounded text that is Unicode, bounded bytes, moments with a zone."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from placet.errors import ValidationFailed

LONGEST_TEXT = 4_096
MOST_BYTES = 64 * 2**20
LARGEST_NUMBER = 2**63 - 1


def check_storable(rows: Iterable[Struct]) -> None:
    """Raise ValidationFailed for a row with a value that cannot be kept, and name the field."""
    for row in rows:
        for name in row.__struct_fields__:
            if (fault := _fault(getattr(row, name))) is not None:
                raise ValidationFailed(f"{name}: {fault}")


def storable(*values: object) -> bool:
    """Whether each of these could be kept."""
    return all(_fault(value) is None for value in values)


def check_page(page: int, size: int) -> None:
    """Raise ValidationFailed for what is no page."""
    if page < 0 or size < 1:
        raise ValidationFailed("Pages are counted from 0 and have at least one place.")


def _fault(value: object) -> str | None:
    if isinstance(value, str):
        return _text_fault(value)
    if isinstance(value, bytes):
        return f"more than {MOST_BYTES} bytes" if len(value) > MOST_BYTES else None
    if isinstance(value, datetime):
        return "a moment without a time zone" if value.utcoffset() is None else None
    if isinstance(value, tuple):
        return next((fault for fault in map(_fault, value) if fault is not None), None)
    if isinstance(value, int):
        return "a number out of range" if not 0 <= value <= LARGEST_NUMBER else None
    return None


def _text_fault(value: str) -> str | None:
    if len(value) > LONGEST_TEXT:
        return f"more than {LONGEST_TEXT} characters"
    if value.isascii():
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return "text that is not Unicode"
    return None
