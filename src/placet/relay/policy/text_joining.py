"""Join the texts of a message, so that detectors find matches that span two of them.

Detectors scan each text, and additionally these views: the joined text parts of each message or artifact, all
contents of the document, the same with the names of members of data, without files, with artifacts before
statuses, and with names of artifacts before everything else. Findings in a view are mapped back to its texts,
so that they can be masked there.
"""

import re
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.a2a.text_extraction import CONTENT_FIELDS, TextPiece
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.finding import Finding

_CONTENT = ("message.", "status.", "artifact.", "artifacts[", "history[", "metadata.", "params.metadata.")
_ADDRESSES = (".uri", ".url", ".fileWithUri", ".file_with_uri")
_NAMES = (".name", ".description")
_TASK = re.compile(r"tasks\[\d+\]\.")
MAX_EDGE = 4_000
"""How many characters of the beginning and the end of a long text are joined with other texts."""
_CUT_SEPARATOR = "\n\n"
_NUMBER_SEPARATOR = ";"
"""Stands between two JSON numbers, because a table of numbers is not one long number."""
_TEXT_PART = re.compile(r"(.*)\.(?:parts|content)\[\d+\]\.text\Z", re.DOTALL)


class TextGroupMember(Struct, frozen=True):
    """The group of texts that a text is joined with."""

    group: Hashable
    only_joined: bool = False
    """Whether the text is not scanned on its own, only as part of the joined text."""


class JoinedPart(NamedTuple):
    """A text, or the beginning or end of a long one, within a joined text."""

    number: int
    """The index of the text."""
    start: int
    """Where the part begins in the joined text."""
    offset: int
    """Where the part begins in its text."""
    length: int


class JoinedTexts(Struct, frozen=True, kw_only=True):
    """The texts to scan: single texts, followed by joined texts."""

    scannables: Sequence[Scannable]
    numbers: Sequence[int]
    """For each scannable, the index of its text, or -1 - i for the i-th joined text."""
    spans: list[list[JoinedPart]]
    """The parts of each joined text."""


def get_text_group(path: str) -> TextGroupMember | None:
    """Return the group of a text part according to its path; None for any other text."""
    found = _TEXT_PART.match(path) if path.endswith("].text") else None
    return None if found is None else TextGroupMember(found[1])


def join_texts(pieces: Sequence[Scannable], members: Sequence[TextGroupMember | None]) -> JoinedTexts:
    """Return the texts to scan: the texts, the joined texts of each group, and the views of all contents."""
    groups: dict[Hashable, list[int]] = {}
    for number, member in enumerate(members):
        if member is not None:
            groups.setdefault(member.group, []).append(number)
    several = [group for group in groups.values() if len(group) > 1]
    left_out = {
        number
        for group in several
        for number in group
        if (member := members[number]) is not None and member.only_joined
    }
    groups_of_parts = len(several)
    if len(pieces) > 1:
        several += [view for view in _list_views(pieces) if view not in several]
    if not several:
        return JoinedTexts(scannables=pieces, numbers=range(len(pieces)), spans=[])
    numbers = [number for number in range(len(pieces)) if number not in left_out]
    scannables = [pieces[number] for number in numbers]
    spans: list[list[JoinedPart]] = []
    for index, group in enumerate(several):
        text, parts = _join_group(pieces, group, whole=index < groups_of_parts)
        scannables.append(Scannable(pieces[group[0]].path, text))
        spans.append(parts)
    return JoinedTexts(
        scannables=scannables,
        numbers=[*numbers, *(-1 - index for index in range(len(several)))],
        spans=spans,
    )


def join_contents(pieces: Sequence[Scannable]) -> str:
    """Return all contents of a message or task as one text."""
    views = _list_views(pieces)
    group = views[0] if views else [index for index, piece in enumerate(pieces) if is_content(piece)]
    return _join_group(pieces, group, whole=False)[0]


