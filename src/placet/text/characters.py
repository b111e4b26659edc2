"""The one table of characters that hide, reorder, or control text, and what is done about them.

Everything that shows foreign text uses this table: pages, messengers, terminals, JSON that a command prints,
and the readings that the relay scans. A character counts as hidden if a reader cannot see it, or cannot see
what it does:

- control characters, because terminals obey them and stores refuse some of them;
- bidirectional marks, embeddings, overrides, and isolates, because they reorder the text around them;
- characters drawn as nothing or as blank space: soft hyphen, zero-width spaces, fillers, tags, and variation
  selectors, because they carry text that only a program reads;
- private use, noncharacters, and surrogates, because no font agrees on what they are.

Not in the table: tab, newline, and spaces of any width, which a reader sees; and the format characters of
Arabic, Syriac, and Kaithi that are drawn as a sign (U+0600, U+06DD, ...). Joiners and emoji style selectors
are in the table, but they stay where writing needs them: see `mark_hidden`.
"""

import json
import re
from itertools import islice

from placet.text.wording import phrase

# The members of the table, each as the inside of a regular expression's character class.
LINE_CONTROLS = "\x0b\x0c\r\x85"
OTHER_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
CONTROLS = f"{OTHER_CONTROLS}{LINE_CONTROLS}"
SEPARATORS = "\u2028\u2029"
BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
SURROGATES = "\ud800-\udfff"
PRIVATE = f"{SURROGATES}\ue000-\uf8ff\U000f0000-\U0010ffff"
NONCHARACTERS = "\ufdd0-\ufdef\ufff0-\ufff8\ufffe\uffff"
BLANK = (
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u2800\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
JOINERS = "\u200c\u200d"
EMOJI_STYLES = "\ufe0e\ufe0f"
ALWAYS_HIDDEN = f"{CONTROLS}{SEPARATORS}{BIDIRECTIONAL}{PRIVATE}{NONCHARACTERS}{BLANK}"
HIDDEN = f"{ALWAYS_HIDDEN}{JOINERS}{EMOJI_STYLES}"

OPEN, CLOSE = "\u27e6", "\u27e7"
"""The brackets around the number of a hidden character."""
MAX_NUMBERED = 1000
"""How many hidden characters of a text are shown by number; further ones get a mark without a number."""

# The neighbours between which a joiner is part of ordinary writing.
_CONNECTED_SCRIPTS = "\u0600-\u109f\u1780-\u18af"
_PICTOGRAPHS = f"\u2190-\u2bff\U0001f000-\U0001faff{EMOJI_STYLES}"

_HIDDEN = re.compile(f"[{HIDDEN}]")
_UNSTORABLE = re.compile(f"[{OTHER_CONTROLS}{SURROGATES}]")
_SURROGATE = re.compile(f"[{SURROGATES}]")
_LINE_BREAK = re.compile(f"[\n{LINE_CONTROLS}{SEPARATORS}]")
_CONTROL = re.compile(f"[{CONTROLS}]")
_BIDIRECTIONAL = re.compile(f"[{BIDIRECTIONAL}]")
_PRIVATE = re.compile(f"[{PRIVATE}]")
_CONNECTED_SCRIPT = re.compile(f"[{_CONNECTED_SCRIPTS}]")
_PICTOGRAPH = re.compile(f"[{_PICTOGRAPHS}]")
# The same rule as `_belongs`, as one pattern: a call for each character of a long run is too slow.
_OUT_OF_PLACE = re.compile(
    f"(?:[{ALWAYS_HIDDEN}]+"
    f"|(?<![{_CONNECTED_SCRIPTS}{_PICTOGRAPHS}])[{JOINERS}]|[{JOINERS}](?![{_CONNECTED_SCRIPTS}{_PICTOGRAPHS}])"
    f"|(?<=[\\s{HIDDEN}])[{EMOJI_STYLES}]|[{EMOJI_STYLES}](?=[{EMOJI_STYLES}]))+"
)
_ASCII_CONTROLS = bytes({*range(32), 127} - {9, 10})
_UNNUMBERED_MARK = f"{OPEN}U+…{CLOSE}"


def is_hidden(character: str) -> bool:
    """Return whether one character is in the table, regardless of its neighbours."""
    return _HIDDEN.fullmatch(character) is not None


def may_contain_hidden(text: str) -> bool:
    """Whether any character of the text is in the table, also where it is part of ordinary writing."""
    return _HIDDEN.search(text) is not None


def contains_hidden(text: str) -> bool:
    """Whether `mark_hidden` would mark anything."""
    return mark_hidden(text) != text


def mark_hidden(text: object, numbered: int = MAX_NUMBERED) -> str:
    """Return the text with every hidden character replaced by its number in brackets, such as ⟦U+202E⟧.

    Line ends become newlines. A joiner stays between emoji and inside words of scripts that connect their
    letters, and an emoji style selector stays after one visible character. `numbered` characters are replaced
    by their number, and further runs of hidden characters by one mark each.
    """
    plain = text if type(text) is str else str(text)
    if plain.isascii():
        if plain.isprintable() or len(plain.encode().translate(None, _ASCII_CONTROLS)) == len(plain):
            return plain
    elif not _HIDDEN.search(plain):
        return plain
    if "\r" in plain:
        plain = normalize_newlines(plain)
    end = 0
    if numbered > 0:
        last = next(islice(_HIDDEN.finditer(plain), numbered - 1, None), None)
        end = last.end() if last else len(plain)
    if end == len(plain):
        return _HIDDEN.sub(_mark, plain)
    return _HIDDEN.sub(_mark, plain[:end]) + _OUT_OF_PLACE.sub(_UNNUMBERED_MARK, plain[end:])


def escape_hidden_in_json(text: str) -> str:
    """Return JSON with the hidden characters inside its strings as escapes; it means the same."""
    return text if text.isascii() and "\x7f" not in text else _HIDDEN.sub(_escape, text)


def describe_hidden(character: str) -> str:
    """Return what kind of hidden character this is, as a phrase that names its `{code}`."""
    if _BIDIRECTIONAL.match(character):
        return phrase("character that changes the direction of text, {code}")
    if _CONTROL.match(character) or character in "\t\n":
        return phrase("control character, {code}")
    if _PRIVATE.match(character):
        return phrase("character without a meaning of its own, {code}")
    return phrase("invisible character, {code}")


def is_storable(text: str) -> bool:
    """Whether every store can save the text and no terminal obeys it.

    Lone surrogates have no UTF-8 form, PostgreSQL refuses NUL, and other control characters drive terminals.
    """
    return _UNSTORABLE.search(text) is None


def replace_unstorable(text: str) -> str:
    """Return the text with a visible sign for each unstorable character; its length stays the same."""
    return _UNSTORABLE.sub(_draw_picture, text)


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced, because UTF-8 cannot encode them. Offsets stay valid."""
    return _SURROGATE.sub("\ufffd", text)


def is_one_line(text: str) -> bool:
    """Whether the text has no line break of any kind."""
    return _LINE_BREAK.search(text) is None


def normalize_newlines(text: str) -> str:
    """Return the text with every line end as one newline character."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _mark(found: re.Match[str]) -> str:
    return found[0] if _belongs(found) else f"{OPEN}U+{ord(found[0]):04X}{CLOSE}"


def _escape(found: re.Match[str]) -> str:
    return found[0] if _belongs(found) else json.dumps(found[0])[1:-1]


def _draw_picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def _belongs(found: re.Match[str]) -> bool:
    """Whether a joiner or a style selector is part of ordinary writing where it was found."""
    character = found[0]
    if character not in JOINERS and character not in EMOJI_STYLES:
        return False
    before = found.string[found.start() - 1 : found.start()]
    after = found.string[found.end() : found.end() + 1]
    if character in JOINERS:
        return _matches_both(_PICTOGRAPH, before, after) or _matches_both(_CONNECTED_SCRIPT, before, after)
    # A run of selectors carries a message for a program.
    return bool(before.strip()) and not is_hidden(before) and (not after or after not in EMOJI_STYLES)


def _matches_both(pattern: re.Pattern[str], before: str, after: str) -> bool:
    return bool(pattern.match(before) and pattern.match(after))


def keep_letters(text: str) -> str:
    """Return the letters and digits, without case: what two names have in common if they read the same."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())
