r"""Read a text as it is shown, and without what breaks up its words and numbers.

Each function yields edits: terminal sequences and comments disappear, text after a right-to-left override is
put in the order in which it is shown, numerals become digits, and spaces, markup, punctuation and line breaks
inside a word or number are removed.
"""

import re
import unicodedata
from collections.abc import Iterator

from placet.relay.a2a.text_decoding import Edit

OVERRIDE = "\u202e"
"""From here on, text is shown from right to left."""
MAX_TAG_LENGTH = 2_000
"""The maximum number of characters of a tag."""
MAX_INSTRUCTION_LENGTH = 200

# How a text is shown. These functions see the characters that folding removes.

_NUMERAL_BLOCKS = (
    range(0x2160, 0x2169),
    range(0x2170, 0x2179),
    range(0x3021, 0x302A),
    range(0x12400, 0x1246F),
)
_NUMERALS = {
    ord(character): str(int(value))
    for character in (
        *"〇零一二三四五六七八九壹贰貳叁參肆伍陆陸柒捌玖壱弐参两",
        *(chr(code) for block in _NUMERAL_BLOCKS for code in block),
    )
    if (value := unicodedata.numeric(character, -1)) in range(10)
}
"""Characters that stand for one digit, besides those of Unicode's category for digits."""
_NUMERAL = f"[{''.join(map(chr, _NUMERALS))}]"
_NUMERAL_GAP = "[- \u2010-\u2015]?"
NUMERALS = f"{_NUMERAL}{_NUMERAL_GAP}{_NUMERAL}"
_NUMERAL_RUN = re.compile(f"(?<![A-Za-z]){_NUMERAL}(?:{_NUMERAL_GAP}{_NUMERAL})+(?![A-Za-z])")
_RIGHT_TO_LEFT_TAG = r"<[bB][dD][oO]\s[^<>]{0,80}[rR][tT][lL][^<>]{0,80}>"
_OVERRIDDEN = re.compile(
    rf"{OVERRIDE}(?P<sign>[^\u202c\n]+)|{_RIGHT_TO_LEFT_TAG}(?P<tag>[^<]+)(?:</[bB][dD][oO]>|\Z)"
)
RIGHT_TO_LEFT = f"{OVERRIDE}|<[bB][dD][oO]"
TERMINAL = "[\x08\x1b\x9b]|\\^H"
_TERMINAL = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|\x1b[\\]P_^X][^\x07\x1b\x9c]{0,2000}(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]+[0-~]|\x1b[@-Z_a-z=>]"
    r"|(?P<word>[^\s\x08\x1b^]+)(?P<back>(?:\x08|\^H)+)"
)


def apply_terminal(text: str) -> Iterator[Edit]:
    """Yield what a terminal shows of control sequences and of text that is erased by backspaces."""
    for found in _TERMINAL.finditer(text):
        kept = ""
        if found["word"] is not None:
            kept = found["word"][: -found["back"].replace("^H", "\x08").count("\x08")]
        yield (*found.span(), kept)


def reverse_overrides(text: str) -> Iterator[Edit]:
    """Yield what is shown from right to left, in the order in which it is shown."""
    for found in _OVERRIDDEN.finditer(text):
        yield (*found.span(), (found["sign"] or found["tag"])[::-1])


def read_numerals(text: str) -> Iterator[Edit]:
    """Yield the digits of numbers in Chinese or Roman numerals that are written digit by digit."""
    for found in _NUMERAL_RUN.finditer(text):
        yield (*found.span(), found[0].translate(_NUMERALS))


# Markup

HIDDEN_MARKUP = r"<!|<\?|\]\]>"
_MARKUP = re.compile(rf"<!--|<\?[^<>\n]{{0,{MAX_INSTRUCTION_LENGTH}}}\?>|<!\[CDATA\[|\]\]>")


def drop_comments(text: str) -> Iterator[Edit]:
    """Yield comments and processing instructions, and the marks around character data."""
    position = 0
    while (found := _MARKUP.search(text, position)) is not None:
        position = found.end()
        if found[0] == "<!--":
            end = text.find("-->", position)
            if end < 0:
                return
            position = end + len("-->")
        yield found.start(), position, ""


# What breaks up words and numbers

