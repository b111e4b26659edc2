r"""Find alternate readings of a text: in plain characters, decoded, and without what breaks words up.

A detector searches for exact characters. An agent or a person also understands full-width digits, keycaps,
`\u0035`, base64 and `5 3 6`. A reading is the text after one of these transformations, or after up to
`MAX_ROUNDS` rounds of all of them:

- fold: characters of the alphabet below become ASCII;
- decode: escapes, base64, base32 and character codes become the text that they stand for;
- compact: markup, spaces and line breaks inside a word or number are removed, letters that look like digits
  become digits inside a number, and text that is shown from right to left is read so.

What folds to ASCII: digits and Latin letters of every kind that Unicode names as such (full width,
mathematical, circled, squared, superscript, of other scripts, tags), letters of other scripts that look like
Latin letters in a word with Latin letters or digits, dashes, spaces, slashes and colons. Hidden characters
disappear, and combining marks that Unicode has no composed letter for.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html.entities import html5
from typing import Any, NamedTuple

import re2
from msgspec.structs import replace

from placet.ports.detector import Match, Scannable
from placet.text.characters import CONTROLS, is_hidden
from placet.text.lookalikes import LETTERS

MAX_ROUNDS = 3
"""How often all transformations are applied one after the other, for base64 within base64 and the like."""

_OVERRIDE = "\u202e"
"""From here on, text is shown from right to left."""

Span = tuple[int, int]
Edit = tuple[int, int, str]
"""Start, end and replacement of a part of a text."""
NO_PIECE = -1

# Characters that folding does not change wherever they are. The ranges cover most texts: Latin, Greek,
# Cyrillic, Chinese, Japanese and Korean letters, quotation marks, arrows and emoji.
ORDINARY = (
    *((0x00, 0x7E), (0xC0, 0x131), (0x134, 0x13E), (0x141, 0x148), (0x14A, 0x17E), (0x180, 0x1C3)),
    *((0x38E, 0x3A1), (0x3A3, 0x3CF), (0x400, 0x482), (0x48A, 0x52F), (0x2018, 0x201F), (0x2190, 0x2211)),
    *((0x2600, 0x2775), (0x2794, 0x2795), (0x3001, 0x3003), (0x3008, 0x3011), (0x3041, 0x3096)),
    *((0x30A1, 0x30FE), (0x3400, 0xA48C), (0xAC00, 0xD7A3), (0x1F300, 0x1F51E), (0x1F520, 0x1F6D7)),
    (0x1F900, 0x1FA53),
)
_LOOKALIKE_LETTERS = "".join(
    chr(code) for code, letter in LETTERS.items() if chr(code).isalpha() and chr(letter).isalpha()
)
_EQUAL_LETTERS = "".join(letter for letter in _LOOKALIKE_LETTERS if letter not in "ςкмтнКМНТВРОСУХ")
_LATIN_LOOKALIKES = {ord(letter): chr(LETTERS[ord(letter)]) for letter in _LOOKALIKE_LETTERS}
# Signs that are a dash or a dot between two ASCII letters or digits, and something else elsewhere.
_DASHES = "ー一㇐ㅡᅳ─━┄┅┈┉╌╍╴╶╸╺╼╾⎯⏤⎺⎻⎼⎽ˉˍ۔Ⲻ"  # noqa: RUF001
_DOTS = "。・·•‧∙⋅٫"  # noqa: RUF001
_BETWEEN_WORDS = {**{ord(sign): "-" for sign in _DASHES}, **{ord(sign): "." for sign in _DOTS}}
_TAG_CHARACTERS = range(0xE0020, 0xE007F)
"""Invisible counterparts of ASCII characters, which language models understand."""

# One byte of base64 or hexadecimal text in ASCII. Three quads or eight pairs of such bytes are hardly ever
# chance: the first character of a quad is one of 31, and so on.
_QUAD = ("[ACDI-Za-f]", "[AC-HQS-Xgi-nwyz0-3]", "[ABEFIJMNQRUVYZcdghklopstwx014589]", "[A-Za-z0-9+/_-]")
_BASE64_GAP = "[^A-Za-z0-9+/=_-]{0,3}"
_MIN_QUADS = 3
_HEX_GAP = r"(?:0x|[\s,;:|_-]){0,4}"
_HEX_PAIR = "[2-7][0-9A-Fa-f]"
_CODE = "(?:3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6])"
_BINARY = "0[01]{7}"
_MIN_CODES = 8
_CODES = (
    rf"(?:{_HEX_PAIR}{_HEX_GAP}){{{_MIN_CODES},}}"
    rf"|(?:{_CODE}[\s,;:|.]{{1,2}}){{{_MIN_CODES},}}"
    rf"|(?:{_BINARY}[\s,;:|_-]{{0,2}}){{{_MIN_CODES},}}"
    r"|[A-Z2-7]{16,}"
)
_ENCODED = (
    r"%[0-9A-Fa-f]{2}|&#|&[A-Za-z][A-Za-z0-9]{1,31};|(?i:;base64,)|[A-Za-z0-9+/]{21}|[A-Za-z0-9+/_-]{37}"
    r"|[A-Za-z0-9+/_-]{7}=|=[2-7][0-9A-Fa-f]|=\r?\n|\\|U\+[0-9A-Fa-f]{4}"
)
_SINGLE = "[0-9A-Za-z-]"
_SINGLE_GAP = r"[\s.,_|/]{1,3}"
_MIN_SINGLES = 6
_BROKEN = (
    rf"[0-9A-Za-z-](?:[*`]{{1,3}}|~~|__|\|\|)[0-9A-Za-z-]|[0-9A-Za-z-]<[!/A-Za-z]"
    rf"|[0-9]\s+-\s*[0-9]|[0-9]-\s+[0-9]|[0-9-][ \t]*[\r\n]\s*[0-9-]"
    rf"|(?:{_SINGLE}{_SINGLE_GAP}){{{_MIN_SINGLES - 1}}}{_SINGLE}"
    r"|[0-9][OoIl]{1,3}[0-9-]|[0-9]-[OoIl]{1,3}[0-9]"
)
_SPACED_BASE64 = "".join(f"{part}{_BASE64_GAP}" for part in _QUAD * _MIN_QUADS)


def _list_ranges(ranges: Iterable[Span]) -> str:
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)


_UNUSUAL_CHARACTER = (
    f"[^{_list_ranges(ORDINARY)}]"
    f"|[0-9A-Za-z][{_LOOKALIKE_LETTERS}]|[{_LOOKALIKE_LETTERS}][0-9A-Za-z]"
    rf"|(?:^|[^\pL\pN])[{_EQUAL_LETTERS}]{{4,}}(?:[^\pL\pN]|$)"
    f"|[0-9A-Za-z][{_DASHES}{_DOTS}][0-9A-Za-z]"
)


def compile_re2(pattern: str, *, captures: bool = False) -> Any:
    """Compile a pattern for RE2."""
    options = re2.Options()
    options.never_capture = not captures
    options.max_mem = 32 << 20
    return re2.compile(pattern, options)


ALTERNATE_READING = f"{_ENCODED}|{_CODES}|{_BROKEN}|{_SPACED_BASE64}|{_UNUSUAL_CHARACTER}"
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
        folded = _map_folded_spans(self.changed, self.result)
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
    return _alternate_search.search(encoded) is not None or _CONTROL.search(text) is not None


def normalize_text(text: str) -> str | None:
    """Return the last alternate reading of a text, or None if it has none."""
    readings = find_alternate_readings([Scannable("", text)])
    return readings[-1].text if readings else None


def _find_readings(index: int, text: str) -> list[AlternateReading]:
    readings: dict[str, AlternateReading] = {}
    folded = _fold(text)
    fold: tuple[_Step, ...] = () if folded == text else (_Step(text, None, text, folded),)
    if fold:
        readings[folded] = AlternateReading(index, folded, fold)
    starts = [(folded, fold)]
    if (reversal := _take_step(text, _OVERRIDES)) is not None:
        starts.append((reversal.result, (reversal,)))
        readings[reversal.result] = AlternateReading(index, reversal.result, (reversal,))
    for start in starts:
        current = start
        for _ in range(MAX_ROUNDS):
            following = _run_round(index, *current, readings)
            if following[1] is current[1]:
                break
            current = following
    readings.pop(text, None)
    return list(readings.values())


def _run_round(
    index: int, base: str, steps: "tuple[_Step, ...]", readings: dict[str, AlternateReading]
) -> "tuple[str, tuple[_Step, ...]]":
    """Add the readings after each transformation alone and after all of them, and return the last one."""
    result, taken = base, steps
    for transformation in _TRANSFORMATIONS:
        alone = _take_step(base, transformation)
        if alone is not None:
            readings.setdefault(alone.result, AlternateReading(index, alone.result, (*steps, alone)))
        further = alone if result is base else _take_step(result, transformation)
        if further is not None:
            result, taken = further.result, (*taken, further)
    if taken is not steps:
        readings.setdefault(result, AlternateReading(index, result, taken))
    return result, taken


def _take_step(text: str, transformation: "_Transformation") -> _Step | None:
    """Return the transformation of a text, or None if it changes nothing or nothing is left."""
    if not transformation.applies(text.encode("utf-8", "replace")):
        return None
    changed = _apply(text, transformation.list_edits(text))
    if changed is None or not (result := _fold(changed)) or result == text:
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


# Folding

_CONTROL = re.compile(f"(?!\r)[{CONTROLS}]")
_LETTER_NAME = re.compile(
    r"(?:.* )?LATIN (?:(?P<case>CAPITAL|SMALL) )?LETTER (?P<small>SMALL CAPITAL )?(?P<letter>[A-Z])"
    r"|REGIONAL INDICATOR SYMBOL LETTER (?P<flag>[A-Z])|SQUARED LATIN (?:CAPITAL|SMALL) LETTER (?P<box>[A-Z])"
)
_DASH_NAME = re.compile(r"(?!.*\bPLUS\b).*\b(?:MINUS|HYPHEN|DASH)\b")
_MARK_BLOCKS = ((0x300, 0x30FF), (0xA600, 0xABFF), (0xFE20, 0xFE2F))
_MARKS = "".join(
    chr(code)
    for first, last in _MARK_BLOCKS
    for code in range(first, last + 1)
    if unicodedata.category(chr(code))[0] == "M"
)
_MARK = re.compile(f"[{_MARKS}]")
_MARKED_ASCII = re.compile(f"(?<=[!-~])[{_MARKS}]+")
_MARKED_LETTER = re.compile(
    r"([^\x00-\x7f])[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
_BETWEEN = re.compile(f"(?<=[0-9A-Za-z])[{_DASHES}{_DOTS}](?=[0-9A-Za-z])")
_LOOKALIKE = re.compile(f"[{_LOOKALIKE_LETTERS}]")
_MAY_BE_LATIN = re.compile(
    f"[0-9A-Za-z][{_LOOKALIKE_LETTERS}]|[{_LOOKALIKE_LETTERS}][0-9A-Za-z]"
    rf"|(?<![^\W_])[{_EQUAL_LETTERS}]{{4,}}(?![^\W_])"
)
_WORD = re.compile(r"[^\W_]+")
_ASCII_WORD_CHARACTER = re.compile("[0-9A-Za-z]")
_WHOLE_WORD = re.compile(f"[{_EQUAL_LETTERS}]{{4,}}")
"""A word that is read as Latin without Latin letters. Shorter ones are often words of their language."""
_KEYCAP_TEN = 0x1F51F
_SIGNS = {0xAF: "-", 0x203E: "-", 0x2044: "/", 0x2215: "/", 0x2236: ":", 0xA789: ":", _KEYCAP_TEN: "10"}


class _FoldTable(dict[int, str]):
    """Maps a code point to its folded characters."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_character(code)
        return folded


