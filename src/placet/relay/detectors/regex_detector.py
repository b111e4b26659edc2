"""Detect regular expressions, hundreds of them in one pass."""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from typing import Any

import re2
import regex

from placet.errors import ValidationFailed
from placet.ports.detector import CLEAN, Match, PreparedRules, Rule, Scan, Scannable
from placet.relay.a2a.text_extraction import UNUSUAL_JSON
from placet.relay.detectors.patterns import (
    CompiledPattern,
    RejectedPattern,
    build_re2_options,
    compile_pattern,
)

SET_MEMORY = 64 << 20
"""Less than this, and a set of some hundred patterns falls off a cliff on longer texts."""
SET_SIZE, SET_PROGRAM = 500, 200_000
"""So many patterns, and so many instructions, are in one set."""
MAX_MATCHES = 1_000
"""So many places of a pattern in a text are named; the last reaches to the text's end."""
MAX_TOTAL = 50_000
"""With more matches than this in one message, what was not yet looked at stays unchecked."""
INLINE_CHARACTERS = 32_768
INLINE_PIECES = 64
INLINE_WITHIN_S = 0.01
"""Scans on the event loop should be shorter than this; where they are not, threads take over."""
DEFAULT_TIMEOUT = timedelta(seconds=1)
ONE_PATTERN_WITHIN_S = 0.25
ENTITY = "REGEX"
_SENTINEL = r"\z"
_LONE = re.compile("[\ud800-\udfff]")
_ANCHOR = re.compile(r"[\^$]|\\[AzZ]")
_TIMED_OUT = "the time for it ran out"


class RegexDetector:
    """Policies of type `REGEX_DETECTION`."""

    type = "REGEX_DETECTION"

    def __init__(self, *, within: timedelta = DEFAULT_TIMEOUT, threads: int = 4) -> None:
        self.within = within
        self._threads = ThreadPoolExecutor(threads, "placet-regex")

    def check(self, rule: Rule) -> None:
        """Refuse a pattern that neither engine takes, or that would not mean what it says."""
        try:
            compile_pattern(rule.what)
        except RejectedPattern as refusal:
            raise ValidationFailed(f"The pattern {refusal}.", path="pattern.regex") from refusal

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        """Compile all patterns; takes a while for thousands, so do it beside the event loop."""
        return PreparedPatterns(rules, threads=self._threads, within_s=self.within.total_seconds())

    async def aclose(self) -> None:
        """Let the threads end; what they are doing has a limit."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class PreparedPatterns:
    """Patterns in sets, ready to be looked for."""

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
        self._sets = [found for part in parts for found in _build_sets(part, rules)]
        self._threads = threads
        self._within_s = within_s
        self._inline = INLINE_CHARACTERS

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        """Short messages are scanned at once; long ones, and patterns that backtrack, in a thread."""
        found = self.scan_now(pieces, wanted)
        if found is not None:
            return found
        timed = self._list_timed(wanted)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._scan, pieces, wanted, timed, self._deadline())

    def scan_now(self, pieces: Sequence[Scannable], wanted: frozenset[int] | None = None) -> Scan | None:
        """What comes of a short message that needs no thread; None for any other."""
        if (self._timed and self._list_timed(wanted)) or not self._is_short(pieces):
            return None
        started = time.thread_time()  # what others take of a busy machine says nothing about the patterns
        found = CLEAN if self._is_clean(pieces) else self._scan(pieces, wanted, [], self._deadline())
        if time.thread_time() - started > INLINE_WITHIN_S:
            self._inline = 0
        return found

    def clears(self, encoded: bytes) -> bool:
        """Whether nothing fits anywhere in this JSON, and so in none of its texts: it has nothing `UNUSUAL`.

        A pattern that fits a text also fits around it, unless it looks for the text's own beginning or end.
        At both there is a character of JSON, which is no part of a word, as there is none in the text itself.
        """
        if self._refused or self._timed or self._anchored or len(encoded) > self._inline:
            return False
        return bool(self._sets) and all(group.clears(encoded) for group in self._sets)

    def _is_clean(self, pieces: Sequence[Scannable]) -> bool:
        """Whether a whole search for everything found nothing, which is so for almost all messages."""
        try:
            return not self._refused and all(
                group.hits(piece.text.encode()) == () for piece in pieces for group in self._sets
            )
        except UnicodeEncodeError:
            return False

    def _list_timed(self, wanted: frozenset[int] | None) -> list[int]:
        return self._timed if wanted is None else [number for number in self._timed if number in wanted]

    def _deadline(self) -> float:
        return time.monotonic() + self._within_s * 0.8  # to hand over what was found before nobody waits

    def _is_short(self, pieces: Sequence[Scannable]) -> bool:
        """Whether to scan at once. After a scan that took long, longer and longer texts are tried again."""
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
            end = _get_stop_reason(matches, deadline)
            for group in self._sets:
                hits = None if end else group.hits(encoded)
                if hits is None:
                    reason = end or "the engine ran out of memory"
                    unchecked.update(dict.fromkeys(group.rules, reason))
                    continue
                for rule in hits:
                    if wanted is None or rule in wanted:
                        matches += self._places(rule, number, text, deadline)
        for rule in timed:
            self._scan_timed(rule, pieces, deadline, matches, unchecked)
        if not matches and not unchecked:
            return CLEAN
        return Scan(matches=matches, unchecked=unchecked)

    def _places(self, rule: int, piece: int, text: str, deadline: float) -> Iterator[Match]:
        """Where a pattern fits that the set has found; what is not named one by one is covered as a whole."""
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
        own_end = min(deadline, time.monotonic() + ONE_PATTERN_WITHIN_S)
        for number, piece in enumerate(pieces):
            if end := _get_stop_reason(matches, own_end):
                unchecked[rule] = end
                return
            try:
                spans = {
                    span
                    for pattern in self._patterns[rule].timed
                    for span in _find_spans(pattern, piece.text, own_end)
                }
            except TimeoutError:
                unchecked[rule] = _TIMED_OUT
                return
            matches += (
                Match(rule=rule, piece=number, start=start, end=end, entity=ENTITY)
                for start, end in sorted(spans)
            )


class _PatternSet:
    """Patterns that are looked for together; a sentinel that always fits shows that the search was whole.

    What is `UNUSUAL` in JSON is looked for on the way.
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

    def hits(self, encoded: bytes) -> Sequence[int] | None:
        """The rules that fit somewhere; None if the engine gave up, which it otherwise shows as no hit."""
        found = self._set.Match(encoded) if self._set is not None else None
        if found is None or self._sentinel not in found:
            return None
        if len(found) == 1:
            return ()
        return tuple(self.rules[hit] for hit in sorted(found) if hit < self._sentinel)

    def clears(self, encoded: bytes) -> bool:
        """Whether neither a rule nor anything unusual fits; not if the engine gave up."""
        return self._set is not None and self._set.Match(encoded) == [self._sentinel]


