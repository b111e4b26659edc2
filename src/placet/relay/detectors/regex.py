"""The detector for patterns. RE2 searches for all of them at once; other patterns have a time limit."""

import asyncio
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import re2
import regex

from placet.errors import ValidationFailed
from placet.ports.detector import CLEAN, Match, PreparedRules, Rule, Scan, Scannable
from placet.protocol.conversion import quote
from placet.relay.a2a.text_extraction import UNUSUAL_JSON
from placet.relay.detectors.built_in import BuiltInDetector, InlineRules
from placet.text.characters import is_storable, replace_surrogates

MAX_SIZE = 10**18
"""The estimate stops at this size, which is far above every limit."""
_VERBOSE_FLAG = re.compile(r"\(\?[a-zA-Z0-9]*x")
_COUNT = re.compile(r"\{(\d+)")
_TOKEN = re.compile(
    r"""
      (?P<element> \\[pPN]\{[^}]*\} | \\. | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] )
    | (?P<nothing> \(\?\#[^)]*\) | \(\?[a-zA-Z0-9-]+\) )
    | (?P<opening> \((?:\?(?:P?<\w+>|<?[=!]|[:>|]|[a-zA-Z0-9-]+:))? )
    | (?P<closing> \) )
    | \{(?P<count>\d+)(?:,\d*)?\}
    | .
    """,
    re.VERBOSE | re.DOTALL,
)

MAX_PATTERN_LENGTH = 4_000
MAX_PROGRAM = 50_000
"""The maximum RE2 program size. A larger one, such as a long repetition of a Unicode class, slows its set."""
MAX_EXPANDED = 50_000
"""The maximum size of an expanded pattern. The backtracking engine expands repetitions in memory."""
MAX_MEMORY_BYTES = 8 << 20
EMPTY_WITHIN_S = 0.1
_CLASSES = ("[:", "[.", "[=")
SET_MEMORY = 64 << 20
"""With less memory, a set of a few hundred patterns becomes very slow on long texts."""
MAX_MATCHES = 1_000
"""The maximum number of matches of one pattern in one text. The last one extends to the text's end."""
MAX_TOTAL = 50_000
"""The maximum number of matches in one message. Patterns that have not run by then stay unchecked."""
INLINE_CHARACTERS = 32_768
INLINE_PIECES = 64
INLINE_WITHIN_S = 0.01
"""The maximum duration of a scan on the event loop. After a longer scan, threads are used instead."""
DEFAULT_TIMEOUT = timedelta(seconds=1)
THREADS = 4
ONE_PATTERN_WITHIN_S = 0.25
ENTITY = "REGEX"
_SENTINEL = r"\z"
_ANCHOR = re.compile(r"[\^$]|\\[AzZ]")
_TIMED_OUT = "its time limit was reached"


def estimate_expanded_size(pattern: str) -> int:
    """Return the number of characters and classes of a pattern, each counted for its minimum repetitions."""
    if _VERBOSE_FLAG.search(pattern):
        # In verbose mode, spaces and comments may be anywhere, so each repetition may apply to all of it.
        bare = "".join(pattern.split())
        return min(len(bare) * prod(max(1, int(count)) for count in _COUNT.findall(bare)), MAX_SIZE)
    return _estimate_size(pattern)


def _estimate_size(pattern: str) -> int:
    outer: list[int] = []
    size = last = 0
    for token in _TOKEN.finditer(pattern):
        group = token.lastgroup
        if group == "opening":
            outer.append(size)
            size = last = 0
        elif group == "closing":
            last = max(1, size)
            size = last + (outer.pop() if outer else 0)
        elif group == "count":
            times = max(1, int(token["count"]))  # the engine compiles an operand of {0} as well
            size, last = size + last * (times - 1), last * times
        elif group != "nothing":
            size, last = size + 1, 1
        size, last = min(size, MAX_SIZE), min(last, MAX_SIZE)
    return min(size + sum(outer), MAX_SIZE)


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


SET_SIZE, SET_PROGRAM = 500, 200_000
"""The maximum number of patterns, and of RE2 instructions, in one set."""