def _fold_character(code: int) -> str:
    character = chr(code)
    if code < 0x80:
        return "" if _CONTROL.match(character) else character
    if code in _TAG_CHARACTERS:
        return chr(code - 0xE0000)
    if code in _SIGNS:
        return _SIGNS[code]
    category = unicodedata.category(character)
    if is_hidden(character) or category in ("Cf", "Me"):  # visible format characters and enclosing marks too
        return ""
    number = unicodedata.numeric(character, None) if category in ("Nd", "No") else None
    if number is not None and number == int(number) and number < 100:
        return str(int(number))
    if category == "Pd":
        return "-"
    if category == "Zs":
        return " "
    if category[0] == "L" and 0xC0 <= code < 0x250:
        return character if unicodedata.normalize("NFKC", character) == character else _fold_compatible(code)
    name = unicodedata.name(character, "")
    if category[0] in "SL" and (letter := _LETTER_NAME.fullmatch(name)):
        plain = letter["letter"] or letter["flag"] or letter["box"]
        return plain.lower() if letter["case"] == "SMALL" or letter["small"] else plain
    if category[0] in "SP" and _DASH_NAME.match(name):
        return "-"
    return _fold_compatible(code)


def _fold_compatible(code: int) -> str:
    """Return the compatibility form of a character, folded."""
    compatible = unicodedata.normalize("NFKC", chr(code))
    if len(compatible) == 1 and ord(compatible) == code:
        return compatible
    return "".join(_FOLD_TABLE[ord(one)] for one in compatible)