def _is_anchored(pattern: str) -> bool:
    """Whether a pattern may ask where a text begins or ends; rather too often than too seldom."""
    return _ANCHOR.search(pattern.replace("[^", "[")) is not None


def _get_stop_reason(matches: list[Match], deadline: float) -> str | None:
    """Why not to look any further; None as long as there is time and room."""
    if time.monotonic() > deadline:
        return _TIMED_OUT
    return f"there are more than {MAX_TOTAL} matches" if len(matches) > MAX_TOTAL else None


def _find_spans(pattern: "regex.Pattern[str]", text: str, end: float) -> list[tuple[int, int]]:
    """Where the pattern fits; raises `TimeoutError` at the end of its time."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    found = pattern.finditer(text, concurrent=True, timeout=left)
    spans = [one.span() for one in islice(found, MAX_MATCHES)]
    if len(spans) == MAX_MATCHES:
        spans[-1] = (spans[-1][0], len(text))
    return spans


def _build_sets(rules: list[int], all_rules: Sequence[Rule]) -> list[_PatternSet]:
    """One set, or as many as it takes for each to fit its memory."""
    whole = _PatternSet(rules, all_rules)
    if len(rules) == 1 or whole.hits(b"") is not None:
        return [whole]
    half = len(rules) // 2
    return [*_build_sets(rules[:half], all_rules), *_build_sets(rules[half:], all_rules)]


def _partition_rules(sizes: list[tuple[int, int]]) -> list[list[int]]:
    """The rules in groups, each small enough for a set."""
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
    """The text in UTF-8; lone surrogates, which have none, become one replacement character each."""
    try:
        return text, text.encode()
    except UnicodeEncodeError:
        readable = _LONE.sub("\ufffd", text)
        return readable, readable.encode()
