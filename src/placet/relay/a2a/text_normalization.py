"""Find alternate readings of a text: without hidden characters, with folded characters, with escapes decoded.

A detector searches for exact characters. An agent or a person also understands full-width digits, digits with
hidden characters between them, and digits written as escapes.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import re2
from msgspec.structs import replace

from placet.ports.detector import Match, Scannable
from placet.text.characters import CONTROLS, is_hidden

_ENCODED = (
    r"%[0-9A-Fa-f]{2}|&#|(?i:;base64,)|[A-Za-z0-9+/]{21}|[A-Za-z0-9+/_-]{37}|[A-Za-z0-9+/_-]{7}="
    r"|\\(?:u(?:\{|[0-9A-Fa-f]{4})|x[0-9A-Fa-f]{2})"
)
# Characters that folding does not change. The ranges cover most texts: Latin, Greek, Cyrillic, Chinese,
# Japanese and Korean letters, quotation marks, arrows and emoji.
ORDINARY = (
    *((0x00, 0x7E), (0xC0, 0x131), (0x134, 0x13E), (0x141, 0x148), (0x14A, 0x17E), (0x180, 0x1C3)),
    *((0x38E, 0x3A1), (0x3A3, 0x3CF), (0x400, 0x482), (0x48A, 0x52F), (0x2018, 0x201F), (0x2190, 0x2211)),
    *((0x2600, 0x2795), (0x3001, 0x3003), (0x3008, 0x3011), (0x3041, 0x3096), (0x30A1, 0x30FE)),
    *((0x3400, 0xA48C), (0xAC00, 0xD7A3), (0x1F300, 0x1F6D7), (0x1F900, 0x1FA53)),
)
_UNUSUAL_CHARACTER = "[^{}]".format("".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ORDINARY))
_CONTROLS = re.compile(f"(?!\r)[{CONTROLS}]")
_ESCAPES = re.compile(
    r"(?<!\\)\\+u\{(?P<braced>[0-9A-Fa-f]{1,6})\}"
    r"|(?<!\\)\\+(?:u(?P<four>[0-9A-Fa-f]{4})|x(?P<two>[0-9A-Fa-f]{2}))"
    r"|%(?P<percent>[0-9A-Fa-f]{2})"
    r"|&\#(?:[xX](?P<hex>[0-9A-Fa-f]{1,6})|(?P<decimal>[0-9]{1,7}));?"
    r"|(?P<base64>[A-Za-z0-9+/_-]{21,}={0,2}|[A-Za-z0-9+/_-]{7,20}={1,2})"
)
_STANDARD = str.maketrans("-_", "+/")
_MINUS = frozenset({0x2212, 0x2043, 0x2796})
_TAG_CHARACTERS = range(0xE0020, 0xE007F)
"""Invisible counterparts of ASCII characters, which language models understand."""

Span = tuple[int, int]
NO_PIECE = -1


def _compile_re2(pattern: str) -> Any:
    options = re2.Options()
    options.never_capture = True
    return re2.compile(pattern, options)


_encoded_search = _compile_re2(_ENCODED)
_alternate_search = _compile_re2(f"{_ENCODED}|{_UNUSUAL_CHARACTER}")


class _FoldTable(dict[int, str]):
    """Maps a code point to its folded characters."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_character(code)
        return folded


class AlternateReading(NamedTuple):
    """An alternate reading of a text: folded characters, or decoded escapes and base64."""

    piece: int
    text: str
    decoded: str

    def spans(self, source: str) -> list[Span]:
        """Return the span in the source of each character of the reading."""
        folded = _map_folded_spans(self.decoded, self.text)
        if self.decoded == source:
            return folded
        decoded = _map_decoded_spans(source)
        return [(decoded[start][0], decoded[end - 1][1]) for start, end in folded]


def has_single_reading(encoded: bytes) -> bool:
    """Whether no text in this JSON has an alternate reading. The JSON must not contain escapes."""
    return _alternate_search.search(encoded) is None