_FOLD_TABLE = _FoldTable()


def _fold(text: str) -> str:
    if text.isascii():
        return text if _CONTROL.search(text) is None else text.translate(_FOLD_TABLE)
    folded = unicodedata.normalize("NFC", text.translate(_FOLD_TABLE))
    if folded.isascii():
        return folded
    if _MARK.search(folded) is not None:
        folded = _MARKED_LETTER.sub(_strip_letter, _MARKED_ASCII.sub("", folded))
    folded = _BETWEEN.sub(lambda sign: _BETWEEN_WORDS[ord(sign[0])], folded)
    return folded if _MAY_BE_LATIN.search(folded) is None else _WORD.sub(_read_as_latin, folded)


def _strip_letter(marked: "re.Match[str]") -> str:
    base = unicodedata.normalize("NFD", marked[1])[0]
    return base if base.isascii() else marked[1]


def _read_as_latin(word: "re.Match[str]") -> str:
    """Return a word with lookalikes as Latin letters, if it is partly Latin or could be wholly Latin."""
    text = word[0]
    if text.isascii() or _LOOKALIKE.search(text) is None:
        return text
    if _ASCII_WORD_CHARACTER.search(text) is None and _WHOLE_WORD.fullmatch(text) is None:
        return text
    return text.translate(_LATIN_LOOKALIKES)