def join_to_earlier(pieces: Sequence[Scannable], earlier: str) -> JoinedTexts | None:
    """Return the contents of a message or task after an earlier text, or None if it has none."""
    views = _list_views(pieces) or [[index for index, piece in enumerate(pieces) if is_content(piece)]]
    texts: list[Scannable] = []
    spans: list[list[JoinedPart]] = []
    for group in views:
        text, parts = _join_group(pieces, group, whole=False)
        if text:
            texts.append(Scannable(pieces[group[0]].path, earlier + text))
            spans.append([part._replace(start=len(earlier) + part.start) for part in parts])
    if not texts:
        return None
    return JoinedTexts(scannables=texts, numbers=[-1 - index for index in range(len(texts))], spans=spans)


def keep_continuing_findings(found: Evaluation, earlier: str) -> Evaluation:
    """Return the evaluation with the findings that begin in the earlier text and end after it."""
    kept = tuple(one for one in found.findings if one.start < len(earlier) < one.end)
    return replace(found, findings=kept)


def _list_views(pieces: Sequence[Scannable]) -> list[list[int]]:
    """Return the indexes of the texts of each view that joins all contents of a message, task or stream."""
    tasks: dict[str, list[int]] = {}
    for index, piece in enumerate(pieces):
        task = _TASK.match(piece.path) if piece.path.startswith("tasks[") else None
        start = "" if task is None else task[0]
        if is_content(piece, len(start)):
            tasks.setdefault(start, []).append(index)
    return [view for start, contents in tasks.items() for view in _vary_view(pieces, contents, len(start))]


def _vary_view(pieces: Sequence[Scannable], contents: list[int], start: int) -> list[list[int]]:
    """Return the contents of one task in each order and selection in which somebody may read them.

    `start` is the length of the prefix that their paths share.
    """
    views: list[list[int]] = []
    contents = sorted(contents, key=lambda index: not pieces[index].path.startswith("history[", start))
    contents = [
        index for index in contents if _get_role(pieces[index]) != "key" or ".data" in pieces[index].path
    ]
    values = [index for index in contents if _get_role(pieces[index]) != "key"]
    without_files = [index for index in values if not is_file(pieces[index])]
    artifacts_first = sorted(values, key=lambda index: not is_in_artifact(pieces[index], start))
    names_first = sorted(values, key=lambda index: not is_name(pieces[index]))
    for view in (values, contents, without_files, artifacts_first, names_first):
        if len(view) > 1 and view not in views:
            views.append(view)
    return views


def is_file(piece: Scannable) -> bool:
    """Whether a text is the content or address of a file, which stands between its part and its name."""
    return _get_role(piece) == "file" or piece.path.endswith(_ADDRESSES)


def is_name(piece: Scannable) -> bool:
    """Whether a text is a name or description, which a reader may see before everything else."""
    return piece.path.endswith(_NAMES)


def is_in_artifact(piece: Scannable, start: int = 0) -> bool:
    """Whether a text is in an artifact. `start` is the length of the prefix of the path."""
    return piece.path.startswith("artifact", start)


def is_content(piece: Scannable, start: int = 0) -> bool:
    """Whether a text is content of a message or artifact: text, data, metadata, or a name or address."""
    path = piece.path
    if _get_role(piece) == "fixed" or not path.startswith(_CONTENT, start):
        return False
    return path.rpartition(".")[2] in CONTENT_FIELDS or ".data" in path or "metadata" in path


def _get_role(piece: Scannable) -> str:
    return piece.role if isinstance(piece, TextPiece) else "value"


def _join_group(
    pieces: Sequence[Scannable], group: Sequence[int], *, whole: bool
) -> tuple[str, list[JoinedPart]]:
    """Return the joined text of a group and its parts.

    Unless it needs the `whole` texts, only the beginning and the end of a long text are joined with others,
    because every text is also scanned by itself.
    """
    texts: list[str] = []
    parts: list[JoinedPart] = []
    length, follows_number = 0, False
    for number in group:
        piece = pieces[number]
        is_number = _get_role(piece) == "number"
        if follows_number and is_number:
            texts.append(_NUMBER_SEPARATOR)
            length += len(_NUMBER_SEPARATOR)
        follows_number = is_number
        is_cut = not whole and len(piece.text) > 2 * MAX_EDGE
        for offset, text in _cut_text(piece.text) if is_cut else ((0, piece.text),):
            if offset:
                texts.append(_CUT_SEPARATOR)
                length += len(_CUT_SEPARATOR)
            parts.append(JoinedPart(number, length, offset, len(text)))
            texts.append(text)
            length += len(text)
    return "".join(texts), parts


