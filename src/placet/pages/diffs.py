"""Compare two values field by field, and texts word by word; time and output are bounded."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.pages.sequence_matching import Block, find_matching_blocks

MAX_CHANGES = 60
MAX_SHOWN_LENGTH = 20_000
MAX_COMPARED_LENGTH = 200_000
MAX_LINES = 50_000
MAX_DEPTH = 40
CONTEXT_LENGTH = 80
LINE_END = "\n"

ChangeSign = Literal["same", "added", "removed", "gap"]
ValuePath = tuple[str | int, ...]
DiffRun = tuple[str, str, str]

_PUNCTUATION = r"!-/:-@\[-\^`{-~\u00a1-\u00bf\u2010-\u205e\u3001-\u301f\uff01-\uff0f"
_SINGLE = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# A word is text between spaces and punctuation; each Chinese or Japanese character is a word.
_PARTS = re.compile(rf"\s+|[{_PUNCTUATION}]|[{_SINGLE}]|[^\s{_PUNCTUATION}{_SINGLE}]+")
_IS_WORD = re.compile(rf"[^\s{_PUNCTUATION}]")
_ABSENT = object()


class Piece(Struct, frozen=True):
    """A part of a text that is in both versions or only in one; a gap is a part left out."""

    sign: ChangeSign
    value: Any = None


class Change(Struct, frozen=True, kw_only=True):
    """One difference: its path and its pieces in reading order."""

    path: ValuePath = ()
    pieces: tuple[Piece, ...]
    words: int


class Comparison(Struct, frozen=True, kw_only=True):
    """All differences; `cut` is true if some were left out."""

    changes: tuple[Change, ...]
    words: int
    cut: bool = False


def compare(before: Any, after: Any) -> Comparison:
    """Return what changed from one JSON value to another, with texts compared word by word."""
    found = list(islice(_list_changes((), before, after), MAX_CHANGES + 1))
    shown: list[Change] = []
    room = MAX_SHOWN_LENGTH
    for change in found[:MAX_CHANGES]:
        pieces, room = _fit(change.pieces, room)
        if not pieces:
            break
        shown.append(Change(path=change.path, pieces=pieces, words=change.words))
    words = sum(change.words for change in shown)
    return Comparison(changes=tuple(shown), words=words, cut=len(shown) < len(found) or room <= 0)


def _fit(pieces: tuple[Piece, ...], room: int) -> tuple[tuple[Piece, ...], int]:
    fitting: list[Piece] = []
    for piece in pieces:
        if room <= 0:
            break
        text = piece.value if isinstance(piece.value, str) else ""
        fitting.append(Piece(piece.sign, text[:room]) if len(text) > room else piece)
        room -= len(text) + 1
    return tuple(fitting), room


def _list_changes(path: ValuePath, before: Any, after: Any) -> Iterator[Change]:
    if len(path) < MAX_DEPTH and isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            yield from _list_changes((*path, key), before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif len(path) < MAX_DEPTH and isinstance(before, list | tuple) and isinstance(after, list | tuple):
        yield from _list_changes_in_list(path, list(before), list(after))
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            yield _compare_texts(path, before, after)
    elif type(before) is not type(after) or before != after:
        yield from _list_replacements(path, before, after)


def _list_replacements(path: ValuePath, before: Any, after: Any) -> Iterator[Change]:
    removed, added = list(_list_leaves(path, before)), list(_list_leaves(path, after))
    if len(removed) == len(added) == 1 and removed[0][0] == added[0][0]:
        yield _compare_leaves(path, Piece("removed", removed[0][1]), Piece("added", added[0][1]))
        return
    for place, leaf in removed:
        yield _compare_leaves(place, Piece("removed", leaf))
    for place, leaf in added:
        yield _compare_leaves(place, Piece("added", leaf))


def _compare_leaves(path: ValuePath, *pieces: Piece) -> Change:
    counts = [_count_words(piece.value) if isinstance(piece.value, str) else 1 for piece in pieces]
    return Change(path=path, pieces=pieces, words=max(counts))


def _list_leaves(path: ValuePath, value: Any) -> Iterator[tuple[ValuePath, Any]]:
    inner: list[tuple[str | int, Any]] = []
    if value is not _ABSENT and len(path) < MAX_DEPTH:
        inner = list(value.items()) if isinstance(value, Mapping) else inner
        inner = list(enumerate(value)) if isinstance(value, list | tuple) else inner
    for key, part in inner:
        yield from _list_leaves((*path, key), part)
    if not inner and value is not _ABSENT:
        yield path, value


def _list_changes_in_list(path: ValuePath, before: list[Any], after: list[Any]) -> Iterator[Change]:
    old, new = ([_encode(value) for value in values] for values in (before, after))
    for _, (a, b), (c, d) in _list_pair_ranges(find_matching_blocks(old, new), len(old), len(new)):
        numbered = zip_longest(range(a, b), range(c, d))
        for i, j in numbered:
            yield from _list_changes(
                (*path, i if j is None else j),
                _ABSENT if i is None else before[i],
                _ABSENT if j is None else after[j],
            )


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _list_pair_ranges(
    blocks: list[Block], old: int, new: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """Yield every common range with what follows it: the common range, the range in old, the range in new."""
    start, i, j = 0, 0, 0
    for a, c, size in [*blocks, (old, new, 0)]:
        if (a, c) != (i, j):
            yield (start, i), (i, a), (j, c)
            start = a
        i, j = a + size, c + size
    if start < i:
        yield (start, i), (i, i), (j, j)


# Texts


def _compare_texts(path: ValuePath, before: str, after: str) -> Change:
    runs = _move_spaces_out(_join_splinters(_list_text_runs(before, after)))
    words = sum(max(_count_words(removed), _count_words(added)) for _, removed, added in runs)
    return Change(path=path, pieces=tuple(_split_pieces(runs)), words=words)


def _list_text_runs(before: str, after: str) -> Iterator[DiffRun]:
    """Yield each common text with what was removed and added after it."""
    head = _find_difference(LINE_END, before, after)
    old, new = before[head:].splitlines(keepends=True), after[head:].splitlines(keepends=True)
    yield before[:head], "", ""
    if max(len(old), len(new)) > MAX_LINES:
        yield "", before[head:], after[head:]
        return
    room = MAX_COMPARED_LENGTH
    for (start, end), (a, b), (c, d) in _list_pair_ranges(find_matching_blocks(old, new), len(old), len(new)):
        yield "".join(old[start:end]), "", ""
        removed, added = "".join(old[a:b]), "".join(new[c:d])
        head = _find_difference(" ", removed, added)
        tail = _find_difference(" ", removed[head:][::-1], added[head:][::-1])
        yield removed[:head], "", ""
        removed, added, rest = (
            removed[head : len(removed) - tail],
            added[head : len(added) - tail],
            added[len(added) - tail :],
        )
        room -= len(removed) + len(added)
        yield from _list_word_runs(removed, added) if room > 0 else [("", removed, added)]
        yield rest, "", ""


def _find_difference(end: str, before: str, after: str) -> int:
    """Return where the first line or word that may differ begins, by binary search."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[low:middle] == after[low:middle] else (low, middle - 1)
    return before.rfind(end, 0, low) + 1