SINGLE = "[0-9A-Za-z-]"
SINGLE_GAP = "[^0-9A-Za-z;-]{1,5}"
MIN_SINGLES = 6
_EMPHASIS = r"\*{1,3}|`{1,3}|~~|__|\|\||\[/?[a-z]{1,10}(?:=[^\[\]]{0,80})?\]"
_NUMBER_GAP = (
    r"(?:[(){}\[\]*~^'\"`|!#$&\\<>=_?]|\\[A-Za-z]{2,12}\{|\]\([^()\s]{0,200}\)|\[\^?[0-9]{1,3}\]){1,4}"
)
_LINE_BREAK = r"[ \t]*[\r\n]\s*(?:[>|*#]\s{0,3}){0,3}"
_QUOTES = "[\"'`]\\s{0,3}[+.&|]{0,2}\\s{0,3}[\"'`]"
_LETTER_DIGITS = "OoIlSsZzGgqB"
BROKEN = (
    rf"[0-9A-Za-z-](?:{_EMPHASIS})[0-9A-Za-z-]|[0-9A-Za-z-]<[!/A-Za-z]"
    rf"|[0-9]{_NUMBER_GAP}[0-9-]|[0-9-]{_NUMBER_GAP}[0-9]"
    rf"|[0-9]\s+-\s*[0-9]|[0-9]-\s+[0-9]|[0-9]-{{2,3}}[0-9]|[0-9],-|-,[0-9]|[0-9-]{_LINE_BREAK}[0-9-]"
    rf"|[a-z]-[ \t]*\r?\n\s*[a-z]"
    rf"|[0-9A-Za-z-]{_QUOTES}[0-9A-Za-z-]"
    rf"|(?:{SINGLE}{SINGLE_GAP}){{{MIN_SINGLES - 1}}}{SINGLE}"
    rf"|(?:[0-9A-Za-z]-){{{MIN_SINGLES - 1}}}[0-9A-Za-z]"
    rf"|[0-9][{_LETTER_DIGITS}]{{1,3}}[0-9-]|[0-9]-[{_LETTER_DIGITS}]{{1,3}}[0-9-]"
    r"|[0-9] {1,3}[0-9]+-|-[0-9]+ {1,3}[0-9]+(?:[^0-9:]|$)"
)
"""Matches every text in which a word or number is broken up."""
_TAGS = rf"(?:</?[A-Za-z][^<>]{{0,{MAX_TAG_LENGTH}}}>|{_EMPHASIS})+"
_BREAKS = re.compile(
    rf"(?<=\S){_TAGS}(?=\S)"
    rf"|(?<=[0-9-]){_NUMBER_GAP}(?=[0-9])|(?<=[0-9]){_NUMBER_GAP}(?=[0-9-])"
    r"|(?<=[0-9])(?P<dash>\s+-\s*|-\s+|-{2,3})(?=[0-9])|(?<=[0-9]),(?=-)|(?<=-),(?=[0-9])"
    rf"|(?<=[0-9-]){_LINE_BREAK}(?=[0-9-])"
    r"|(?<=[a-z])-[ \t]*\r?\n\s*(?=[a-z])"
    rf"|(?<=[0-9A-Za-z-]){_QUOTES}(?=[0-9A-Za-z-])"
    rf"|(?<![0-9A-Za-z])(?P<singles>(?:{SINGLE}{SINGLE_GAP}){{{MIN_SINGLES - 1},}}{SINGLE})(?![0-9A-Za-z])"
    rf"|(?<![0-9A-Za-z-])(?P<dashed>(?:[0-9A-Za-z]-){{{MIN_SINGLES - 1},}}[0-9A-Za-z])(?![0-9A-Za-z-])"
    rf"|(?P<digits>(?<=[0-9])[{_LETTER_DIGITS}]{{1,3}}(?=[0-9-])|(?<=[0-9]-)[{_LETTER_DIGITS}]{{1,3}}(?=[0-9-]))"
)
_LOOKALIKE_DIGITS = str.maketrans(_LETTER_DIGITS, "001155226998")
_GAPS = re.compile(SINGLE_GAP)
_GROUPS = re.compile(r"(?<![0-9A-Za-z])[0-9]+(?:(?: {1,3}| {0,2}- {0,2})[0-9]+)+(?![0-9A-Za-z])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} ")


def drop_breaks(text: str) -> Iterator[Edit]:
    """Yield what breaks up a word or number: markup, line breaks, and signs between single characters."""
    for found in _BREAKS.finditer(text):
        start, end = found.span()
        if found["dash"] is not None:
            yield start, end, "-"
        elif found["singles"] is not None:
            for gap in _GAPS.finditer(text, start, end):
                yield (*gap.span(), "")
        elif found["dashed"] is not None:
            for place in range(start + 1, end, 2):
                yield place, place + 1, ""
        elif found["digits"] is not None:
            yield start, end, found["digits"].translate(_LOOKALIKE_DIGITS)
        else:
            yield start, end, ""


def join_groups(text: str) -> Iterator[Edit]:
    """Yield the spaces in a number with dashes, such as `53 6-22-8764`, but not the one after a date."""
    for found in _GROUPS.finditer(text):
        number = found[0]
        if "-" in number and " " in number and _DATE.match(number) is None:
            for gap in re.finditer(" +", number):
                yield found.start() + gap.start(), found.start() + gap.end(), ""


# Growing texts

_BOUNDARY = re.compile(r"[^\W\d_]{2}[.,;:!?)\]*_`~]{0,4}\s+|[\u3041-\u3096\u4e00-\u9fff]{2}[。，！？、；：]")  # noqa: RUF001
"""After this, a word or number cannot be broken up."""
_OPEN_MARKUP = re.compile(
    rf"</?[A-Za-z][^<>]{{0,{MAX_TAG_LENGTH}}}(?:>[^\w\s]*)?\Z|<\?[^<>\n]{{0,{MAX_INSTRUCTION_LENGTH}}}\Z"
    rf"|{OVERRIDE}[^\u202c\n]*\Z|{_RIGHT_TO_LEFT_TAG}[^<]*\Z|\x1b[\]P_^X][^\x07\x1b\x9c]*\Z"
)
_COMMENT = ("<!--", "-->")
_MARKUP_SIGN = re.compile(f"[<\x1b{OVERRIDE}]")
_BOUNDARY_DISTANCE = 64
"""Nearly always, a word has ended within so many characters."""


def find_open_word(text: str, limit: int) -> int:
    """Return where a word or number begins that may go on after `limit`, at which an open form begins."""
    if _MARKUP_SIGN.search(text) is not None:
        opening, closing = _COMMENT
        comment = text.find(opening, text.rfind(closing) + 1)
        markup = _OPEN_MARKUP.search(text)
        limit = min(
            limit,
            len(text) if comment < 0 else comment,
            len(text) if markup is None else markup.start(),
        )
    for begin in (max(0, limit - _BOUNDARY_DISTANCE), 0):
        ends = [boundary.end() for boundary in _BOUNDARY.finditer(text, begin, limit)]
        if ends:
            return ends[-1]
    return 0
