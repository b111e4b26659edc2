"""Characters that hide, reorder or pretend: shown as marks, so that what a person reads is what is there."""

import re

OPEN, CLOSE = "\u27e6", "\u27e7"

# Control characters, fillers, bidirectional and other format characters, private use, noncharacters.
_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
    "]"
)
_JOINERS = "\u200c\u200d"
_EMOJI_STYLE = "\ufe0e\ufe0f"


def visible(text: object) -> str:
    """The text with every hidden character replaced by its number in brackets, such as ⟦U+202E⟧."""
    plain = str(text)
    if plain.isascii() and plain.replace("\n", "").isprintable():
        return plain
    return _HIDDEN.sub(_marked, plain.replace("\r\n", "\n").replace("\r", "\n"))


def is_plain(text: str) -> bool:
    """Whether nothing in the text is hidden."""
    return visible(text) == text


def _marked(found: re.Match[str]) -> str:
    character = found[0]
    before = found.string[found.start() - 1 : found.start()]
    after = found.string[found.end() : found.end() + 1]
    if (character in _JOINERS and _joins(before, after)) or (
        character in _EMOJI_STYLE and _styles(before, after)
    ):
        return character
    return f"{OPEN}U+{ord(character):04X}{CLOSE}"


def _joins(before: str, after: str) -> bool:
    """Joiners belong between emoji and inside the words of scripts that connect their letters."""
    if not before or not after:
        return False
    return (_is_pictorial(before) and _is_pictorial(after)) or (_connects(before) and _connects(after))


def _styles(before: str, after: str) -> bool:
    """A style selector belongs after one visible sign; a run of them is a message to a machine."""
    return bool(before.strip()) and not _HIDDEN.fullmatch(before) and (not after or after not in _EMOJI_STYLE)


def _is_pictorial(character: str) -> bool:
    point = ord(character)
    return 0x2190 <= point <= 0x2BFF or 0x1F000 <= point <= 0x1FAFF or character in _EMOJI_STYLE


def _connects(character: str) -> bool:
    return 0x0600 <= ord(character) <= 0x109F or 0x1780 <= ord(character) <= 0x18AF
