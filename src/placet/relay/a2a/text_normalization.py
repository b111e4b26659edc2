r"""Find alternate readings of a text: plain, decoded, as shown, and without what breaks words up.

A detector searches for exact characters. An agent or a person also understands full-width digits, keycaps,
`\u0035`, base64 and `5 3 6`. A reading is the text after one transformation, or after up to `MAX_ROUNDS`
rounds of all of them:

- show: the text as a terminal or page shows it, with numerals as digits (`text_compaction`);
- fold: characters of a stated alphabet become ASCII (`text_folding`);
- decode: escapes, base64, base32 and character codes become the text that they stand for (`text_decoding`);
- compact: what breaks up a word or number is removed, such as markup (`text_compaction`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from placet.ports.detector import Match, Scannable
from placet.relay.a2a import text_compaction as compaction
from placet.relay.a2a import text_decoding as decoding
from placet.relay.a2a.text_decoding import Edit
from placet.relay.a2a.text_folding import (
    CONTROL_CHARACTER,
    DASHES,
    DOTS,
    MAY_BE_LATIN,
    ORDINARY,
    Span,
    compile_re2,
    fold_text,
    map_folded_spans,
)

MAX_ROUNDS = 3
"""How often all transformations are applied one after the other, for base64 within base64 and the like."""
MAX_BRANCHES = 6
"""How many texts go through a round: the text as written and as shown, and the same for what was decoded."""
NO_PIECE = -1


def _list_ranges(ranges: Iterable[Span]) -> str:
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)


_UNUSUAL_CHARACTER = f"[^{_list_ranges(ORDINARY)}]|{MAY_BE_LATIN}|[0-9A-Za-z][{DASHES}{DOTS}][0-9A-Za-z]"
ALTERNATE_READING = "|".join(
    (
        decoding.ESCAPED,
        decoding.BASE64_WORD,
        decoding.SPACED_BASE64,
        decoding.HEX_CODES,
        decoding.NUMBER_CODES,
        compaction.HIDDEN_MARKUP,
        compaction.BROKEN,
        compaction.NUMERALS,
        compaction.RIGHT_TO_LEFT,
        compaction.TERMINAL,
        _UNUSUAL_CHARACTER,
    )
)
"""A pattern for RE2 that matches every text with an alternate reading, and few others."""
_alternate_search = compile_re2(ALTERNATE_READING)


class AlternateReading(NamedTuple):
    """An alternate reading of a text, with the steps that led to it."""

    piece: int
    text: str
    steps: "tuple[_Step, ...]"

    @property
    def is_folded(self) -> bool:
        """Whether the reading differs from the text only by its characters."""
        return len(self.steps) == 1 and self.steps[0].transformation is None

    def spans(self) -> list[Span]:
        """Return the span in the source of each character of the reading."""
        spans = self.steps[0].map_spans()
        for step in self.steps[1:]:
            spans = [(spans[start][0], spans[end - 1][1]) for start, end in step.map_spans()]
        return spans


class _Step(NamedTuple):
    """One transformation of a text, followed by folding. `None` stands for folding alone."""

    source: str
    transformation: "Callable[[str], Iterator[Edit]] | None"
    changed: str
    result: str

    def map_spans(self) -> list[Span]:
        folded = map_folded_spans(self.changed, self.result)
        if self.transformation is None:
            return folded
        edited = _map_edited_spans(self.source, self.transformation(self.source))
        return [(edited[start][0], edited[end - 1][1]) for start, end in folded]


def has_single_reading(encoded: bytes) -> bool:
    """Whether no text in this JSON has an alternate reading. The JSON must not contain escapes."""
    return _alternate_search.search(encoded) is None


def find_alternate_readings(pieces: Sequence[Scannable]) -> list[AlternateReading]:
    """Return all alternate readings of the texts. Most texts have none."""
    readings: list[AlternateReading] = []
    for index, piece in enumerate(pieces):
        if _may_have_readings(piece.text):
            readings += _find_readings(index, piece.text)
    return readings


def _may_have_readings(text: str) -> bool:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return True
    return _alternate_search.search(encoded) is not None or CONTROL_CHARACTER.search(text) is not None


def normalize_text(text: str) -> str | None:
    """Return the last alternate reading of a text, or None if it has none."""
    readings = find_alternate_readings([Scannable("", text)])
    return readings[-1].text if readings else None


def _find_readings(index: int, text: str) -> list[AlternateReading]:
    readings: dict[str, AlternateReading] = {}
    branches: list[_Branch] = [_Branch(text, ())]
    for _ in range(MAX_ROUNDS):
        following: dict[str, _Branch] = {}
        for branch in branches[:MAX_BRANCHES]:
            for one in _run_round(index, branch, readings):
                following.setdefault(one.text, one)
        if not following:
            break
        branches = list(following.values())
    readings.pop(text, None)
    return list(readings.values())


def _run_round(index: int, branch: "_Branch", readings: dict[str, AlternateReading]) -> "Iterator[_Branch]":
    """Add the readings after each transformation alone and after all of them, and yield the next branches."""
    for base, steps in _show(branch):
        if steps:
            readings.setdefault(base, AlternateReading(index, base, steps))
        encoded = base.encode("utf-8", "replace")
        result, taken = base, steps
        for transformation in _TRANSFORMATIONS:
            alone = _take_step(base, transformation, encoded)
            if alone is not None:
                readings.setdefault(alone.result, AlternateReading(index, alone.result, (*steps, alone)))
                if _is_shown_otherwise(alone.changed):
                    yield _Branch(alone.changed, (*steps, alone._replace(result=alone.changed)))
            further = alone if result is base else _take_step(result, transformation)
            if further is not None:
                result, taken = further.result, (*taken, further)
        if taken is not steps:
            readings.setdefault(result, AlternateReading(index, result, taken))
            yield _Branch(result, taken)


class _Branch(NamedTuple):
    """A text that may contain characters that folding removes, with the steps that led to it."""

    text: str
    steps: "tuple[_Step, ...]"


def _show(branch: "_Branch") -> "Iterator[_Branch]":
    """Yield the folded text as it is written, and as it is shown, if it is not shown as it is written."""
    text, steps = branch
    folded = fold_text(text)
    yield _Branch(folded, steps if folded == text else (*steps, _Step(text, None, text, folded)))
    if not _is_shown_otherwise(text):
        return
    for transformation in _DISPLAY:
        step = _take_step(text, transformation)
        if step is not None and step.result != folded:
            yield _Branch(step.result, (*steps, step))


def _is_shown_otherwise(text: str) -> bool:
    return _display_search(text.encode("utf-8", "replace")) is not None


def _take_step(text: str, transformation: "_Transformation", encoded: bytes | None = None) -> _Step | None:
    """Return the transformation of a text, or None if it changes nothing or nothing is left."""
    if not transformation.applies(text.encode("utf-8", "replace") if encoded is None else encoded):
        return None
    changed = _apply(text, transformation.list_edits(text))
    if changed is None or not (result := fold_text(changed)) or result == text:
        return None
    return _Step(text, transformation.list_edits, changed, result)


class ScanTexts(NamedTuple):
    """The texts that a detector scans, and which of them are alternate readings."""

    texts: Sequence[Scannable]
    readings: Mapping[int, AlternateReading]


def append_readings(pieces: Sequence[Scannable], readings: Sequence[AlternateReading]) -> ScanTexts:
    """Return the texts followed by their alternate readings."""
    more = [Scannable(pieces[reading.piece].path, reading.text) for reading in readings]
    return ScanTexts([*pieces, *more], dict(enumerate(readings, len(pieces))))


def substitute_readings(pieces: Sequence[Scannable], readings: Sequence[AlternateReading]) -> ScanTexts:
    """Return the folded texts followed by the other readings, without duplicates.

    For slow detectors that do not search for hidden characters.
    """
    folded = {reading.piece: reading for reading in readings if reading.is_folded}
    texts = [
        Scannable(piece.path, folded[index].text if index in folded else piece.text)
        for index, piece in enumerate(pieces)
    ]
    scanned = append_readings(
        texts, [reading for reading in readings if folded.get(reading.piece) is not reading]
    )
    return ScanTexts(scanned.texts, {**folded, **scanned.readings})


def map_matches_to_source(
    matches: Sequence[Match], pieces: Sequence[Scannable], scanned: ScanTexts
) -> list[Match]:
    """Return the matches with spans in the original texts, without duplicates.

    A match outside of its reading gets the piece `NO_PIECE`, which callers treat as an invalid match.
    """
    mapped: dict[tuple[int, int, int, int, str], Match] = {}
    spans: dict[int, list[Span]] = {}
    for scanned_match in matches:
        match, reading = scanned_match, scanned.readings.get(scanned_match.piece)
        if reading is not None:
            if scanned_match.piece not in spans:
                spans[scanned_match.piece] = reading.spans()
            match = _map_match(scanned_match, reading, spans[scanned_match.piece])
        key = (match.rule, match.piece, match.start, match.end, match.entity)
        if key not in mapped or mapped[key].score < match.score:
            mapped[key] = match
    return list(mapped.values())


def _map_match(match: Match, reading: AlternateReading, spans: Sequence[Span]) -> Match:
    if not 0 <= match.start <= match.end <= len(spans):
        return replace(match, piece=NO_PIECE)
    start, end = 0, 0  # an empty match stands for the whole text
    if match.start < match.end:
        start, end = spans[match.start][0], spans[match.end - 1][1]
    return replace(match, piece=reading.piece, start=start, end=end)


class _Transformation(NamedTuple):
    """A transformation, and a quick search for what it may change."""

    applies: Callable[[bytes], Any]
    list_edits: Callable[[str], Iterator[Edit]]


def _build_transformation(pattern: str, list_edits: Callable[[str], Iterator[Edit]]) -> _Transformation:
    return _Transformation(compile_re2(pattern).search, list_edits)


_DISPLAY = (
    _build_transformation(compaction.TERMINAL, compaction.apply_terminal),
    _build_transformation(compaction.RIGHT_TO_LEFT, compaction.reverse_overrides),
    _build_transformation(compaction.NUMERALS, compaction.read_numerals),
)
_display_search: Any = compile_re2(
    f"{compaction.TERMINAL}|{compaction.RIGHT_TO_LEFT}|{compaction.NUMERALS}"
).search
_TRANSFORMATIONS = (
    _build_transformation(decoding.ESCAPED, decoding.decode_escapes),
    _build_transformation(r"\\0{0,4}[2-7][0-9A-Fa-f]", decoding.decode_style_escapes),
    _build_transformation(decoding.BASE64_WORD, decoding.decode_base64_words),
    _build_transformation(decoding.SPACED_BASE64, decoding.decode_spaced_base64),
    _build_transformation(decoding.HEX_CODES, decoding.decode_hex),
    _build_transformation(decoding.NUMBER_CODES, decoding.decode_decimal),
    _build_transformation(decoding.NUMBER_CODES, decoding.decode_octal),
    _build_transformation(decoding.NUMBER_CODES, decoding.decode_binary),
    _build_transformation(decoding.NUMBER_CODES, decoding.decode_base32),
    _build_transformation(compaction.HIDDEN_MARKUP, compaction.drop_comments),
    _build_transformation(compaction.BROKEN, compaction.drop_breaks),
    _build_transformation(compaction.BROKEN, compaction.join_groups),
)


# Growing texts

MAX_OPEN_LENGTH = 240
"""The maximum length of the beginning of an encoding."""
_OPEN_ENCODING = re.compile(
    rf"(?:{''.join(f'{part}{decoding.BASE64_GAP}' for part in decoding.QUAD)})*"
    rf"(?:{decoding.QUAD[0]}{decoding.BASE64_GAP}(?:{decoding.QUAD[1]}{decoding.BASE64_GAP}"
    rf"(?:{decoding.QUAD[2]}{decoding.BASE64_GAP})?)?)?\Z"
    rf"|(?<![0-9A-Za-z])(?:0x)?(?:[0-9A-Fa-f]{{2}}{decoding.HEX_GAP})+[0-9A-Fa-f]?\Z",
    re.DOTALL,
)


def find_open_form(text: str) -> int:
    """Return where the end of a text begins that further text may turn into something with another reading.

    An encoding or a word that is broken up is only recognised from a certain length.
    """
    encoding = _OPEN_ENCODING.search(text, max(0, len(text) - MAX_OPEN_LENGTH))
    limit = len(text) if encoding is None else encoding.start()
    return min(limit, compaction.find_open_word(text, limit))


# Edits


def _apply(text: str, edits: Iterable[Edit]) -> str | None:
    """Return the text with the edits, or None without any."""
    parts: list[str] = []
    position = 0
    for start, end, replacement in edits:
        parts += (text[position:start], replacement)
        position = end
    return "".join((*parts, text[position:])) if parts else None


def _map_edited_spans(text: str, edits: Iterable[Edit]) -> list[Span]:
    """Return the span in the text of each character of the edited text."""
    spans: list[Span] = []
    position = 0
    for start, end, replacement in edits:
        spans += [(index, index + 1) for index in range(position, start)]
        spans += [(start, end)] * len(replacement)
        position = end
    return [*spans, *((index, index + 1) for index in range(position, len(text)))]
