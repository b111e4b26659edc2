"""Regular expressions of policies: which engine runs one, and which are refused because they would mislead.

RE2 runs all that it takes, in linear time. Look-around, back-references and what else RE2 does not have go to
an engine that backtracks, under a time limit.
"""

import re
import warnings
from typing import Any, NamedTuple

import re2
import regex

from placet.protocol.conversion import quote
from placet.relay.detectors.pattern_size import estimate_expanded_size
from placet.text.characters import is_storable

MAX_PATTERN = 4_000
MAX_PROGRAM = 50_000
"""Patterns of more instructions, such as long repetitions of large Unicode classes, slow down a whole set."""
MAX_EXPANDED = 50_000
"""The engine that backtracks writes repetitions out: a short pattern could take all memory there is."""
MAX_MEMORY = 8 << 20
EMPTY_WITHIN_S = 0.1
_CLASSES = ("[:", "[.", "[=")


class RejectedPattern(ValueError):
    """The pattern cannot be used; the message says why."""


class CompiledPattern(NamedTuple):
    """A pattern that is ready: `fast` in RE2, or else `timed`."""

    fast: Any = None
    timed: "tuple[regex.Pattern[str], ...]" = ()

    @property
    def size(self) -> int:
        """How many instructions of RE2 it takes."""
        return 0 if self.fast is None else int(self.fast.programsize)


def compile_pattern(pattern: str) -> CompiledPattern:
    """Make a pattern ready; raises `RejectedPattern`."""
    if len(pattern) > MAX_PATTERN:
        raise RejectedPattern(f"is longer than {MAX_PATTERN} characters")
    if not is_storable(pattern):
        raise RejectedPattern("must not hold control characters; write them as escapes")
    _reject_ambiguous_classes(pattern)
    try:
        compiled = CompiledPattern(fast=re2.compile(pattern, build_re2_options(MAX_MEMORY)))
    except re2.error:
        compiled = CompiledPattern(timed=_compile_timed(pattern))
    if compiled.size > MAX_PROGRAM:
        compiled = CompiledPattern(timed=_compile_timed(pattern))
    if _matches_empty(compiled):
        raise RejectedPattern("fits the empty text, and so every message; use + instead of * where you can")
    return compiled


def build_re2_options(max_memory: int) -> Any:
    """How RE2 is asked to work."""
    chosen = re2.Options()
    chosen.max_mem = max_memory
    chosen.never_capture = True
    chosen.log_errors = False
    return chosen


def _compile_timed(pattern: str) -> "tuple[regex.Pattern[str], ...]":
    r"""The pattern in ASCII, as RE2 and Java read `\w`; one that names other letters is read in both ways."""
    if estimate_expanded_size(pattern) > MAX_EXPANDED:
        raise RejectedPattern(
            f"is larger than {MAX_EXPANDED} characters once its repetitions are written out"
        )
    beyond = not pattern.isascii() or re.search(r"\\[pPuUNx]", pattern)
    alphabets = (regex.ASCII, regex.UNICODE) if beyond else (regex.ASCII,)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return tuple(regex.compile(pattern, regex.VERSION0 | alphabet) for alphabet in alphabets)
    except (regex.error, Warning, RecursionError, ValueError, OverflowError) as misfit:
        raise RejectedPattern(f"does not compile: {quote(str(misfit), 120)}") from misfit


def _matches_empty(compiled: CompiledPattern) -> bool:
    if compiled.fast is not None:
        return compiled.fast.search("") is not None
    try:
        return any(one.search("", timeout=EMPTY_WITHIN_S) is not None for one in compiled.timed)
    except TimeoutError as late:
        raise RejectedPattern("takes too long even on the empty text") from late


def _reject_ambiguous_classes(pattern: str) -> None:
    """Java reads `[a-z&&[^x]]` and `[a[bc]]` as one class; the engines here would look for something else."""
    inside, place = False, 0
    while place < len(pattern):
        pair = pattern[place : place + 2]
        if pair[0] == "\\":
            if pair == "\\Q" and not inside:
                end = pattern.find("\\E", place)
                place = len(pattern) if end < 0 else end
            place += 2
        elif not inside:
            inside = pair[0] == "["
            place += 1 + (len(_get_class_opening(pattern, place)) if inside else 0)
        elif pair == "&&":
            raise RejectedPattern("uses && inside [ ], which only Java has; write the class out")
        elif pair[0] == "[" and pair not in _CLASSES:
            raise RejectedPattern(r"has a [ inside [ ]; write \[ for the character, or one class for all")
        elif pair in _CLASSES:
            end = pattern.find(pair[1] + "]", place + 2)
            place = len(pattern) if end < 0 else end + 2
        else:
            inside = pair[0] != "]"
            place += 1


def _get_class_opening(pattern: str, place: int) -> str:
    """What may follow `[` without ending the class: `^`, and then `]` as a plain character."""
    rest = pattern[place + 1 : place + 3]
    if rest.startswith("^]"):
        return "^]"
    return rest[0] if rest[:1] in ("^", "]") else ""
