"""Untrusted regular expressions, compiled by RE2, which matches in linear time."""

from typing import Any

import re2

from placet.text.characters import is_storable

MAX_PATTERN_LENGTH = 500
MAX_MEMORY_BYTES = 8 << 20


class PatternRefused(ValueError):
    """The pattern cannot be used; the message says why."""


def measure_pattern(pattern: str) -> int:
    """Return the size of the compiled pattern; raises `PatternRefused` if RE2 does not accept it."""
    size: int = _compile(pattern).programsize
    return size


def matches(pattern: str, text: str) -> bool:
    """Return whether the whole text matches the pattern, as in an HTML form.

    Both must be encodable as UTF-8, and `measure_pattern` must accept the pattern.
    """
    return _compile(pattern).fullmatch(text) is not None


def _compile(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise PatternRefused(f"is longer than {MAX_PATTERN_LENGTH} characters")
    if not is_storable(pattern):
        raise PatternRefused("must not hold control characters")
    try:
        return re2.compile(pattern, _build_options())
    except re2.error as misfit:
        raise PatternRefused(
            "does not compile in RE2 syntax, which has neither look-around nor back-references"
        ) from misfit


def _build_options() -> Any:
    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False
    return options