def _map_folded_spans(source: str, folded: str) -> list[Span]:
    """Return the span in the source of each folded character.

    Combining marks and hidden characters belong to the character before them, so that masking it removes
    them as well.
    """
    spans: list[Span] = []
    start, length = 0, len(source)
    while start < length:
        end = start + 1
        while end < length and (
            not _FOLD_TABLE[ord(source[end])] or unicodedata.category(source[end])[0] == "M"
        ):
            end += 1
        spans += [(start, end)] * len(_fold(source[start:end]))
        start = end
    # If folding composes characters, as in Korean, the spans are not known: use the whole text for each.
    return spans if len(spans) == len(folded) else [(0, length)] * len(folded)


# Decoding

_BYTES = (
    r"(?:%[0-9A-Fa-f]{2})+|(?:=[0-9A-Fa-f]{2}|=\r?\n)+"
    r"|(?<!\\)(?:\\++x[0-9A-Fa-f]{2})+|(?<!\\)(?:\\++[0-3][0-7]{2})+"
)
_ESCAPES = re.compile(
    rf"(?P<bytes>{_BYTES})"
    r"|(?<!\\)(?P<units>(?:\\++u[0-9A-Fa-f]{4})+)"
    r"|(?<!\\)\\++(?:u\{(?P<braced>[0-9A-Fa-f]{1,6})\}|x\{(?P<perl>[0-9A-Fa-f]{1,6})\}|U(?P<eight>[0-9A-Fa-f]{8}))"
    r"|U\+(?P<plus>[0-9A-Fa-f]{4,6})(?![0-9A-Fa-f])"
    r"|(?<!\\)\\++N\{(?P<name>[A-Z0-9 -]{2,80})\}"
    r"|(?<!\\)\\++(?P<sign>[!-/:-@\[\]^_`{|}~])"
    r"|&\#(?:[xX](?P<hex>[0-9A-Fa-f]{1,6})|(?P<decimal>[0-9]{1,7}));?"
    r"|&(?P<entity>[A-Za-z][A-Za-z0-9]{1,31};)"
    r"|(?P<base64>[A-Za-z0-9+/_-]{21,}={0,2}|[A-Za-z0-9+/_-]{7,20}={1,2})"
)
_ESCAPED_BYTE = re.compile(r"[%=]([0-9A-Fa-f]{2})|\\x([0-9A-Fa-f]{2})|\\([0-3][0-7]{2})")
_STANDARD = str.maketrans("-_", "+/")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/_-]")
_QUADS = re.compile(f"(?:{''.join(_QUAD)}){{{_MIN_QUADS},}}")
_LOWERCASE = re.compile("[a-z]+")
_HEX_RUN = re.compile(rf"(?:{_HEX_PAIR}{_HEX_GAP}){{{_MIN_CODES - 1},}}{_HEX_PAIR}")
_CODE_RUN = re.compile(
    rf"(?<![0-9])(?P<decimal>(?:{_CODE}[\s,;:|.]{{1,2}}){{{_MIN_CODES - 1},}}{_CODE})(?![0-9])"
    rf"|(?<![0-9])(?P<binary>(?:{_BINARY}[\s,;:|_-]{{0,2}}){{{_MIN_CODES},}})"
    r"|(?<![0-9A-Za-z])(?P<base32>[A-Z2-7]{16,}={0,6})(?![0-9A-Za-z])"
)
_HEX_DIGITS = re.compile(_HEX_PAIR)