class RegexDetector(BuiltInDetector):
    """Detects matches for policies of type `REGEX_DETECTION`."""

    type = "REGEX_DETECTION"

    def __init__(self, *, within: timedelta = DEFAULT_TIMEOUT) -> None:
        self.within = within
        self._threads = ThreadPoolExecutor(THREADS, "placet-regex")

    def check(self, rule: Rule) -> None:
        """Raise ValidationFailed if no engine can compile the pattern, or if it is ambiguous."""
        try:
            compile_pattern(rule.what)
        except RejectedPattern as refusal:
            raise ValidationFailed(f"The pattern {refusal}.", path="pattern.regex") from refusal

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        """Compile all patterns. Thousands of them take a while, so call this in a thread."""
        return PreparedPatterns(rules, threads=self._threads, within_s=self.within.total_seconds())

    async def aclose(self) -> None:
        """Shut down the threads. Scans in progress end at their time limit."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class PreparedPatterns(InlineRules):
    """Compiled patterns, grouped in sets that are searched in one pass."""

    def __init__(self, rules: Sequence[Rule], *, threads: ThreadPoolExecutor, within_s: float) -> None:
        self._refused: dict[int, str] = {}
        self._patterns: dict[int, CompiledPattern] = {}
        for number, rule in enumerate(rules):
            try:
                self._patterns[number] = compile_pattern(rule.what)
            except RejectedPattern as refusal:
                self._refused[number] = f"its pattern {refusal}"
        fast = [number for number, compiled in self._patterns.items() if compiled.fast is not None]
        self._anchored = any(_is_anchored(rule.what) for rule in rules)
        self._timed = [number for number in self._patterns if self._patterns[number].timed]
        parts = _partition_rules([(number, self._patterns[number].size) for number in fast])
        self._sets = [pattern_set for part in parts for pattern_set in _build_sets(part, rules)]
        self._threads = threads
        self._within_s = within_s
        self._inline = INLINE_CHARACTERS

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        """Return the matches of the wanted rules.

        Scans short messages on the event loop. Long ones, and patterns that backtrack, run in a thread.
        """
        scan = self.scan_inline(pieces, wanted)
        if scan is not None:
            return scan
        timed = self._list_timed(wanted)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, self._scan, pieces, wanted, timed, self._compute_deadline()
        )

    def scan_inline(self, pieces: Sequence[Scannable], wanted: frozenset[int] | None = None) -> Scan | None:
        """Return the scan of a short message that needs no thread; None for any other message."""
        if (self._timed and self._list_timed(wanted)) or not self._is_short(pieces):
            return None
        started = time.thread_time()  # CPU time, because wall time depends on the load of the machine
        scan = CLEAN if self._is_clean(pieces) else self._scan(pieces, wanted, [], self._compute_deadline())
        if time.thread_time() - started > INLINE_WITHIN_S:
            self._inline = 0
        return scan

    def is_clear(self, encoded: bytes) -> bool:
        """Whether no pattern matches this JSON, and so none of its texts, and it has no `UNUSUAL_JSON`.

        A pattern that matches a text also matches the JSON around it, unless it is anchored to the start or
        end of the text. Word boundaries match as well, because the text is between non-word characters.
        """
        if self._refused or self._timed or self._anchored or len(encoded) > self._inline:
            return False
        return bool(self._sets) and all(pattern_set.is_clear(encoded) for pattern_set in self._sets)

    def _is_clean(self, pieces: Sequence[Scannable]) -> bool:
        """Whether a complete search for all patterns finds no match, as for most messages."""
        try:
            return not self._refused and all(
                pattern_set.find_rules(piece.text.encode()) == ()
                for piece in pieces
                for pattern_set in self._sets
            )
        except UnicodeEncodeError:
            return False

    def _list_timed(self, wanted: frozenset[int] | None) -> list[int]:
        return self._timed if wanted is None else [number for number in self._timed if number in wanted]

    def _compute_deadline(self) -> float:
        return time.monotonic() + self._within_s * 0.8  # leaves time to return matches before the timeout

    def _is_short(self, pieces: Sequence[Scannable]) -> bool:
        """Whether to scan on the event loop. After a slow scan, the limit starts at 0 and grows again."""
        if len(pieces) > INLINE_PIECES:
            return False
        if sum(len(piece.text) for piece in pieces) <= self._inline:
            return True
        self._inline = min(self._inline + 16, INLINE_CHARACTERS)
        return False

    def _scan(
        self, pieces: Sequence[Scannable], wanted: frozenset[int] | None, timed: list[int], deadline: float
    ) -> Scan:
        matches: list[Match] = []
        unchecked = dict(self._refused)
        for number, piece in enumerate(pieces):
            text, encoded = _encode_text(piece.text)
            stop_reason = _get_stop_reason(matches, deadline)
            for pattern_set in self._sets:
                matched = None if stop_reason else pattern_set.find_rules(encoded)
                if matched is None:
                    reason = stop_reason or "the engine ran out of memory"
                    unchecked.update(dict.fromkeys(pattern_set.rules, reason))
                    continue
                for rule in matched:
                    if wanted is None or rule in wanted:
                        matches += self._list_matches(rule, number, text, deadline)
        for rule in timed:
            self._scan_timed(rule, pieces, deadline, matches, unchecked)
        if not matches and not unchecked:
            return CLEAN
        return Scan(matches=matches, unchecked=unchecked)

    def _list_matches(self, rule: int, piece: int, text: str, deadline: float) -> Iterator[Match]:
        """Yield the matches of a pattern that its set has found.

        At the limit of matches or time, the last match covers the rest of the text.
        """
        count = 0
        for found in self._patterns[rule].fast.finditer(text):
            count += 1
            start, end = found.span()
            if count >= MAX_MATCHES or time.monotonic() > deadline:
                end = len(text)
            yield Match(rule=rule, piece=piece, start=start, end=end, entity=ENTITY)
            if start < end == len(text):
                return
        if not count:
            yield Match(rule=rule, piece=piece, start=0, end=len(text), entity=ENTITY)

    def _scan_timed(
        self,
        rule: int,
        pieces: Sequence[Scannable],
        deadline: float,
        matches: list[Match],
        unchecked: dict[int, str],
    ) -> None:
        rule_deadline = min(deadline, time.monotonic() + ONE_PATTERN_WITHIN_S)
        for number, piece in enumerate(pieces):
            if stop_reason := _get_stop_reason(matches, rule_deadline):
                unchecked[rule] = stop_reason
                return
            try:
                spans = {
                    span
                    for pattern in self._patterns[rule].timed
                    for span in _find_spans(pattern, piece.text, rule_deadline)
                }
            except TimeoutError:
                unchecked[rule] = _TIMED_OUT
                return
            matches += (
                Match(rule=rule, piece=number, start=start, end=end, entity=ENTITY)
                for start, end in sorted(spans)
            )


class _PatternSet:
    """Patterns that RE2 searches together.

    The set includes a sentinel that always matches, which shows that the search was complete, and
    `UNUSUAL_JSON`.
    """

    def __init__(self, rules: Sequence[int], all_rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._set: Any = re2.Set.SearchSet(build_re2_options(SET_MEMORY))
        for rule in rules:
            self._set.Add(all_rules[rule].what)
        self._sentinel = self._set.Add(_SENTINEL)
        self._set.Add(UNUSUAL_JSON)
        try:
            self._set.Compile()
        except re2.error:
            self._set = None

    def find_rules(self, encoded: bytes) -> Sequence[int] | None:
        """Return the rules that match; None if the engine gave up, which it reports as no match."""
        matched = self._set.Match(encoded) if self._set is not None else None
        if matched is None or self._sentinel not in matched:
            return None
        if len(matched) == 1:
            return ()
        return tuple(self.rules[index] for index in sorted(matched) if index < self._sentinel)

    def is_clear(self, encoded: bytes) -> bool:
        """Whether no rule and no `UNUSUAL_JSON` matches. False if the engine gave up."""
        return self._set is not None and self._set.Match(encoded) == [self._sentinel]


def _is_anchored(pattern: str) -> bool:
    """Whether a pattern may be anchored to the start or end of a text. May be True without need."""
    return _ANCHOR.search(pattern.replace("[^", "[")) is not None


def _get_stop_reason(matches: list[Match], deadline: float) -> str | None:
    """Return why the scan must stop, or None if it may continue."""
    if time.monotonic() > deadline:
        return _TIMED_OUT
    return f"there are more than {MAX_TOTAL} matches" if len(matches) > MAX_TOTAL else None


def _find_spans(pattern: "regex.Pattern[str]", text: str, deadline: float) -> list[tuple[int, int]]:
    """Return the spans of all matches. Raises `TimeoutError` at the deadline."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    matches = pattern.finditer(text, concurrent=True, timeout=remaining)
    spans = [match.span() for match in islice(matches, MAX_MATCHES)]
    if len(spans) == MAX_MATCHES:
        spans[-1] = (spans[-1][0], len(text))
    return spans


def _build_sets(rules: list[int], all_rules: Sequence[Rule]) -> list[_PatternSet]:
    """Return one set, or several if one would exceed its memory."""
    pattern_set = _PatternSet(rules, all_rules)
    if len(rules) == 1 or pattern_set.find_rules(b"") is not None:
        return [pattern_set]
    half = len(rules) // 2
    return [*_build_sets(rules[:half], all_rules), *_build_sets(rules[half:], all_rules)]


def _partition_rules(sizes: list[tuple[int, int]]) -> list[list[int]]:
    """Return the rules in groups, each small enough for one set."""
    parts: list[list[int]] = []
    room = 0
    for rule, size in sizes:
        if not parts or len(parts[-1]) == SET_SIZE or size > room:
            parts.append([])
            room = SET_PROGRAM
        parts[-1].append(rule)
        room -= size
    return parts


def _encode_text(text: str) -> tuple[str, bytes]:
    """Return the text and its UTF-8. Replaces lone surrogates, which UTF-8 cannot encode."""
    try:
        return text, text.encode()
    except UnicodeEncodeError:
        replaced = replace_surrogates(text)
        return replaced, replaced.encode()