def _list_word_runs(removed: str, added: str) -> Iterator[DiffRun]:
    old, new = _PARTS.findall(removed), _PARTS.findall(added)
    for (start, end), (a, b), (c, d) in _list_pair_ranges(find_matching_blocks(old, new), len(old), len(new)):
        yield "".join(old[start:end]), "".join(old[a:b]), "".join(new[c:d])


def _join_splinters(runs: Iterable[DiffRun]) -> list[DiffRun]:
    """Join two changes if the common text between them is too short to read separately."""
    tidy: list[DiffRun] = []
    for same, removed, added in runs:
        if tidy and _is_splinter(tidy[-1], same, removed, added):
            kept, was, is_now = tidy.pop()
            tidy.append((kept, was + same + removed, is_now + same + added))
        elif tidy and not (tidy[-1][1] or tidy[-1][2]):
            tidy.append((tidy.pop()[0] + same, removed, added))
        else:
            tidy.append((same, removed, added))
    return tidy


def _move_spaces_out(runs: list[DiffRun]) -> list[DiffRun]:
    """Move a space that ends both sides of a change out of the change."""
    kept, carried = [], ""
    for same, removed, added in runs:
        end = removed[-1:] if removed[-1:] == added[-1:] and removed[-1:].isspace() else ""
        cut = len(end)
        kept.append((carried + same, removed[: len(removed) - cut], added[: len(added) - cut]))
        carried = end
    return [*kept, (carried, "", "")] if carried else kept


def _is_splinter(last: DiffRun, same: str, removed: str, added: str) -> bool:
    before, after = max(len(last[1]), len(last[2])), max(len(removed), len(added))
    if not before or not after:
        return before > 0 and not same
    return LINE_END not in same and (len(same) <= min(before, after) or not _IS_WORD.search(same))


def _split_pieces(runs: list[DiffRun]) -> Iterator[Piece]:
    for number, (same, removed, added) in enumerate(runs):
        yield from _shorten_common_text(same, first=number == 0, last=not (removed or added))
        if removed:
            yield Piece("removed", removed)
        if added:
            yield Piece("added", added)


def _shorten_common_text(text: str, *, first: bool, last: bool) -> Iterator[Piece]:
    """Yield a common text; of a long one, only the parts next to a change."""
    head, tail = 0 if first else CONTEXT_LENGTH, 0 if last else CONTEXT_LENGTH
    if len(text) <= head + tail + CONTEXT_LENGTH:
        if text:
            yield Piece("same", text)
        return
    if head:
        yield Piece("same", _cut_at_space(text[:head]))
    yield Piece("gap")
    if tail:
        yield Piece("same", _cut_at_space(text[-tail:][::-1])[::-1])


def _cut_at_space(text: str) -> str:
    cut = max(text.rfind(" "), text.rfind(LINE_END))
    return text[: cut + 1] if cut > 0 else text


def _count_words(text: str) -> int:
    return sum(1 for part in _PARTS.findall(text[:MAX_SHOWN_LENGTH]) if _IS_WORD.match(part))
