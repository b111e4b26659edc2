"""Characters that hide, reorder or pretend: shown as marks, so that what a person reads is what is there."""

import re
from itertools import islice

from placet.protocol.wording import phrase

OPEN, CLOSE = "\u27e6", "\u27e7"
# So many are told by their number; the rest of a text that has more is marked without.
MOST_NUMBERED = 1000

# Control characters, fillers, bidirectional and other format characters, private use, noncharacters.
_ALWAYS_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0d\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
_JOINERS = "\u200c\u200d"
_EMOJI_STYLE = "\ufe0e\ufe0f"
_HIDDEN_RANGES = f"{_ALWAYS_HIDDEN}{_JOINERS}{_EMOJI_STYLE}"
_HIDDEN = re.compile(f"[{_HIDDEN_RANGES}]")
_CONNECTING = "\u0600-\u109f\u1780-\u18af"
_PICTORIAL = "\u2190-\u2bff\U0001f000-\U0001faff\ufe0e\ufe0f"
# The same rules as `_marked`, for texts in which calling it for each character would take too long.
_MISPLACED = re.compile(
    f"(?:[{_ALWAYS_HIDDEN}]+|(?<![{_CONNECTING}{_PICTORIAL}])[{_JOINERS}]|[{_JOINERS}](?![{_CONNECTING}{_PICTORIAL}])"
    f"|(?<=[\\s{_HIDDEN_RANGES}])[{_EMOJI_STYLE}]|[{_EMOJI_STYLE}](?=[{_EMOJI_STYLE}]))+"
)
_CONTROLS = bytes({*range(32), 127} - {9, 10})
_UNNUMBERED = f"{OPEN}U+…{CLOSE}"
_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: object, numbered: int = MOST_NUMBERED) -> str:
    """The text with every hidden character replaced by its number in brackets, such as ⟦U+202E⟧."""
    plain = text if type(text) is str else str(text)
    if plain.isascii():
        if plain.isprintable() or len(plain.encode().translate(None, _CONTROLS)) == len(plain):
            return plain
    elif not _HIDDEN.search(plain):
        return plain
    if "\r" in plain:
        plain = plain.replace("\r\n", "\n").replace("\r", "\n")
    end = 0
    if numbered > 0:
        last = next(islice(_HIDDEN.finditer(plain), numbered - 1, None), None)
        end = last.end() if last else len(plain)
    if end == len(plain):
        return _HIDDEN.sub(_marked, plain)
    return _HIDDEN.sub(_marked, plain[:end]) + _MISPLACED.sub(_UNNUMBERED, plain[end:])


def is_hidden(text: str) -> bool:
    """Whether any character of the text may be marked, each by itself."""
    return bool(_HIDDEN.search(text))


def is_plain(text: str) -> bool:
    """Whether nothing in the text is hidden."""
    return visible(text) == text


def kind_of_hidden(character: str) -> str:
    """What a hidden character is, in words that name its `{code}`."""
    if character in _DIRECTION:
        return phrase("character that changes the direction of text, {code}")
    if character < " " or "\x7f" <= character <= "\x9f":
        return phrase("control character, {code}")
    if "\ud800" <= character <= "\uf8ff" or character >= "\U000f0000":
        return phrase("character without a meaning of its own, {code}")
    return phrase("invisible character, {code}")


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
