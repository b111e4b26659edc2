r"""Decode what a text contains in another form: escapes such as `\u0035`, base64, base32, and codes.

Each function yields the edits that put the decoded text in place of its encoding. An encoding is recognised
by its form: the characters of base64 that encode ASCII fall into a few classes, so that three groups of four
hardly ever occur by chance. The same holds for eight pairs of hexadecimal digits.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from html.entities import html5

Edit = tuple[int, int, str]
"""Start, end and replacement of a part of a text."""

# One byte of base64 in ASCII: the first character of a quad is one of 31, and so on.
QUAD = ("[ACDI-Za-f]", "[AC-HQS-Xgi-nwyz0-3]", "[ABEFIJMNQRUVYZcdghklopstwx014589]", "[A-Za-z0-9+/_-]")
BASE64_GAP = "[^A-Za-z0-9+/=_-]{0,8}"
MIN_QUADS = 3
# Codes of the bytes of a text, with what may stand between two of them.
_H = "[0-9A-Fa-f]"
_NEXT = "[89abAB][0-9A-Fa-f]"
HEX_GAP = "[hH]?[^0-9A-Za-z]{0,4}(?:0?[xX]|[uU][+]?)?(?:00)?"
HEX_CODE = (
    f"(?:[2-7]{_H}|0[9AaDd]|[cCdD]{_H}{HEX_GAP}{_NEXT}|[eE]{_H}{HEX_GAP}{_NEXT}{HEX_GAP}{_NEXT}"
    f"|[fF][0-4]{HEX_GAP}{_NEXT}{HEX_GAP}{_NEXT}{HEX_GAP}{_NEXT})"
)
DECIMAL_CODE = "0?(?:3[2-9]|[4-9][0-9])|1[01][0-9]|12[0-6]|10|13"
OCTAL_CODE = "(?:0o?)?(?:[4-7][0-7]|1[0-7]{2}|12|15)"
NUMBER_GAP = r"[^0-9A-Za-z]{1,4}(?:[A-Za-z.]{2,20}\()?"
BINARY_GAP = "[^0-9A-Za-z]{0,4}"
BINARY_CODE = "(?:0b)?0[01]{7}"
SHORT_BINARY_CODE, SHORT_BINARY_GAP = "(?:0b)?[01]{6,7}", "[^0-9A-Za-z]{1,4}"
MIN_CODES = 8

ESCAPED = (
    r"%[0-9A-Fa-f]{2}|%u[0-9A-Fa-f]{4}|&#|&[A-Za-z][A-Za-z0-9]{1,31};|=[2-7][0-9A-Fa-f]|=\r?\n|\\"
    r"|[Uu]\+[0-9A-Fa-f]{4}|(?i:xn--[a-z0-9])"
)
"""Matches every text with an escape."""
BASE64_WORD = "(?i:;base64,)|[A-Za-z0-9+/]{21}|[A-Za-z0-9+/_-]{37}|[A-Za-z0-9+/_-]{7}="
SPACED_BASE64 = "".join(f"{part}{BASE64_GAP}" for part in QUAD * MIN_QUADS)
HEX_CODES = rf"(?:{HEX_CODE}{HEX_GAP}){{{MIN_CODES - 1}}}{HEX_CODE}"
NUMBER_CODES = (
    rf"(?:(?:{DECIMAL_CODE}){NUMBER_GAP}){{{MIN_CODES}}}|(?:{OCTAL_CODE}{NUMBER_GAP}){{{MIN_CODES}}}"
    rf"|(?:{BINARY_CODE}{BINARY_GAP}){{{MIN_CODES}}}"
    rf"|(?:{SHORT_BINARY_CODE}{SHORT_BINARY_GAP}){{{MIN_CODES - 1}}}"
    r"|[A-Z2-7]{16}|[a-z2-7]{16}"
)

_BYTES = (
    r"(?:%[0-9A-Fa-f]{2})+|(?:=[0-9A-Fa-f]{2}|=\r?\n)+"
    r"|(?<!\\)(?:\\++x[0-9A-Fa-f]{2})+|(?<!\\)(?:\\++[0-3][0-7]{2})+"
)
_ESCAPES = re.compile(
    r"(?<!\\)\\++0{2,4}(?P<css>[2-7][0-9A-Fa-f])(?![0-9A-Fa-f])[ ]?"
    rf"|(?P<bytes>{_BYTES})"
    r"|(?<!\\)(?P<units>(?:(?:\\++|%)u[0-9A-Fa-f]{4})+)"
    r"|(?<!\\)\\++[ux]\{0*(?P<braced>[0-9A-Fa-f]{1,6})\}|(?<!\\)\\++o\{0*(?P<octal>[0-7]{1,7})\}"
    r"|(?<!\\)\\++U(?P<eight>[0-9A-Fa-f]{8})"
    r"|[Uu]\+(?P<plus>[0-9A-Fa-f]{4,6})(?![0-9A-Fa-f])"
    r"|(?<!\\)\\++N\{(?P<name>[A-Z0-9 -]{2,80})\}"
    r"|(?<!\\)\\++(?P<escape>[eE])(?=\[)"
    r"|(?<!\\)\\++(?P<short>[4-7][0-7])(?![0-9A-Za-z])"
    r"|(?<!\\)\\++(?P<line>\r?\n)\s*"
    r"|(?<!\\)\\++(?P<sign>[!-/:-@\[\]^_`{|}~])"
    r"|&\#(?:[xX]0*(?P<hex>[0-9A-Fa-f]{1,6})|0*(?P<decimal>[0-9]{1,7}));?"
    r"|&(?P<entity>[A-Za-z][A-Za-z0-9]{1,31};)"
    r"|(?<![0-9A-Za-z-])(?i:xn--)(?P<punycode>[0-9A-Za-z-]{1,59})"
)
_BASES = {"octal": 8, "short": 8, "decimal": 10}
"""Escapes that are not hexadecimal."""
_STYLE_ESCAPE = re.compile(r"(?<!\\)\\++0{0,4}([2-7][0-9A-Fa-f])(?![0-9A-Fa-f])[ ]?")
_ESCAPED_BYTE = re.compile(r"[%=]([0-9A-Fa-f]{2})|\\x([0-9A-Fa-f]{2})|\\([0-3][0-7]{2})")
_BASE64_WORD = re.compile(r"[A-Za-z0-9+/_-]{21,}={0,2}|[A-Za-z0-9+/_-]{7,20}={1,2}")
_STANDARD = str.maketrans("-_", "+/")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/_-]")
_QUADS = re.compile(f"(?:{''.join(QUAD)}){{{MIN_QUADS},}}")
_LOWERCASE = re.compile("[a-z]+")
_HEX_RUN = re.compile(rf"(?:{HEX_CODE}{HEX_GAP}){{{MIN_CODES - 1},}}{HEX_CODE}")
_NOT_HEX_DIGIT = re.compile(r"0[xX]|[^0-9A-Fa-f]")
_DECIMAL_RUN, _OCTAL_RUN = (
    re.compile(rf"(?<![0-9])(?:(?:{code}){NUMBER_GAP}){{{MIN_CODES - 1},}}(?:{code})(?![0-9])")
    for code in (DECIMAL_CODE, OCTAL_CODE)
)
_BINARY_RUN = re.compile(
    rf"(?<![0-9])(?:{BINARY_CODE}{BINARY_GAP}){{{MIN_CODES},}}"
    rf"|(?<![0-9])(?:{SHORT_BINARY_CODE}{SHORT_BINARY_GAP}){{{MIN_CODES - 1},}}{SHORT_BINARY_CODE}(?![0-9])"
)
_BASE32 = re.compile(r"(?<![0-9A-Za-z])(?:[A-Z2-7]{16,}|[a-z2-7]{16,})={0,6}(?![0-9A-Za-z])")
_DIGITS = re.compile("[0-9]+")
_BINARY_DIGITS = re.compile("[01]{6,8}")


def decode_escapes(text: str) -> Iterator[Edit]:
    """Yield the characters that escapes of JSON, HTML, URLs, mail, shells and programs stand for."""
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
    if kind == "line":
        return ""
    if kind == "escape":
        return "\x1b"
    if kind == "sign":
        return content
    if kind == "entity":
        return html5.get(content)
    if kind == "name":
        return _look_up_name(content)
    if kind == "punycode":
        return _decode_punycode(content)
    value = int(content, _BASES.get(kind or "", 16))
    return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else None


def _look_up_name(name: str) -> str | None:
    try:
        return unicodedata.lookup(name)
    except KeyError:
        return None


def _decode_punycode(label: str) -> str | None:
    try:
        return label.encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return None


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


def decode_style_escapes(text: str) -> Iterator[Edit]:
    r"""Yield the characters of escapes as in style sheets, such as `\35 ` for `5`."""
    for escape in _STYLE_ESCAPE.finditer(text):
        yield (*escape.span(), chr(int(escape[1], 16)))


def decode_base64_words(text: str) -> Iterator[Edit]:
    """Yield the texts of words that are base64 from beginning to end."""
    for word in _BASE64_WORD.finditer(text):
        decoded = _decode_base64(word[0])
        if decoded is not None:
            yield (*word.span(), decoded)


def _decode_base64(encoded: str) -> str | None:
    """Return the text in base64, or None if it is something else, such as a long word."""
    plain = encoded.rstrip("=").translate(_STANDARD)
    try:
        text = base64.b64decode(plain + "=" * (-len(plain) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return text if text and "".join(text.split()).isprintable() else None


def decode_spaced_base64(text: str) -> Iterator[Edit]:
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


def decode_hex(text: str) -> Iterator[Edit]:
    """Yield the texts of bytes in hexadecimal digits."""
    for run in _HEX_RUN.finditer(text):
        digits = _NOT_HEX_DIGIT.sub("", run[0])
        yield (*run.span(), _show_bytes(bytes.fromhex(digits[: len(digits) // 2 * 2])))


def decode_decimal(text: str) -> Iterator[Edit]:
    """Yield the texts of decimal codes, such as `53 51 54` or `chr(53)+chr(51)`."""
    for run in _DECIMAL_RUN.finditer(text):
        yield (*run.span(), "".join(chr(int(number)) for number in _DIGITS.findall(run[0])))


def decode_octal(text: str) -> Iterator[Edit]:
    """Yield the texts of octal codes, such as `065 063`."""
    for run in _OCTAL_RUN.finditer(text):
        numbers = _DIGITS.findall(run[0].replace("0o", ""))
        yield (*run.span(), "".join(chr(int(number, 8)) for number in numbers))


def decode_binary(text: str) -> Iterator[Edit]:
    """Yield the texts of binary codes of six to eight digits."""
    for run in _BINARY_RUN.finditer(text):
        numbers = _BINARY_DIGITS.findall(run[0].replace("0b", " "))
        yield (*run.span(), "".join(chr(int(number, 2)) for number in numbers))


def decode_base32(text: str) -> Iterator[Edit]:
    """Yield the texts of words that are base32."""
    for word in _BASE32.finditer(text):
        plain = word[0].rstrip("=").upper()
        try:
            content = base64.b32decode(plain + "=" * (-len(plain) % 8))
        except binascii.Error:
            continue
        decoded = content.decode("ascii", "replace")
        if content.isascii() and "".join(decoded.split()).isprintable():
            yield (*word.span(), decoded)


def _show_bytes(content: bytes) -> str:
    """Return bytes as text, without NUL (as in UTF-16), and with a space for what is no text."""
    content = content.replace(b"\0", b"")
    try:
        text = content.decode()
    except ValueError:
        text = content.decode("latin-1")
    return "".join(
        sign if sign.isprintable() or sign in "\r\n\t" or sign == "\u202e" else " " for sign in text
    )