def _decode_escapes(text: str) -> Iterator[Edit]:
    for escape in _ESCAPES.finditer(text):
        decoded = _decode_escape(escape)
        if decoded is not None:
            yield (*escape.span(), decoded)


def _decode_escape(escape: "re.Match[str]") -> str | None:
    """Return the decoded escape, or None if it is not valid."""
    kind = escape.lastgroup
    content = escape[kind] if kind is not None else ""
    if kind == "bytes":
        return _decode_bytes(content)
    if kind == "units":
        units = b"".join(
            int(unit[-4:], 16).to_bytes(2, "big") for unit in re.findall(r"u[0-9A-Fa-f]{4}", content)
        )
        return units.decode("utf-16-be", "replace")
    if kind == "base64":
        return _decode_base64(content)
    if kind == "sign":
        return content
    if kind == "entity":
        return html5.get(content)
    if kind == "name":
        try:
            return unicodedata.lookup(content)
        except KeyError:
            return None
    value = int(content, 10 if kind == "decimal" else 16)
    return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else None


def _decode_bytes(escaped: str) -> str | None:
    """Return the text of escaped bytes. For quoted-printable, it must be printable: `a=12` is no escape."""
    content = bytes(
        int(one or two, 16) if one or two else int(three, 8) & 0xFF
        for one, two, three in _ESCAPED_BYTE.findall(escaped)
    )
    try:
        text = content.decode()
    except ValueError:
        text = content.decode("latin-1")
    return text if escaped[0] != "=" or "".join(text.split()).isprintable() else None


