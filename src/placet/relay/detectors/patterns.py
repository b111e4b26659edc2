"""Compile the regular expressions of policies, choose their engine, and reject ambiguous ones.

RE2 runs every pattern that it supports, in linear time. Patterns with look-around, back-references and other
features that RE2 does not have run in a backtracking engine with a time limit.
"""

import re
import warnings
from typing import Any, NamedTuple

import re2
import regex

from placet.protocol.conversion import quote
from placet.relay.detectors.pattern_size import estimate_expanded_size
from placet.text.characters import is_storable

MAX_PATTERN_LENGTH = 4_000
MAX_PROGRAM = 50_000
"""The maximum RE2 program size. A larger one, such as a long repetition of a Unicode class, slows its set."""
MAX_EXPANDED = 50_000
"""The maximum size of an expanded pattern. The backtracking engine expands repetitions in memory."""
MAX_MEMORY_BYTES = 8 << 20
EMPTY_WITHIN_S = 0.1
_CLASSES = ("[:", "[.", "[=")


class RejectedPattern(ValueError):
    """The pattern cannot be used. The message is the predicate of a sentence: "is longer than …"."""


class CompiledPattern(NamedTuple):
    """A compiled pattern: `fast` for RE2, or `timed` for the backtracking engine."""

    fast: Any = None
    timed: "tuple[regex.Pattern[str], ...]" = ()

    @property
    def size(self) -> int:
        """The number of RE2 instructions, or 0 if the pattern does not run in RE2."""
        return 0 if self.fast is None else int(self.fast.programsize)


def compile_pattern(pattern: str) -> CompiledPattern:
    """Compile a pattern. Raises `RejectedPattern` if it cannot be used."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise RejectedPattern(f"is longer than {MAX_PATTERN_LENGTH} characters")
    if not is_storable(pattern):
        raise RejectedPattern("must not contain control characters; write them as escapes")
    _reject_ambiguous_classes(pattern)
    try:
        compiled = CompiledPattern(fast=re2.compile(pattern, build_re2_options(MAX_MEMORY_BYTES)))
    except re2.error:
        compiled = CompiledPattern(timed=_compile_timed(pattern))
    if compiled.size > MAX_PROGRAM:
        compiled = CompiledPattern(timed=_compile_timed(pattern))
    if _matches_empty(compiled):
        raise RejectedPattern("matches the empty text, and so every message; use + instead of *")
    return compiled


def build_re2_options(max_memory: int) -> Any:
    """Return the RE2 options of all patterns and sets."""
    options = re2.Options()
    options.max_mem = max_memory
    options.never_capture = True
    options.log_errors = False
    return options


def _compile_timed(pattern: str) -> "tuple[regex.Pattern[str], ...]":
    r"""Compile a pattern for the backtracking engine.

    `\w` is ASCII, as in RE2 and Java. A pattern with other letters is also compiled with Unicode classes.
    """
    if estimate_expanded_size(pattern) > MAX_EXPANDED:
        raise RejectedPattern(f"is larger than {MAX_EXPANDED} characters after its repetitions are expanded")
    has_unicode = not pattern.isascii() or re.search(r"\\[pPuUNx]", pattern)
    alphabets = (regex.ASCII, regex.UNICODE) if has_unicode else (regex.ASCII,)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return tuple(regex.compile(pattern, regex.VERSION0 | alphabet) for alphabet in alphabets)
    except (regex.error, Warning, RecursionError, ValueError, OverflowError) as error:
        raise RejectedPattern(f"does not compile: {quote(str(error), 120)}") from error


def _matches_empty(compiled: CompiledPattern) -> bool:
    if compiled.fast is not None:
        return compiled.fast.search("") is not None
    try:
        return any(pattern.search("", timeout=EMPTY_WITHIN_S) is not None for pattern in compiled.timed)
    except TimeoutError as error:
        raise RejectedPattern("takes too long, even on the empty text") from error


def _reject_ambiguous_classes(pattern: str) -> None:
    """Raise RejectedPattern for `[a-z&&[^x]]` and `[a[bc]]`, which Java reads differently."""
    in_class, index = False, 0
    while index < len(pattern):
        pair = pattern[index : index + 2]
        if pair[0] == "\\":
            if pair == "\\Q" and not in_class:
                end = pattern.find("\\E", index)
                index = len(pattern) if end < 0 else end
            index += 2
        elif not in_class:
            in_class = pair[0] == "["
            index += 1 + (len(_get_class_opening(pattern, index)) if in_class else 0)
        elif pair == "&&":
            raise RejectedPattern("uses && inside [ ], which only Java supports; list the characters instead")
        elif pair[0] == "[" and pair not in _CLASSES:
            raise RejectedPattern(r"has a [ inside [ ]; write \[ for the character, or merge the classes")
        elif pair in _CLASSES:
            end = pattern.find(pair[1] + "]", index + 2)
            index = len(pattern) if end < 0 else end + 2
        else:
            in_class = pair[0] != "]"
            index += 1


def _get_class_opening(pattern: str, index: int) -> str:
    """Return the characters after `[` that do not end the class: `^`, and then `]` as a literal."""
    rest = pattern[index + 1 : index + 3]
    if rest.startswith("^]"):
        return "^]"
    return rest[0] if rest[:1] in ("^", "]") else ""
