"""Texts that are read together: what stands half in one part and half in the next must be found too.

Detectors look at each text, and once more at the texts of one message or artifact joined. What they find in
joined texts is told in the places of the single ones, so that it can be masked there.
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
    """A text that is read together with others: their common name, and whether it has no meaning alone."""

    of: Hashable
    only_joined: bool = False


class JoinedTexts(Struct, frozen=True, kw_only=True):
    """What detectors are to look at."""

    scannables: Sequence[Scannable]
    numbers: Sequence[int]
    """For each scannable that is one text, which; -1 - i for the i-th of the joined ones."""
    spans: list[tuple[list[int], list[int]]]
    """For each joined text, its members and where each begins."""


def get_text_group(path: str) -> TextGroupMember | None:
    """What a text part belongs to by its path; None for any other text."""
    found = _TEXT_PART.match(path) if path.endswith("].text") else None
    return None if found is None else TextGroupMember(found[1])


def join_texts(pieces: Sequence[Scannable], members: Sequence[TextGroupMember | None]) -> JoinedTexts:
    """The texts to look at: single ones, and joined ones wherever several belong together."""
    if sum(member is not None for member in members) < 2:
        return JoinedTexts(scannables=pieces, numbers=range(len(pieces)), spans=[])
    groups: dict[Hashable, list[int]] = {}
    for number, member in enumerate(members):
        if member is not None:
            groups.setdefault(member.of, []).append(number)
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
        numbers=[*numbers, *(-1 - place for place in range(len(several)))],
        spans=[(group, _compute_starts(pieces, group)) for group in several],
    )


def find_spanning_texts(found: Evaluation, joined: JoinedTexts) -> dict[str, list[int]]:
    """Joined texts in which something stands in more than one of their members, and which those are."""
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
    """What the text parts of each message and artifact come to."""
    joined = join_texts(pieces, [get_text_group(piece.path) for piece in pieces])
    pairs = zip(joined.numbers, joined.scannables, strict=True)
    return [one.text for number, one in pairs if number < 0]


def split_findings(found: Evaluation, joined: JoinedTexts, pieces: Sequence[Scannable]) -> Evaluation:
    """The evaluation with every finding in the place of a single text, and each told once."""
    findings: dict[tuple[Hashable, ...], Finding] = {}
    for one in _drop_duplicates(found.findings, joined):
        for place in _split_finding(one, joined, pieces):
            key = (*_get_finding_key(place), place.piece, place.start, place.end)
            known = findings.get(key)
            if known is None or known.score < place.score:
                findings[key] = place
    return replace(found, findings=tuple(findings.values()))


def _drop_duplicates(findings: Iterable[Finding], joined: JoinedTexts) -> Iterator[Finding]:
    """Of all that was found somewhere in one joined text, the surest: each would be told of every piece."""
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
    for place in _get_spanned(finding, starts):
        piece = pieces[group[place]]
        start = max(0, finding.start - starts[place])
        end = min(len(piece.text), finding.end - starts[place])
        if finding.start == finding.end:
            start = end = 0  # somewhere in all of it
        elif start >= end:
            continue
        text = finding.text[starts[place] + start - finding.start :][: end - start]
        yield replace(finding, piece=group[place], path=piece.path, start=start, end=end, text=text)


def _get_spanned(finding: Finding, starts: Sequence[int]) -> range:
    if finding.start == finding.end:
        return range(len(starts))
    first = max(0, bisect_right(starts, finding.start) - 1)
    return range(first, bisect_right(starts, finding.end - 1))


def _compute_starts(pieces: Sequence[Scannable], group: Sequence[int]) -> list[int]:
    starts: list[int] = []
    place = 0
    for number in group:
        starts.append(place)
        place += len(pieces[number].text)
    return starts
