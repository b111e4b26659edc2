"""Extract the text of an HTML document; a page never shows foreign HTML as HTML."""

import re
from html import unescape

MAX_HTML_LENGTH = 200_000

_TAG = re.compile(r"(/?)([a-zA-Z][a-zA-Z0-9]*)")
_SPACES = re.compile(r"[ \t\r\n\f]+")
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")
_SKIPPED = frozenset({"script", "style", "template", "head"})
_SPACED = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table", "blockquote", "pre"})
_OTHER_BLOCKS = (
    "address article aside body dd div dl dt fieldset figure footer form header hr li main nav section tbody"
    " tfoot thead tr"
)
_BLOCKS = _SPACED.union(_OTHER_BLOCKS.split())


def extract_text(html: str) -> str:
    """Return the text that a reader of the document would see, line by line."""
    parts: list[str] = []
    unread = ""
    comment = False
    first, *pieces = html.split("<")
    parts.append(_SPACES.sub(" ", first))
    for piece in pieces:
        if comment or piece.startswith("!--"):
            _, ended, after = piece.partition("-->")
            comment = not ended
            text = after
        else:
            unread, text = _skip_tag(piece, unread, parts)
        if text and not unread and not comment:
            parts.append(_SPACES.sub(" ", text))
    return _tidy(unescape("".join(parts)))


def _skip_tag(piece: str, unread: str, parts: list[str]) -> tuple[str, str]:
    """Return the element whose content is skipped from here on, if any, and the text after the tag."""
    tag = _TAG.match(piece)
    inside, ended, text = piece.partition(">")
    if not tag or not ended:
        return unread, ("" if piece[:1] in "!?/" else f"<{piece}")
    closing, name = tag[1], tag[2].lower()
    if unread:
        return ("" if closing and name == unread else unread), text
    if name in _SKIPPED and not closing and not inside.endswith("/"):
        return name, ""
    parts.append(_break(name, closing))
    return "", text


def _break(name: str, closing: str) -> str:
    if name == "br":
        return "\n"
    if name in ("td", "th"):
        return "  " if closing else ""
    if name not in _BLOCKS:
        return ""
    if name == "li":
        return "" if closing else "\n• "
    return "\n\n" if name in _SPACED else "\n"


def _tidy(text: str) -> str:
    lines = [line.strip(" \t") for line in text.split("\n")]
    return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()
