"""Findings: where a policy found something, how it is masked, and by which digest it is recognised."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.policy.binding import BindingLevel
from placet.relay.policy.policy import PolicyAction

MIN_REDACTED, PROBE_LENGTH = 3, 8
_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,60}\Z")

MIN_TEXT = 100
"""A finding that overlaps a mask gets at least this many characters of the masked text."""


class Finding(Struct, frozen=True, kw_only=True, rename="camel"):
    """One match of one policy. `start` and `end` are character offsets into the text at `path`."""

    policy_id: str
    policy_name: str
    policy_version: str
    policy_level: BindingLevel
    action: PolicyAction
    detector: str
    entity: str
    score: float
    path: str
    piece: int
    """Index of the scanned text. Several texts can share a path that was too long and was cut."""
    start: int
    end: int
    text: str
    """The matched text or its beginning, for the reviewer only."""


def cut_finding(finding: Finding, begin: int, end: int) -> Finding | None:
    """Return the part of a finding between two positions of its text, or None if there is none."""
    start, stop = max(finding.start, begin), min(finding.end, end)
    if start >= stop:
        return None
    text = finding.text[start - finding.start :][: stop - start]
    return replace(finding, start=start - begin, end=stop - begin, text=text)


def cut_findings(findings: Iterable[Finding], lengths: Sequence[int]) -> list[list[Finding]]:
    """Return the findings in a joined text as those in its parts. `lengths` are those of the parts."""
    findings, cut, begin = list(findings), [], 0
    for length in lengths:
        parts = (cut_finding(one, begin, begin + length) for one in findings)
        cut.append([part for part in parts if part is not None])
        begin += length
    return cut


def redact_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without the matched texts.

    Paths are redacted too: they contain names of fields, and a policy can match a name.
    """
    findings = list(findings)
    probes = {one.text[:PROBE_LENGTH] for one in findings if len(one.text) >= MIN_REDACTED}
    return [
        replace(one, text=format_mask(one.entity), path=_redact_path(one.path, probes)) for one in findings
    ]


def _redact_path(path: str, probes: Iterable[str]) -> str:
    """Return the path cut before the first probe. Probes are short because paths cut long names."""
    positions = [position for text in probes if (position := path.find(text)) >= 0]
    return path[: min(positions)] + "[MASKED]" if positions else path


def format_mask(entity: str) -> str:
    """Return the replacement for a masked text. It names the entity only if the name is a safe label."""
    return f"[MASKED:{entity}]" if _LABEL.match(entity) else "[MASKED]"


def omit_sensitive_id(id: str | None, findings: Iterable[Finding]) -> str | None:
    """Return an id that the sender chose, or None if it contains a matched text. The audit log stores it."""
    is_sensitive = id is not None and any(
        len(one.text) >= MIN_REDACTED and one.text in id for one in findings
    )
    return None if is_sensitive else id


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


def digest_text(text: str) -> str:
    """Return the digest by which an approved text is recognised."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_match(finding: Finding) -> str | None:
    """Return the digest by which an approved match of a policy is recognised in other texts.

    It is None if the finding has only the beginning of the match, or no text.
    """
    if not finding.text or len(finding.text) != finding.end - finding.start:
        return None
    return digest_text(f"\x00match\x00{finding.policy_id}\x00{finding.text}")


def digest_file(content: str) -> str:
    """Return the digest by which an approved file is recognised. It never equals the digest of a text."""
    return digest_text(f"\x00file\x00{content}")