def _cut_text(text: str) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return the beginning and the end of a long text, each with its offset."""
    return (0, text[:MAX_EDGE]), (len(text) - MAX_EDGE, text[-MAX_EDGE:])


def find_spanning_texts(found: Evaluation, joined: JoinedTexts) -> dict[str, list[int]]:
    """Return the joined texts with a finding that spans several members, with the members' indexes.

    A finding counts for the first joined text that has all of its members.
    """
    across: dict[str, list[int]] = {}
    for one in found.findings:
        number = joined.numbers[one.piece]
        if number < 0:
            parts = joined.spans[-1 - number]
            touched = {parts[index].number for index in _get_spanned(one, parts)}
            is_known = any(
                touched.issubset(part.number for part in earlier) for earlier in joined.spans[: -1 - number]
            )
            if len(touched) > 1 and not is_known:
                across[joined.scannables[one.piece].text] = [part.number for part in parts]
    return across


def list_joined_texts(pieces: Sequence[Scannable]) -> list[str]:
    """Return the joined text of each message and artifact with several text parts, and of all contents."""
    joined = join_texts(pieces, [get_text_group(piece.path) for piece in pieces])
    pairs = zip(joined.numbers, joined.scannables, strict=True)
    return [one.text for number, one in pairs if number < 0]


def split_findings(found: Evaluation, joined: JoinedTexts, pieces: Sequence[Scannable]) -> Evaluation:
    """Return the evaluation with each finding mapped to the single texts, without duplicates."""
    findings: dict[tuple[Hashable, ...], Finding] = {}
    for one in _drop_duplicates(found.findings, joined):
        for part in _split_finding(one, joined, pieces):
            key = (*_get_finding_key(part), part.piece, part.start, part.end)
            known = findings.get(key)
            if known is None or known.score < part.score:
                findings[key] = part
    single = {piece.path for piece in pieces if piece.text}
    near_misses = tuple(one for one in found.near_misses if one.path in single)
    return replace(found, findings=tuple(findings.values()), near_misses=near_misses)


def _drop_duplicates(findings: Iterable[Finding], joined: JoinedTexts) -> Iterator[Finding]:
    """Yield the findings; of findings without a position in one joined text, only the best score.

    A finding without a position is mapped to every member, so duplicates would multiply.
    """
    anywhere: dict[tuple[Hashable, ...], Finding] = {}
    for one in findings:
        if one.start != one.end or joined.numbers[one.piece] >= 0:
            yield one
        elif (known := anywhere.get((*_get_finding_key(one), one.piece))) is None or known.score < one.score:
            anywhere[*_get_finding_key(one), one.piece] = one
    yield from anywhere.values()


def _get_finding_key(finding: Finding) -> tuple[Hashable, ...]:
    return finding.policy_id, finding.policy_version, finding.detector, finding.entity


def _split_finding(finding: Finding, joined: JoinedTexts, pieces: Sequence[Scannable]) -> Iterator[Finding]:
    number = joined.numbers[finding.piece]
    if number >= 0:
        yield replace(finding, piece=number)
        return
    parts = joined.spans[-1 - number]
    for index in _get_spanned(finding, parts):
        part = parts[index]
        start = max(0, finding.start - part.start)
        end = min(part.length, finding.end - part.start)
        at = part.offset
        if finding.start == finding.end:
            start = end = at = 0  # zero width: the position is not known
        elif start >= end:
            continue
        text = finding.text[part.start + start - finding.start :][: end - start]
        piece = pieces[part.number]
        yield replace(finding, piece=part.number, path=piece.path, start=at + start, end=at + end, text=text)


def _get_spanned(finding: Finding, parts: Sequence[JoinedPart]) -> range:
    if finding.start == finding.end:
        return range(len(parts))
    first = max(0, bisect_right(parts, finding.start, key=_get_start) - 1)
    return range(first, bisect_right(parts, finding.end - 1, key=_get_start))


def _get_start(part: JoinedPart) -> int:
    return part.start
