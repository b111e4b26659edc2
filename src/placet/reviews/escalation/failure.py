"""Read a failure from a context: message, type, code, start time, and attempts."""

from collections.abc import Mapping
from typing import Any

ERROR_SPELLINGS = ("error", "exception", "failure")
# INSIDE lists the keys inside the error object, BESIDE the keys next to it in the context.
MESSAGES = ("message", "summary", "detail", "description", "reason", "title", "error")
TYPES = ("type", "error_type", "name", "class", "exception")
CODES = ("code", "error_code", "status_code", "status", "errno")
SINCE = ("since", "failing_since", "first_seen_at", "failed_at", "occurred_at", "happened_at", "started_at")
ATTEMPTS = ("attempts", "attempt_count", "attempt", "retries", "retry_count")
MAX_ATTEMPTS_SPELLINGS = ("max_attempts", "max_retries")
BESIDE: Mapping[str, tuple[str, ...]] = {
    "message": ("error_message",),
    "type": ("error_type",),
    "code": ("error_code",),
    "since": SINCE,
    "attempts": ATTEMPTS,
    "most": MAX_ATTEMPTS_SPELLINGS,
}
INSIDE: Mapping[str, tuple[str, ...]] = {
    "message": MESSAGES,
    "type": TYPES,
    "code": CODES,
    "since": SINCE,
    "attempts": ATTEMPTS,
    "most": MAX_ATTEMPTS_SPELLINGS,
}


def read_failure(context: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return the parts of the failure and the context keys that they came from.

    `rest` holds the other members of the error; `other` is an error that is neither text nor an object.
    """
    name = next((name for name in ERROR_SPELLINGS if context.get(name) is not None), None)
    error = context[name] if name else None
    inside = error if isinstance(error, Mapping) else {}
    parts, used = _pick(inside, INSIDE)
    if isinstance(error, str) and error.strip():
        parts["message"] = error
    beside, taken = _pick(context, {part: BESIDE[part] for part in BESIDE if parts[part] is None})
    parts |= beside
    known = isinstance(error, Mapping) or (isinstance(error, str) and parts["message"] == error)
    rest = {key: value for key, value in inside.items() if key not in used}
    other = None if known else error
    return {**parts, "rest": rest, "other": other}, taken | ({name} if name else set())


def _pick(
    source: Mapping[str, Any], spellings: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Any], set[str]]:
    parts: dict[str, Any] = {}
    used: set[str] = set()
    for part, names in spellings.items():
        found = next((name for name in names if name not in used and _fits(part, source.get(name))), None)
        parts[part] = source[found] if found else None
        used |= {found} if found else set()
    return parts, used


def _fits(part: str, value: object) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    is_text = isinstance(value, str) and bool(value.strip())
    if part in ("attempts", "most"):
        return is_number
    return (is_text or is_number) if part == "code" else is_text
