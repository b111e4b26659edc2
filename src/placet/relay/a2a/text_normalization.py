"""How else a text may be read: without what nobody sees, in plain letters, with codes resolved.

A detector looks for what it knows how to spell. An agent, or a person, reads full-width digits, digits with
something invisible between them, and digits written as codes in JSON as the number that they are.
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

_CODED = (
    r"%[0-9A-Fa-f]{2}|&#|(?i:;base64,)|[A-Za-z0-9+/]{21}|[A-Za-z0-9+/_-]{37}|[A-Za-z0-9+/_-]{7}="
    r"|\\(?:u(?:\{|[0-9A-Fa-f]{4})|x[0-9A-Fa-f]{2})"
)
# Most of what people write, of which each character reads as itself: in Latin, Greek, Cyrillic, Chinese,
# Japanese and Korean letters, with quotation marks, arrows and pictures.
ORDINARY = (
    *((0x00, 0x7E), (0xC0, 0x131), (0x134, 0x13E), (0x141, 0x148), (0x14A, 0x17E), (0x180, 0x1C3)),
    *((0x38E, 0x3A1), (0x3A3, 0x3CF), (0x400, 0x482), (0x48A, 0x52F), (0x2018, 0x201F), (0x2190, 0x2211)),
    *((0x2600, 0x2795), (0x3001, 0x3003), (0x3008, 0x3011), (0x3041, 0x3096), (0x30A1, 0x30FE)),
    *((0x3400, 0xA48C), (0xAC00, 0xD7A3), (0x1F300, 0x1F6D7), (0x1F900, 0x1FA53)),
)
_UNUSUAL_CHARACTER = "[^{}]".format("".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ORDINARY))
_CONTROLS = re.compile(f"(?!\r)[{CONTROLS}]")
_CODES = re.compile(
    r"(?<!\\)\\+u\{(?P<braced>[0-9A-Fa-f]{1,6})\}"
    r"|(?<!\\)\\+(?:u(?P<four>[0-9A-Fa-f]{4})|x(?P<two>[0-9A-Fa-f]{2}))"
    r"|%(?P<percent>[0-9A-Fa-f]{2})"
    r"|&\#(?:[xX](?P<hex>[0-9A-Fa-f]{1,6})|(?P<decimal>[0-9]{1,7}));?"
    r"|(?P<base64>[A-Za-z0-9+/_-]{21,}={0,2}|[A-Za-z0-9+/_-]{7,20}={1,2})"
)
_STANDARD = str.maketrans("-_", "+/")
_MINUS = frozenset({0x2212, 0x2043, 0x2796})
_TAG_CHARACTERS = range(0xE0020, 0xE007F)
"""Invisible twins of ASCII, which language models read."""

Span = tuple[int, int]
NO_PIECE = -1


def _compile_re2(pattern: str) -> Any:
    options = re2.Options()
    options.never_capture = True
    return re2.compile(pattern, options)


_coded_search, _alternate_search = _compile_re2(_CODED), _compile_re2(f"{_CODED}|{_UNUSUAL_CHARACTER}")


class _FoldTable(dict[int, str]):
    """By its number, what a character is read as."""

    def __missing__(self, code: int) -> str:
        self[code] = read = _fold_character(code)
        return read


class AlternateReading(NamedTuple):
    """An alternate reading of a text: folded characters, or decoded escapes and base64."""

    piece: int
    text: str
    decoded: str

    def spans(self, source: str) -> list[Span]:
        """For each of its characters, where in the source that stands."""
        folded = _map_folded_spans(self.decoded, self.text)
        if self.decoded == source:
            return folded
        resolved = _map_resolved_spans(source)
        return [(resolved[start][0], resolved[end - 1][1]) for start, end in folded]


def has_single_reading(encoded: bytes) -> bool:
    """Whether no text in this JSON, which has no escapes, has any other reading."""
    return _alternate_search.search(encoded) is None


def find_alternate_readings(pieces: Sequence[Scannable]) -> list[AlternateReading]:
    """Every other reading of every text; of nearly all texts there is none."""
    found: list[AlternateReading] = []
    for number, piece in enumerate(pieces):
        text = piece.text
        folded = _fold(text)
        if folded != text:
            found.append(AlternateReading(number, folded, text))
        if _coded_search.search(text.encode("utf-8", "replace")) is not None:
            resolved = _CODES.sub(_resolve_code, text)
            if resolved != text:
                found.append(AlternateReading(number, _fold(resolved), resolved))
    return found


def normalize_text(text: str) -> str | None:
    """How a text reads whose signs do not show it; None if it reads as it stands there."""
    found = find_alternate_readings([Scannable("", text)])
    return found[-1].text if found else None


class ScanTexts(NamedTuple):
    """The texts a detector scans, and which of them are readings of other texts."""

    texts: Sequence[Scannable]
    others: Mapping[int, AlternateReading]


def append_readings(pieces: Sequence[Scannable], found: Sequence[AlternateReading]) -> ScanTexts:
    """The texts, and after them their other readings."""
    more = [Scannable(pieces[one.piece].path, one.text) for one in found]
    return ScanTexts([*pieces, *more], dict(enumerate(found, len(pieces))))


def substitute_readings(pieces: Sequence[Scannable], found: Sequence[AlternateReading]) -> ScanTexts:
    """The texts in plain characters, and after them those with codes resolved: nothing is there twice.

    For detectors that take long, and look for nothing that is unseen.
    """
    plain = {one.piece: one for one in found if one.decoded == pieces[one.piece].text}
    texts = [
        Scannable(piece.path, plain[number].text if number in plain else piece.text)
        for number, piece in enumerate(pieces)
    ]
    resolved = append_readings(texts, [one for one in found if plain.get(one.piece) is not one])
    return ScanTexts(resolved.texts, {**plain, **resolved.others})


def map_matches_to_source(
    matches: Sequence[Match], pieces: Sequence[Scannable], scanned: ScanTexts
) -> list[Match]:
    """What was found in the texts and in their other readings, in the texts alone.

    A place that does not exist is one that no text has: who reads this knows that it is none.
    """
    told: dict[tuple[int, int, int, int, str], Match] = {}
    spans: dict[int, list[Span]] = {}
    for found in matches:
        match, other = found, scanned.others.get(found.piece)
        if other is not None:
            if found.piece not in spans:
                spans[found.piece] = other.spans(pieces[other.piece].text)
            match = _map_match(found, other, spans[found.piece])
        key = (match.rule, match.piece, match.start, match.end, match.entity)
        if key not in told or told[key].score < match.score:
            told[key] = match
    return list(told.values())


def _map_match(match: Match, other: AlternateReading, spans: Sequence[Span]) -> Match:
    if not 0 <= match.start <= match.end <= len(spans):
        return replace(match, piece=NO_PIECE)
    start, end = 0, 0  # somewhere in all of it
    if match.start < match.end:
        start, end = spans[match.start][0], spans[match.end - 1][1]
    return replace(match, piece=other.piece, start=start, end=end)


# Characters


def _fold_character(code: int) -> str:
    character = chr(code)
    if code < 0x80:
        return "" if _CONTROLS.match(character) else character
    if code in _TAG_CHARACTERS:
        return chr(code - 0xE0000)
    kind = unicodedata.category(character)
    if is_hidden(character) or kind == "Cf":  # also the format characters that are drawn as a sign
        return ""
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    if kind == "Pd" or code in _MINUS:
        return "-"
    return " " if kind == "Zs" else unicodedata.normalize("NFKC", character)


_FOLD_TABLE = _FoldTable()


def _fold(text: str) -> str:
    if text.isascii() and _CONTROLS.search(text) is None:
        return text
    return unicodedata.normalize("NFC", text.translate(_FOLD_TABLE))


def _map_folded_spans(source: str, folded: str) -> list[Span]:
    """Marks and what is unseen belong to the character before them; so a mask leaves none of them."""
    spans: list[Span] = []
    place, length = 0, len(source)
    while place < length:
        end = place + 1
        while end < length and (unicodedata.combining(source[end]) or not _FOLD_TABLE[ord(source[end])]):
            end += 1
        spans += [(place, end)] * len(_fold(source[place:end]))
        place = end
    # Letters that are made of letters, as in Korean, are not told apart: it is somewhere in all of it.
    return spans if len(spans) == len(folded) else [(0, length)] * len(folded)


# Codes


def _resolve_code(code: "re.Match[str]") -> str:
    """A code as it is read; one that says nothing stays as it is."""
    word = _decode_code(code)
    return code[0] if word is None else word


def _map_resolved_spans(text: str) -> list[Span]:
    spans: list[Span] = []
    place = 0
    for code in _CODES.finditer(text):
        word = _decode_code(code)
        if word is not None:
            start, end = code.span()
            spans += [(one, one + 1) for one in range(place, start)]
            spans += [(start, end)] * len(word)
            place = end
    return [*spans, *((one, one + 1) for one in range(place, len(text)))]


def _decode_code(code: "re.Match[str]") -> str | None:
    if code["base64"] is not None:
        return _decode_base64(code["base64"])
    number = code["braced"] or code["four"] or code["two"] or code["percent"] or code["hex"]
    value = int(number, 16) if number is not None else int(code["decimal"])
    return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else None


def _decode_base64(packed: str) -> str | None:
    """The text in base64; None for anything else that only looks like it, as long words do."""
    plain = packed.rstrip("=").translate(_STANDARD)
    try:
        text = base64.b64decode(plain + "=" * (-len(plain) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return text if text and "".join(text.split()).isprintable() else None
