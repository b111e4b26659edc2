"""Fold the characters of a text into a stated alphabet: ASCII, where Unicode says what they stand for.

What folds to ASCII: digits and Latin letters of every kind that Unicode names as such (full width,
mathematical, circled, squared, superscript, of other scripts, tags), dashes, spaces, slashes and colons, and
in a word with Latin letters or digits each character that Unicode's table of confusables lists for a letter
or digit. Hidden characters disappear, and combining marks that Unicode has no composed letter for.
"""

import re
import unicodedata
from typing import Any

import re2
from confusable_homoglyphs.confusables import confusables_data

from placet.text.characters import CONTROLS, is_hidden
from placet.text.lookalikes import LETTERS

Span = tuple[int, int]
"""Start and end of a part of a text."""


def compile_re2(pattern: str, *, captures: bool = False) -> Any:
    """Compile a pattern for RE2."""
    options = re2.Options()
    options.never_capture = not captures
    options.max_mem = 32 << 20
    return re2.compile(pattern, options)


# Characters that folding does not change wherever they are. The ranges cover most texts: Latin, Greek,
# Cyrillic, Chinese, Japanese and Korean letters, quotation marks, arrows and emoji.
ORDINARY = (
    *(
        (0x00, 0x7E),
        (0xC0, 0x131),
        (0x134, 0x13E),
        (0x141, 0x148),
        (0x14A, 0x17E),
        (0x1A0, 0x1A1),
        (0x1AF, 0x1B0),
    ),
    *((0x38E, 0x3A1), (0x3A3, 0x3CF), (0x400, 0x482), (0x48A, 0x52F), (0x2018, 0x201F), (0x2190, 0x2211)),
    *((0x2600, 0x2775), (0x2794, 0x2795), (0x3001, 0x3003), (0x3008, 0x3011), (0x3041, 0x3096)),
    *((0x30A1, 0x30FE), (0x3400, 0xA48C), (0xAC00, 0xD7A3), (0x1F300, 0x1F51E), (0x1F520, 0x1F6D7)),
    (0x1F900, 0x1FA53),
)
_LETTER_NAME = re.compile(
    r"(?:.* )?LATIN (?:(?P<case>CAPITAL|SMALL) )?LETTER (?P<small>SMALL CAPITAL )?(?P<letter>[A-Z])"
    r"|REGIONAL INDICATOR SYMBOL LETTER (?P<flag>[A-Z])|SQUARED LATIN (?:CAPITAL|SMALL) LETTER (?P<box>[A-Z])"
)
_VARIANT_NAME = re.compile(
    r"LATIN (?P<case>CAPITAL|SMALL) LETTER (?:(?:OPEN|REVERSED|REVERSED OPEN|TURNED|INSULAR|DOTLESS) )?"
    r"(?P<letter>[A-Z])(?: WITH .*)?"
)
_VARIANT_LETTERS = frozenset(
    (*range(0x180, 0x2B0), *range(0x1D6C, 0x1DC0), *range(0x2C60, 0x2C80), *range(0xA722, 0xA7D0))
)
"""Blocks with Latin letters that differ from ASCII by a hook or stroke, and that few languages need."""
_MORE_LOOKALIKES = {
    "ε": "e",
    "є": "e",
    "Є": "E",
    "է": "t",
    "т": "t",
    "ꭼ": "e",
    "ꭱ": "r",
    "ꭲ": "t",
    "ⲉ": "e",
    "ⲧ": "t",
}


def _is_ordinary(code: int) -> bool:
    return any(first <= code <= last for first, last in ORDINARY)


def _list_confusables() -> dict[int, str]:
    """Return the characters that Unicode's table of confusables lists for one ASCII letter or digit."""
    return {
        ord(character): one["c"]
        for character, others in confusables_data.items()
        for one in others
        if len(character) == len(one["c"]) == 1 and one["c"].isascii() and one["c"].isalnum()
    }


def _list_lookalikes() -> dict[int, str]:
    """Return the characters that are Latin letters or digits in a word with Latin letters or digits."""
    found = {
        code: letter
        for code, letter in _list_confusables().items()
        if unicodedata.category(chr(code))[0] == "L"
        or unicodedata.category(chr(code)) == "Nl"
        or (unicodedata.category(chr(code))[0] in "SP" and not _is_ordinary(code))
    }
    found |= {code: chr(letter) for code, letter in LETTERS.items() if chr(letter).isalpha()}
    found |= {ord(character): letter for character, letter in _MORE_LOOKALIKES.items()}
    return {code: letter for code, letter in found.items() if code >= 0x80}


_LATIN_LOOKALIKES = _list_lookalikes()
LOOKALIKES = "".join(re.escape(chr(code)) for code in _LATIN_LOOKALIKES)
"""Characters that are Latin letters or digits in a word with Latin letters or digits."""
_SYMBOL_LOOKALIKES = "".join(re.escape(one) for one in map(chr, _LATIN_LOOKALIKES) if not one.isalnum())
EQUAL_LETTERS = "".join(
    chr(code)
    for code, letter in LETTERS.items()
    if chr(code).isalpha() and chr(letter).isalpha() and chr(code) not in "ςкмтнКМНТВРОСУХ"
)
"""Letters that make a word Latin even if it has no Latin letter."""
# Signs that are a dash or a dot between two ASCII letters or digits, and something else elsewhere.
DASHES = "ー一㇐ㅡᅳ─━┄┅┈┉╌╍╴╶╸╺╼╾⎯⏤⎺⎻⎼⎽ˉˍ۔Ⲻⲻꞈ‿᭠⠤𝄖🭸"  # noqa: RUF001
DOTS = "。・·•‧∙⋅٫"  # noqa: RUF001
_BETWEEN_WORDS = {**{ord(sign): "-" for sign in DASHES}, **{ord(sign): "." for sign in DOTS}}
_TAG_CHARACTERS = range(0xE0020, 0xE007F)
"""Invisible counterparts of ASCII characters, which language models understand."""

