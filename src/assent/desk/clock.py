"""The only reader of time."""

from datetime import UTC, datetime


def now() -> datetime:
    """The present, aware and in UTC."""
    return datetime.now(UTC)
