r"""Find where a growing text may be cut, so that what follows changes no reading of what comes before.

The readings of a text fold characters, decode escapes and base64, and remove what breaks up words (see
`text_normalization`). All of these work on a region of the text: a word, an escape, a run of codes, a tag.
At a cut, no region of the text or of one of its readings can go on. So the readings of the whole text are
readings of the part before the cut, followed by something else.

A cut is after a word of letters and a space. That ends every region but three: a tag or comment, the name of
a character as in `\N{DIGIT FIVE}`, and base64 that other characters break up, whose beginning is searched.
"""

import re
from collections.abc import Callable

from placet.ports.detector import Scannable
from placet.relay.a2a.text_normalization import find_alternate_readings, find_open_form

MAX_READINGS = 6
"""A text with more readings is not cut."""
_LOOK_BACK = 512
_CANDIDATES = 4
_CUT = re.compile(r"[^\W\d_]{2}[.,;:!?)\]\"'*_`~]{0,4}\s+|[\u3041-\u3096\u4e00-\u9fff]{2}[。，！？、；：]")  # noqa: RUF001
_END = re.compile(rf"(?:{_CUT.pattern})\Z")
_OPEN = re.compile(
    r"</?[A-Za-z][^<>]{0,240}\Z|<\?[^<>\n]{0,200}\Z|<!--(?:(?!-->).){0,240}\Z|\\N\{[^}]{0,100}\Z|=\r?\n\s*\Z",
    re.DOTALL,
)
_IN_BASE64 = re.compile(r"[A-Za-z0-9+/_-]")
_FIRST, _SECOND = "[ACDI-Za-f]", "[AC-HQS-Xgi-nwyz0-3]"
_THIRD, _FOURTH = "[ABEFIJMNQRUVYZcdghklopstwx014589]", "[A-Za-z0-9+/_-]"
_QUAD = f"{_FIRST}{_SECOND}{_THIRD}{_FOURTH}"
_BASE64 = re.compile(rf"(?:{_QUAD}){{3,}}.{{0,4}}\Z|(?:{_QUAD})*(?:{_FIRST}(?:{_SECOND}{_THIRD}?)?)?\Z")
"""What base64 after a cut may continue: groups of four characters, the last of them not complete."""
_GROUP = 4


def find_last_cut(text: str, start: int, end: int) -> int | None:
    """Return the last position between `start` and `end` at which the text may be cut, or None."""
    candidates = [cut.end() for cut in _CUT.finditer(text, max(0, start - 16), end)]
    for cut in reversed(candidates[-_CANDIDATES:]):
        if max(start, 1) <= cut <= end and _is_cut(text[max(0, cut - _LOOK_BACK) : cut]):
            return cut
    return None


def find_undecided(text: str, find_open_match: Callable[[str], int]) -> int:
    """Return where the undecided end of a text begins: a match may begin there and end in what follows.

    The text must end at a cut. `find_open_match` returns the first position at which a match may begin that
    goes on after a text. Every reading of the text counts.
    """
    undecided = find_open_match(text[: _find_stable_end(text)])
    for reading in find_alternate_readings([Scannable("", text)]):
        index = find_open_match(reading.text[: _find_stable_end(reading.text)])
        if index < len(reading.text):
            undecided = min(undecided, reading.spans()[index][0])
    return undecided


def _find_stable_end(text: str) -> int:
    """Return where a form may begin that goes on after the text."""
    return min(find_open_form(text), _find_base64(text))


def _find_base64(text: str) -> int:
    """Return where base64 may begin that goes on after the text.

    It takes in one more group right before it, which may be partly text. Nothing stands right before what
    follows a cut.
    """
    begin = max(0, len(text) - _LOOK_BACK)
    places = [one.start() for one in _IN_BASE64.finditer(text, begin)]
    found = _BASE64.search("".join(text[place] for place in places))
    if found is None or not found[0]:
        return len(text)
    count = len(found[0]) + _GROUP
    if count < len(places):
        return places[-count]
    return 0 if begin else min(places, default=len(text))


def count_readable(text: str) -> int:
    """Return the number of characters of the shortest reading of a text."""
    readings = find_alternate_readings([Scannable("", text)])
    return min(len(text), *(len(reading.text) for reading in readings)) if readings else len(text)


def _is_cut(text: str) -> bool:
    """Return whether what follows changes neither this text nor any of its readings."""
    readings = find_alternate_readings([Scannable("", text)])
    return len(readings) <= MAX_READINGS and all(
        _has_ended(one) for one in (text, *(reading.text for reading in readings))
    )


def _has_ended(text: str) -> bool:
    """Return whether no region that a transformation changes can go on after this text."""
    return (
        _END.search(text, max(0, len(text) - 64)) is not None
        and _OPEN.search(text, max(0, len(text) - 260)) is None
    )