CONTROL_CHARACTER = re.compile(f"(?!\r)[{CONTROLS}]")
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
_BETWEEN = re.compile(f"(?<=[0-9A-Za-z])[{DASHES}{DOTS}](?=[0-9A-Za-z])")
_LOOKALIKE = re.compile(f"[{LOOKALIKES}]")
MAY_BE_LATIN = (
    f"[0-9A-Za-z][{LOOKALIKES}]|[{LOOKALIKES}][0-9A-Za-z]"
    rf"|(?:^|[^\pL\pN])[{EQUAL_LETTERS}]{{4,}}(?:[^\pL\pN]|$)"
)
"""A pattern for RE2 that matches every text in which a lookalike may be a Latin letter or a digit."""
_may_be_latin: Any = compile_re2(MAY_BE_LATIN).search
_WORD = re.compile(rf"(?:[^\W_]|[{_SYMBOL_LOOKALIKES}])+")
_ASCII_WORD_CHARACTER = re.compile("[0-9A-Za-z]")
_WHOLE_WORD = re.compile(f"[{EQUAL_LETTERS}]{{4,}}")
"""A word that is read as Latin without Latin letters. Shorter ones are often words of their language."""
_KEYCAP_TEN = 0x1F51F
_SIGNS = {
    0xFFFC: "",
    0xFFFD: "",
    0x1680: "-",
    0xAF: "-",
    0x203E: "-",
    0x2044: "/",
    0x2215: "/",
    0x2236: ":",
    0xA789: ":",
    _KEYCAP_TEN: "10",
}


class _FoldTable(dict[int, str]):
    """Maps a code point to its folded characters."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_character(code)
        return folded


def _fold_character(code: int) -> str:
    character = chr(code)
    if code < 0x80:
        return "" if CONTROL_CHARACTER.match(character) else character
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
    if code in _VARIANT_LETTERS and (variant := _read_variant(character)) is not None:
        return variant
    if category[0] == "L" and 0xC0 <= code < 0x250:
        return character if unicodedata.normalize("NFKC", character) == character else _fold_compatible(code)
    name = unicodedata.name(character, "")
    if category[0] in "SL" and (letter := _LETTER_NAME.fullmatch(name)):
        plain = letter["letter"] or letter["flag"] or letter["box"]
        return plain.lower() if letter["case"] == "SMALL" or letter["small"] else plain
    if category[0] in "SP" and _DASH_NAME.match(name):
        return "-"
    return _fold_compatible(code)


def _read_variant(character: str) -> str | None:
    """Return the Latin letter of a variant such as `ƈ`, which has no decomposition; None for all others."""
    name = _VARIANT_NAME.fullmatch(unicodedata.name(character, ""))
    if name is None or unicodedata.decomposition(character):
        return None
    return name["letter"] if name["case"] == "CAPITAL" else name["letter"].lower()


def _fold_compatible(code: int) -> str:
    """Return the compatibility form of a character, folded."""
    compatible = unicodedata.normalize("NFKC", chr(code))
    if len(compatible) == 1 and ord(compatible) == code:
        return compatible
    return "".join(_FOLD_TABLE[ord(one)] for one in compatible)


_FOLD_TABLE = _FoldTable()


def fold_text(text: str) -> str:
    """Return the text in the alphabet."""
    if text.isascii():
        return text if CONTROL_CHARACTER.search(text) is None else text.translate(_FOLD_TABLE)
    folded = unicodedata.normalize("NFC", text.translate(_FOLD_TABLE))
    if folded.isascii():
        return folded
    if _MARK.search(folded) is not None:
        folded = _MARKED_LETTER.sub(_strip_letter, _MARKED_ASCII.sub("", folded))
    folded = _BETWEEN.sub(lambda sign: _BETWEEN_WORDS[ord(sign[0])], folded)
    if _may_be_latin(folded.encode("utf-8", "replace")) is None:
        return folded
    return _WORD.sub(_read_as_latin, folded)


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


def map_folded_spans(source: str, folded: str) -> list[Span]:
    """Return the span in the source of each folded character.

    Combining marks and hidden characters belong to the character before them, so that masking it removes
    them as well.
    """
    if folded == source:
        return [(index, index + 1) for index in range(len(source))]
    spans: list[Span] = []
    start, length = 0, len(source)
    while start < length:
        end = start + 1
        while end < length and (
            not _FOLD_TABLE[ord(source[end])] or unicodedata.category(source[end])[0] == "M"
        ):
            end += 1
        spans += [(start, end)] * len(fold_text(source[start:end]))
        start = end
    # If folding composes characters, as in Korean, the spans are not known: use the whole text for each.
    return spans if len(spans) == len(folded) else [(0, length)] * len(folded)