def _decode_base64(encoded: str) -> str | None:
    """Return the text in base64, or None if it is something else, such as a long word."""
    plain = encoded.rstrip("=").translate(_STANDARD)
    try:
        text = base64.b64decode(plain + "=" * (-len(plain) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return text if text and "".join(text.split()).isprintable() else None


def _decode_spaced_base64(text: str) -> Iterator[Edit]:
    """Yield texts in base64 that is short, broken up by other characters, or surrounded by binary data."""
    plain = _NOT_BASE64.sub("", text)
    places: list[int] | None = None
    end = 0
    for quads in _QUADS.finditer(plain):
        if _LOWERCASE.fullmatch(quads[0]) or quads.start() < end:
            continue
        if places is None:
            places = [index for index, sign in enumerate(text) if not _NOT_BASE64.match(sign)]
        start = quads.start()
        if start >= end + 4 and places[start] - places[start - 4] == 4:
            start -= 4  # these bytes may be partly text
        end = quads.end()
        is_broken_up = places[end - 1] - places[start] >= end - start
        while end < min(len(plain), quads.end() + 4) and (is_broken_up or places[end] - places[end - 1] == 1):
            end += 1
        encoded = plain[start:end].translate(_STANDARD)
        encoded = encoded[: len(encoded) - (len(encoded) % 4 == 1)]
        content = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
        yield places[start], places[start + len(encoded) - 1] + 1, _show_bytes(content)


def _decode_hex(text: str) -> Iterator[Edit]:
    for run in _HEX_RUN.finditer(text):
        pairs = _HEX_DIGITS.findall(run[0].replace("0x", " "))
        yield (*run.span(), bytes.fromhex("".join(pairs)).decode("ascii"))


def _decode_codes(text: str) -> Iterator[Edit]:
    for codes in _CODE_RUN.finditer(text):
        kind, content = codes.lastgroup, codes[0]
        if kind == "base32":
            decoded = _decode_base32(content)
        else:
            base = 2 if kind == "binary" else 10
            numbers = re.findall("[01]{8}" if base == 2 else "[0-9]+", content)
            decoded = "".join(chr(int(number, base)) for number in numbers)
        if decoded:
            yield (*codes.span(), decoded)


def _decode_base32(encoded: str) -> str:
    plain = encoded.rstrip("=")
    try:
        content = base64.b32decode(plain + "=" * (-len(plain) % 8))
    except binascii.Error:
        return ""
    return content.decode("ascii", "replace") if content.isascii() else ""


def _show_bytes(content: bytes) -> str:
    """Return bytes as text, without NUL (as in UTF-16), and with a space for what is no text."""
    content = content.replace(b"\0", b"")
    try:
        text = content.decode()
    except ValueError:
        text = content.decode("latin-1")
    return "".join(sign if sign.isprintable() or sign in "\r\n\t" else " " for sign in text)


# Compacting

_MARKUP = r"(?:<!--.{0,200}?-->|</?[A-Za-z][^<>]{0,200}>|\*{1,3}|`{1,3}|~~|__|\|\|)+"
_BREAKS = re.compile(
    rf"(?<=\S){_MARKUP}(?=\S)"
    r"|(?<=[0-9])(?P<dash>\s+-\s*|-\s+)(?=[0-9])"
    r"|(?<=[0-9-])[ \t]*[\r\n]\s*(?=[0-9-])"
    rf"|(?<![0-9A-Za-z])(?P<singles>(?:{_SINGLE}{_SINGLE_GAP}){{{_MIN_SINGLES - 1},}}{_SINGLE})"
    r"(?![0-9A-Za-z])"
    r"|(?P<digits>(?<=[0-9])[OoIl]{1,3}(?=[0-9-])|(?<=[0-9]-)[OoIl]{1,3}(?=[0-9]))",
    re.DOTALL,
)
_LOOKALIKE_DIGITS = str.maketrans("OoIl", "0011")
_GAPS = re.compile(_SINGLE_GAP)
_OVERRIDDEN = re.compile(f"{_OVERRIDE}([^\u202c\n]+)")


def _drop_breaks(text: str) -> Iterator[Edit]:
    """Yield what breaks up a word or number: markup, line breaks, and spaces between single characters."""
    for found in _BREAKS.finditer(text):
        start, end = found.span()
        if found["dash"] is not None:
            yield start, end, "-"
        elif found["singles"] is not None:
            for gap in _GAPS.finditer(text, start, end):
                yield (*gap.span(), "")
        elif found["digits"] is not None:
            yield start, end, found["digits"].translate(_LOOKALIKE_DIGITS)
        else:
            yield start, end, ""


def _reverse_overrides(text: str) -> Iterator[Edit]:
    """Yield what is shown from right to left, in the order in which it is shown."""
    for found in _OVERRIDDEN.finditer(text):
        yield (*found.span(), found[1][::-1])


class _Transformation(NamedTuple):
    """A transformation, and a quick search for what it may change."""

    applies: Callable[[bytes], Any]
    list_edits: Callable[[str], Iterator[Edit]]


_OVERRIDES = _Transformation(compile_re2(_OVERRIDE).search, _reverse_overrides)
_TRANSFORMATIONS = (
    _Transformation(compile_re2(_ENCODED).search, _decode_escapes),
    _Transformation(compile_re2(_SPACED_BASE64).search, _decode_spaced_base64),
    _Transformation(compile_re2(_CODES).search, _decode_hex),
    _Transformation(compile_re2(_CODES).search, _decode_codes),
    _Transformation(compile_re2(_BROKEN).search, _drop_breaks),
)


# Growing texts

MAX_OPEN_LENGTH = 240
"""The maximum length of the beginning of a form."""
_OPEN_FORM = re.compile(
    rf"(?:{''.join(f'{part}{_BASE64_GAP}' for part in _QUAD)})*"
    rf"(?:{_QUAD[0]}{_BASE64_GAP}(?:{_QUAD[1]}{_BASE64_GAP}(?:{_QUAD[2]}{_BASE64_GAP})?)?)?\Z"
    rf"|(?:0x)?(?:{_HEX_PAIR}{_HEX_GAP})*(?:[2-7]|0x?)?\Z"
    rf"|(?:{_CODE}[\s,;:|.]{{1,2}})*[0-9]{{0,3}}\Z|(?:{_BINARY}[\s,;:|_-]{{0,2}})*[01]{{0,8}}\Z|[A-Z2-7]+\Z"
    rf"|(?:{_SINGLE}{_SINGLE_GAP})+{_SINGLE}?\Z"
    rf"|[0-9A-Za-z-]*[0-9-]\s*-?\s*\Z"
    rf"|[0-9A-Za-z-]+(?:<[!/A-Za-z][^<>]{{0,200}}|<!--.{{0,200}}|<|[*`~_|]{{1,3}}|>)+\Z"
    rf"|{_OVERRIDE}[^\u202c\n]*\Z",
    re.DOTALL,
)


def find_open_form(text: str) -> int:
    """Return where the end of a text begins that further text may turn into something with another reading.

    An encoding or a spaced word is only recognised from a certain length.
    """
    tail = max(0, len(text) - MAX_OPEN_LENGTH)
    override = text.rfind(_OVERRIDE)
    if override >= 0 and not text[override:].count("\u202c"):
        return override
    found = _OPEN_FORM.search(text, tail)
    return len(text) if found is None else found.start()


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
