"""Validation of relay rows: limited Unicode text, limited bytes, times with a time zone."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from placet.errors import ValidationFailed

MAX_TEXT_LENGTH = 4_096
MAX_ROW_BYTES = 64 * 2**20
MAX_NUMBER = 2**63 - 1


def check_rows(rows: Iterable[Struct]) -> None:
    """Raise ValidationFailed, naming the field, for a row with a value that cannot be stored."""
    for row in rows:
        for name in row.__struct_fields__:
            if (fault := _find_fault(getattr(row, name))) is not None:
                raise ValidationFailed(f"{name}: {fault}")


def can_be_stored(*values: object) -> bool:
    """Return whether all of these can be stored."""
    return all(_find_fault(value) is None for value in values)


def check_page(page: int, size: int) -> None:
    """Raise ValidationFailed for an invalid page number or size."""
    if page < 0 or size < 1:
        raise ValidationFailed("page must be 0 or more, and size at least 1.")


def _find_fault(value: object) -> str | None:
    if isinstance(value, str):
        return _find_text_fault(value)
    if isinstance(value, bytes):
        return f"more than {MAX_ROW_BYTES} bytes" if len(value) > MAX_ROW_BYTES else None
    if isinstance(value, datetime):
        return "a moment without a time zone" if value.utcoffset() is None else None
    if isinstance(value, tuple):
        return next((fault for fault in map(_find_fault, value) if fault is not None), None)
    if isinstance(value, int):
        return "a number out of range" if not 0 <= value <= MAX_NUMBER else None
    return None


def _find_text_fault(value: str) -> str | None:
    if len(value) > MAX_TEXT_LENGTH:
        return f"more than {MAX_TEXT_LENGTH} characters"
    if value.isascii():
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return "text that is not Unicode"
    return None
