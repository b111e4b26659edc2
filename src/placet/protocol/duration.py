"""Durations as the protocol writes them: shorthand (`24h`, `1d12h`) and ISO 8601 (`PT24H`, `P7D`)."""

import re
from datetime import timedelta

from placet.errors import ValidationFailed
from placet.protocol.conversion import anchor_pattern

MAX_DURATION = timedelta(days=3650)
MAX_TEXT_LENGTH = 64

_MICROSECOND = timedelta(microseconds=1)
_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
_NUMBER = "[0-9]+"
_SECONDS = r"(?P<s>[0-9]+)(?:[.,](?P<fraction>[0-9]{1,6}))?"
_SHORTHAND = re.compile(
    rf"(?=.)(?:(?P<w>{_NUMBER})w)?(?:(?P<d>{_NUMBER})d)?(?:(?P<h>{_NUMBER})h)?"
    rf"(?:(?P<m>{_NUMBER})m)?(?:{_SECONDS}s)?"
)
_ISO = re.compile(
    rf"P(?=.)(?:(?P<d>{_NUMBER})D)?(?:T(?=.)(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:{_SECONDS}S)?)?"
)
_ISO_WEEKS = re.compile(rf"P(?P<w>{_NUMBER})W")
_GRAMMARS = (_SHORTHAND, _ISO_WEEKS, _ISO)
# The same grammars for a JSON Schema, whose dialect has no (?P<names>).
PATTERN = anchor_pattern("|".join(re.sub(r"\?P<\w+>", "?:", grammar.pattern) for grammar in _GRAMMARS))

# A month or a year before any `T`, in either notation; they have no fixed length.
_CALENDAR = re.compile(r"P[0-9.,DW]*[0-9.,]+[YM].*|[^P]*[0-9]\s*(?:y|mo|M|Y).*", re.DOTALL)

_NOTATIONS = "Use shorthand (30m, 24h, 1d12h) or ISO 8601 (PT24H)."
_MAX_QUOTED_LENGTH = 50


def parse_duration(text: str, name: str = "") -> timedelta:
    """Return the duration that `text` names; always positive and at most ten years.

    Raises `ValidationFailed` with what to write instead, after the `name` of the field or setting.
    """
    try:
        return _parse(text)
    except ValidationFailed as error:
        raise ValidationFailed(f"{name}: {error.message}" if name else error.message) from None


def _parse(text: str) -> timedelta:
    if not isinstance(text, str) or not text or len(text) > MAX_TEXT_LENGTH:
        raise _build_error(text)
    for grammar in _GRAMMARS:
        if match := grammar.fullmatch(text):
            return _check_limits(_count_microseconds(match.groupdict()))
    if _CALENDAR.fullmatch(text):
        raise ValidationFailed(
            f"{text!r}: months and years have no fixed length. Use days, such as 30d or P30D."
        )
    raise _build_error(text)


def format_duration(duration: timedelta) -> str:
    """Return the shorthand for a duration, largest unit first: `1d12h`, `90s` as `1m30s`.

    Raises `ValidationFailed` for a duration that `parse_duration` does not accept.
    """
    days, hours, minutes, seconds = _split(duration)
    parts = (
        (f"{days}d", days),
        (f"{hours}h", hours),
        (f"{minutes}m", minutes),
        (f"{seconds}s", seconds != "0"),
    )
    return "".join(text for text, present in parts if present)


def _count_microseconds(parts: dict[str, str | None]) -> int:
    whole = sum(int(parts.get(unit) or 0) * (length // _MICROSECOND) for unit, length in _UNITS.items())
    return whole + int((parts.get("fraction") or "").ljust(6, "0"))


def _check_limits(microseconds: int) -> timedelta:
    if microseconds <= 0:
        raise ValidationFailed(f"A duration must be longer than zero. {_NOTATIONS}")
    if microseconds > MAX_DURATION // _MICROSECOND:
        raise ValidationFailed("A duration must not exceed ten years (3650d).")
    return timedelta(microseconds=microseconds)


def _split(duration: timedelta) -> tuple[int, int, int, str]:
    _check_limits(duration // _MICROSECOND)
    hours, rest = divmod(duration.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{duration.microseconds:06}".rstrip("0.")
    return duration.days, hours, minutes, f"{seconds}{fraction}"


def _build_error(text: object) -> ValidationFailed:
    quoted = repr(text[:_MAX_QUOTED_LENGTH] if isinstance(text, str) else type(text).__name__)
    return ValidationFailed(f"{quoted} is not a duration. {_NOTATIONS}")