def find_alternate_readings(pieces: Sequence[Scannable]) -> list[AlternateReading]:
    """Return all alternate readings of the texts. Most texts have none."""
    readings: list[AlternateReading] = []
    for index, piece in enumerate(pieces):
        text = piece.text
        folded = _fold(text)
        if folded != text:
            readings.append(AlternateReading(index, folded, text))
        if _encoded_search.search(text.encode("utf-8", "replace")) is not None:
            decoded = _ESCAPES.sub(_replace_escape, text)
            if decoded != text:
                readings.append(AlternateReading(index, _fold(decoded), decoded))
    return readings


def normalize_text(text: str) -> str | None:
    """Return the last alternate reading of a text, or None if it has none."""
    readings = find_alternate_readings([Scannable("", text)])
    return readings[-1].text if readings else None


class ScanTexts(NamedTuple):
    """The texts that a detector scans, and which of them are alternate readings."""

    texts: Sequence[Scannable]
    readings: Mapping[int, AlternateReading]


def append_readings(pieces: Sequence[Scannable], readings: Sequence[AlternateReading]) -> ScanTexts:
    """Return the texts followed by their alternate readings."""
    more = [Scannable(pieces[reading.piece].path, reading.text) for reading in readings]
    return ScanTexts([*pieces, *more], dict(enumerate(readings, len(pieces))))


def substitute_readings(pieces: Sequence[Scannable], readings: Sequence[AlternateReading]) -> ScanTexts:
    """Return the folded texts followed by the decoded readings, without duplicates.

    For slow detectors that do not search for hidden characters.
    """
    folded = {reading.piece: reading for reading in readings if reading.decoded == pieces[reading.piece].text}
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
                spans[scanned_match.piece] = reading.spans(pieces[reading.piece].text)
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


# Characters


def _fold_character(code: int) -> str:
    character = chr(code)
    if code < 0x80:
        return "" if _CONTROLS.match(character) else character
    if code in _TAG_CHARACTERS:
        return chr(code - 0xE0000)
    category = unicodedata.category(character)
    if is_hidden(character) or category == "Cf":  # includes format characters that are visible
        return ""
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    if category == "Pd" or code in _MINUS:
        return "-"
    return " " if category == "Zs" else unicodedata.normalize("NFKC", character)


_FOLD_TABLE = _FoldTable()


def _fold(text: str) -> str:
    if text.isascii() and _CONTROLS.search(text) is None:
        return text
    return unicodedata.normalize("NFC", text.translate(_FOLD_TABLE))


def _map_folded_spans(source: str, folded: str) -> list[Span]:
    """Return the span in the source of each folded character.

    Combining marks and hidden characters belong to the character before them, so that masking it removes
    them as well.
    """
    spans: list[Span] = []
    start, length = 0, len(source)
    while start < length:
        end = start + 1
        while end < length and (unicodedata.combining(source[end]) or not _FOLD_TABLE[ord(source[end])]):
            end += 1
        spans += [(start, end)] * len(_fold(source[start:end]))
        start = end
    # If folding composes characters, as in Korean, the spans are not known: use the whole text for each.
    return spans if len(spans) == len(folded) else [(0, length)] * len(folded)


# Escapes


def _replace_escape(escape: "re.Match[str]") -> str:
    """Return the decoded escape, or the escape unchanged if it is not valid."""
    decoded = _decode_escape(escape)
    return escape[0] if decoded is None else decoded


def _map_decoded_spans(text: str) -> list[Span]:
    """Return the span in the text of each character of its decoded reading."""
    spans: list[Span] = []
    position = 0
    for escape in _ESCAPES.finditer(text):
        decoded = _decode_escape(escape)
        if decoded is not None:
            start, end = escape.span()
            spans += [(index, index + 1) for index in range(position, start)]
            spans += [(start, end)] * len(decoded)
            position = end
    return [*spans, *((index, index + 1) for index in range(position, len(text)))]


def _decode_escape(escape: "re.Match[str]") -> str | None:
    if escape["base64"] is not None:
        return _decode_base64(escape["base64"])
    number = escape["braced"] or escape["four"] or escape["two"] or escape["percent"] or escape["hex"]
    value = int(number, 16) if number is not None else int(escape["decimal"])
    return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else None


def _decode_base64(encoded: str) -> str | None:
    """Return the text in base64, or None if it is something else, such as a long word."""
    plain = encoded.rstrip("=").translate(_STANDARD)
    try:
        text = base64.b64decode(plain + "=" * (-len(plain) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return text if text and "".join(text.split()).isprintable() else None
