"""Find what a text contains that has no plain reading, so that no pattern can be expected to match it.

Three things count: characters that Unicode does not define or that are an alphabet of their own, words that
mix Latin letters with letters of another script which look like no Latin letter, and words that look like an
encoding but are none that is decoded.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from placet.ports.detector import Scannable
from placet.relay.a2a.text_decoding import decode_base32, decode_base64_words, decode_hex
from placet.relay.a2a.text_folding import ORDINARY, Span, fold_text, map_folded_spans
from placet.relay.a2a.text_normalization import find_alternate_readings

UnreadableKind = Literal["UNKNOWN_CHARACTERS", "MIXED_SCRIPTS", "UNKNOWN_ENCODING"]
MIN_ENCODED_LENGTH = 24
"""A shorter word may be a name or an abbreviation."""
MIN_MIXED_LENGTH = 4
"""Shorter words with letters of two scripts are often units and formulas."""
MIN_CHANGES = 0.35
"""How often the class of a character differs from that of the one before it in encoded data, at least."""
MIN_DIGITS = 2
MIN_CHANGES_WITH_SIGNS, MIN_SHARE = 0.5, 0.08
_UNUSUAL = re.compile(
    "[^" + "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ORDINARY) + "]+"
)
_UNDEFINED = frozenset({"Cn", "Co"})
_BRAILLE = range(0x2801, 0x2900)
_WORD = re.compile(rf"[^\W\d_]{{{MIN_MIXED_LENGTH},}}")
_LATIN_LETTER = re.compile("[A-Za-z]")
_WRITTEN_TOGETHER = ("LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "IDEOGRAPHIC", "FEMININE", "MASCULINE")
"""First words of the names of letters that stand in one word with Latin letters."""
_ALPHANUMERIC_WORD = re.compile(rf"[0-9A-Za-z+/_-]{{{MIN_ENCODED_LENGTH},}}={{0,6}}")
_LONG_WORD = re.compile(rf"[!-~]{{{MIN_ENCODED_LENGTH},}}")
_ADDRESS = re.compile("[a-z]{2,12}://")
_HEXADECIMAL = re.compile("[0-9]*[a-fA-F][0-9a-fA-F]*")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_SIGN = "+"
_CLASS = {
    **dict.fromkeys(range(ord("0"), ord("9") + 1), "0"),
    **dict.fromkeys(range(ord("a"), ord("z") + 1), "a"),
    **dict.fromkeys(range(ord("A"), ord("Z") + 1), "A"),
}


class UnreadablePart(NamedTuple):
    """A part of a text without a plain reading."""

    start: int
    end: int
    kind: UnreadableKind


def find_unreadable(text: str) -> list[UnreadablePart]:
    """Return the parts of a text that cannot be read, in their order."""
    found = [UnreadablePart(start, end, "UNKNOWN_CHARACTERS") for start, end in _find_unknown(text)]
    folded = fold_text(text)
    parts: list[tuple[Span, UnreadableKind]] = [(span, "MIXED_SCRIPTS") for span in _find_mixed(folded)]
    parts += [(span, "UNKNOWN_ENCODING") for span in _find_encoded(folded) if not _is_decoded(folded, span)]
    if parts:
        spans = map_folded_spans(text, folded)
        found += [UnreadablePart(spans[start][0], spans[end - 1][1], kind) for (start, end), kind in parts]
    readings = find_alternate_readings([Scannable("", text)])
    if readings:
        last = readings[-1]
        encoded = [span for span in _find_encoded(last.text) if _is_decoded(last.text, span)]
        if encoded:  # it is encoded more often than texts are decoded
            spans = last.spans()
            found += [
                UnreadablePart(spans[start][0], spans[end - 1][1], "UNKNOWN_ENCODING")
                for start, end in encoded
            ]
    return sorted(set(found))


def _find_unknown(text: str) -> Iterator[Span]:
    for unusual in _UNUSUAL.finditer(text):
        start = unusual.start()
        unknown = [start + index for index, character in enumerate(unusual[0]) if _is_unknown(character)]
        if unknown:
            yield unknown[0], unknown[-1] + 1


def _is_unknown(character: str) -> bool:
    return ord(character) in _BRAILLE or unicodedata.category(character) in _UNDEFINED


def _find_mixed(text: str) -> Iterator[Span]:
    if text.isascii():
        return
    for word in _WORD.finditer(text):
        if not word[0].isascii() and _mixes_scripts(word[0]):
            yield word.span()


def _mixes_scripts(word: str) -> bool:
    return _LATIN_LETTER.search(word) is not None and any(map(_is_of_another_script, word))


def _is_of_another_script(character: str) -> bool:
    return not character.isascii() and not unicodedata.name(character, "").startswith(_WRITTEN_TOGETHER)


def _find_encoded(text: str) -> Iterator[Span]:
    """Yield the words that look like encoded data: the classes of their characters change as if by chance."""
    for word in _LONG_WORD.finditer(text):
        if _looks_encoded_with_signs(word[0]):
            yield word.span()
        else:
            for part in _ALPHANUMERIC_WORD.finditer(text, *word.span()):
                if _UUID.fullmatch(part[0]) is None and _looks_encoded(part[0]):
                    yield part.span()


def _looks_encoded(word: str) -> bool:
    """Return whether letters and digits of a word change as in base64 or hexadecimal data."""
    classes = [one for one in _classify(word) if one != _SIGN]
    if classes.count("0") < MIN_DIGITS:
        return False
    return _count_changes(classes) >= MIN_CHANGES * len(classes) or _HEXADECIMAL.fullmatch(word) is not None


def _looks_encoded_with_signs(word: str) -> bool:
    """Return whether a word looks like Ascii85 or uuencoded data, which have many signs."""
    classes = _classify(word)
    if _ADDRESS.match(word) or any(classes.count(one) < MIN_SHARE * len(word) for one in "0A+"):
        return False
    return _count_changes(classes) >= MIN_CHANGES_WITH_SIGNS * len(word)


def _classify(word: str) -> list[str]:
    return [_CLASS.get(ord(character), _SIGN) for character in word]


def _count_changes(classes: list[str]) -> int:
    return sum(before != after for before, after in pairwise(classes))


def _is_decoded(text: str, span: Span) -> bool:
    """Return whether a word is an encoding of nothing but text."""
    word = text[slice(*span)]
    for list_edits in (decode_base64_words, decode_base32, decode_hex):
        for start, end, decoded in list_edits(word):
            if end - start >= len(word.rstrip("=")) - 1 and "".join(decoded.split()).isprintable():
                return True
    return False
