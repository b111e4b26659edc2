"""Replace findings in texts with masks."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.policies.finding import Finding, format_mask
from placet.relay.policies.policy import PolicyAction

MIN_TEXT = 100
"""A finding that overlaps a mask gets at least this many characters of the masked text."""


def mask_pieces(pieces: Sequence[Scannable], findings: Iterable[Finding]) -> tuple[Scannable, ...]:
    """Return the pieces with a mask in place of each finding. Overlapping findings share one mask.

    A finding of zero width has no known position, so it masks its whole text.
    """
    spans: dict[int, list[Finding]] = defaultdict(list)
    for finding in findings:
        spans[finding.piece].append(finding)
    return tuple(
        Scannable(piece.path, mask_text(piece.text, spans[index])) if index in spans else piece
        for index, piece in enumerate(pieces)
    )


def mask_and_move(
    pieces: Sequence[Scannable], findings: Sequence[Finding]
) -> tuple[tuple[Scannable, ...], tuple[Finding, ...]]:
    """Mask the findings of MASK policies. Return the masked pieces, and all findings as they are there.

    A finding that overlaps a mask is widened to the whole mask.
    """
    masking: dict[int, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.action is PolicyAction.MASK:
            masking[finding.piece].append(finding)
    masked = mask_pieces(pieces, (one for found in masking.values() for one in found))
    spans = {index: _merge_spans(pieces[index].text, found) for index, found in masking.items()}
    moved = [
        _move_finding(one, masked[one.piece].text, spans[one.piece]) if one.piece in spans else one
        for one in findings
    ]
    return masked, tuple(moved)


def _move_finding(finding: Finding, masked: str, spans: Sequence[tuple[int, int, str]]) -> Finding:
    """Return a finding with its position and text in the masked text."""
    if finding.start == finding.end:
        return replace(finding, start=0, end=0)
    start, end = finding.start, finding.end
    shift = 0
    for first, last, entity in spans:
        mask_start = first + shift
        shift += len(format_mask(entity)) - (last - first)
        if last <= finding.start:
            start, end = finding.start + shift, finding.end + shift
        elif first < finding.end:
            start = min(start, mask_start)
            end = last + shift + max(0, finding.end - last)
    return replace(finding, start=start, end=end, text=masked[start:end][: max(len(finding.text), MIN_TEXT)])


def mask_text(text: str, findings: Iterable[Finding]) -> str:
    """Return the text with its findings masked. A shared mask names the widest finding."""
    parts: list[str] = []
    kept_from = 0
    for start, end, entity in _merge_spans(text, findings):
        parts += (text[kept_from:start], format_mask(entity))
        kept_from = end
    return "".join((*parts, text[kept_from:]))


def _merge_spans(text: str, findings: Iterable[Finding]) -> list[tuple[int, int, str]]:
    merged: list[tuple[int, int, str, int]] = []
    for start, end, entity in sorted((_get_span(text, one) for one in findings), key=lambda span: span[:2]):
        width = end - start
        if merged and start < merged[-1][1]:
            first, last, label, widest = merged[-1]
            merged[-1] = (first, max(last, end), entity if width > widest else label, max(width, widest))
        else:
            merged.append((start, end, entity, width))
    return [span[:3] for span in merged]


def _get_span(text: str, finding: Finding) -> tuple[int, int, str]:
    if finding.start == finding.end:
        return (0, len(text), finding.entity)
    return (finding.start, finding.end, finding.entity)
