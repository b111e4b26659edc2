"""Join the text parts of a message or artifact, so that detectors find matches that span two parts.

Detectors scan each text, and additionally the joined texts of each message or artifact. Findings in a joined
text are mapped back to its parts, so that they can be masked there.
"""

import re
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.finding import Finding

_TEXT_PART = re.compile(r"(.*)\.(?:parts|content)\[\d+\]\.text\Z", re.DOTALL)


class TextGroupMember(Struct, frozen=True):
    """The group of texts that a text is joined with."""

    group: Hashable
    only_joined: bool = False
    """Whether the text is not scanned on its own, only as part of the joined text."""


class JoinedTexts(Struct, frozen=True, kw_only=True):
    """The texts to scan: single texts, followed by joined texts."""

    scannables: Sequence[Scannable]
    numbers: Sequence[int]
    """For each scannable, the index of its text, or -1 - i for the i-th joined text."""
    spans: list[tuple[list[int], list[int]]]
    """For each joined text, the indexes of its members and the offset at which each begins."""


def get_text_group(path: str) -> TextGroupMember | None:
    """Return the group of a text part according to its path; None for any other text."""
    found = _TEXT_PART.match(path) if path.endswith("].text") else None
    return None if found is None else TextGroupMember(found[1])


def join_texts(pieces: Sequence[Scannable], members: Sequence[TextGroupMember | None]) -> JoinedTexts:
    """Return the texts to scan. Texts with the same group are also joined."""
    if sum(member is not None for member in members) < 2:
        return JoinedTexts(scannables=pieces, numbers=range(len(pieces)), spans=[])
    groups: dict[Hashable, list[int]] = {}
    for number, member in enumerate(members):
        if member is not None:
            groups.setdefault(member.group, []).append(number)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return JoinedTexts(scannables=pieces, numbers=range(len(pieces)), spans=[])
    left_out = {
        number
        for group in several
        for number in group
        if (member := members[number]) is not None and member.only_joined
    }
    numbers = [number for number in range(len(pieces)) if number not in left_out]
    scannables = [pieces[number] for number in numbers]
    for group in several:
        text = "".join(pieces[number].text for number in group)
        scannables.append(Scannable(pieces[group[0]].path, text))
    return JoinedTexts(
        scannables=scannables,
        numbers=[*numbers, *(-1 - index for index in range(len(several)))],
        spans=[(group, _compute_starts(pieces, group)) for group in several],
    )


def find_spanning_texts(found: Evaluation, joined: JoinedTexts) -> dict[str, list[int]]:
    """Return the joined texts with a finding that spans several members, with the members' indexes."""
    across: dict[str, list[int]] = {}
    for one in found.findings:
        number = joined.numbers[one.piece]
        if number < 0:
            group, starts = joined.spans[-1 - number]
            touched = _get_spanned(one, starts)
            if len(touched) > 1:
                across[joined.scannables[one.piece].text] = group
    return across


def list_joined_texts(pieces: Sequence[Scannable]) -> list[str]:
    """Return the joined text of each message and artifact with several text parts."""
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
    return replace(found, findings=tuple(findings.values()))


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
    group, starts = joined.spans[-1 - number]
    for index in _get_spanned(finding, starts):
        piece = pieces[group[index]]
        start = max(0, finding.start - starts[index])
        end = min(len(piece.text), finding.end - starts[index])
        if finding.start == finding.end:
            start = end = 0  # zero width: the position is not known
        elif start >= end:
            continue
        text = finding.text[starts[index] + start - finding.start :][: end - start]
        yield replace(finding, piece=group[index], path=piece.path, start=start, end=end, text=text)


def _get_spanned(finding: Finding, starts: Sequence[int]) -> range:
    if finding.start == finding.end:
        return range(len(starts))
    first = max(0, bisect_right(starts, finding.start) - 1)
    return range(first, bisect_right(starts, finding.end - 1))


def _compute_starts(pieces: Sequence[Scannable], group: Sequence[int]) -> list[int]:
    starts: list[int] = []
    offset = 0
    for number in group:
        starts.append(offset)
        offset += len(pieces[number].text)
    return starts
