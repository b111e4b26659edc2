"""Combine detector results into an outcome: the strictest wins, and failed checks hold the message."""

from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from math import isfinite

from msgspec import Struct
from msgspec.structs import replace

from placet.ports.detector import Match, Scan, Scannable
from placet.relay.policy.finding import Finding, mask_pieces
from placet.relay.policy.policy import PolicyAction, build_rule
from placet.relay.policy.policy_set import AppliedPolicy

MAX_FINDINGS = 1_000
"""Limit of findings per policy and text. The last finding extends to the end of the text."""

MAX_NEAR_MISSES = 20

UNREADABLE_FILE = "the message contains a file that is not text"

MAX_SHOWN_LENGTH = 1_000
"""Limit of characters of a match that are stored for the reviewer. The page shows the whole text too."""


class Outcome(StrEnum):
    """The outcome of an evaluation, from the mildest to the strictest."""

    PASS = "PASS"  # noqa: S105 - not a password
    LOG = "LOG"
    WARN = "WARN"
    MASK = "MASK"
    HOLD = "HOLD"
    BLOCK = "BLOCK"

    @property
    def strictness(self) -> int:
        """Return the rank of the outcome; a larger rank is stricter."""
        return _STRICTNESS[self]

    @property
    def is_forwarded(self) -> bool:
        """Return whether the message is forwarded at once, unchanged or masked."""
        return self.strictness < Outcome.HOLD.strictness


_STRICTNESS = {outcome: rank for rank, outcome in enumerate(Outcome)}
OUTCOMES: Mapping[PolicyAction, Outcome] = {
    PolicyAction.LOG: Outcome.LOG,
    PolicyAction.WARN: Outcome.WARN,
    PolicyAction.MASK: Outcome.MASK,
    PolicyAction.HUMAN_REVIEW_REQUIRED: Outcome.HOLD,
    PolicyAction.BLOCK: Outcome.BLOCK,
}


class FailedCheck(Struct, frozen=True, kw_only=True):
    """A policy that could not be checked, and the reason."""

    applied: AppliedPolicy
    reason: str


class DetectorResult(Struct, frozen=True, kw_only=True):
    """The scan of one detector. `rules` maps its rule numbers to indexes of the applied policies."""

    detector: str
    rules: Mapping[int, int]
    scan: Scan


class NearMiss(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a policy almost found: its score is below the policy's threshold."""

    policy_id: str
    policy_name: str
    entity: str
    score: float
    threshold: float
    path: str
    start: int
    end: int
    text: str
    hint: str
    """What would raise the score."""


class Evaluation(Struct, frozen=True, kw_only=True):
    """The outcome for a message, and the result of each applied policy.

    Each applied policy is in one of `matched`, `clean`, `unchecked` and `not_reached`. A policy that matched
    before its check failed is both in `matched` and in `unchecked`.
    """

    outcome: Outcome
    decided_by: AppliedPolicy | None = None
    """The first policy with the strictest outcome; None if no policy matched or failed."""
    matched: tuple[AppliedPolicy, ...] = ()
    clean: tuple[AppliedPolicy, ...] = ()
    unchecked: tuple[FailedCheck, ...] = ()
    not_reached: tuple[AppliedPolicy, ...] = ()
    """Policies that were not checked because another policy had already blocked the message."""
    findings: tuple[Finding, ...] = ()
    unreadable_paths: tuple[str, ...] = ()
    """Paths of content that is not text, such as files. Detectors do not check it."""
    near_misses: tuple[NearMiss, ...] = ()
    """What policies almost found, for dry runs."""

    def mask(self, pieces: Sequence[Scannable]) -> tuple[Scannable, ...]:
        """Return the texts with the findings of MASK policies masked. Released messages are masked too."""
        return mask_pieces(pieces, (one for one in self.findings if one.action is PolicyAction.MASK))

    @property
    def reason(self) -> str:
        """Return the reason for the outcome in one sentence, without content of the message."""
        if self.decided_by is None:
            return "No policy applies." if not self.clean else "No policy matched."
        policy = self.decided_by.policy
        for one in self.unchecked:
            if one.applied is self.decided_by and self.outcome is Outcome.HOLD:
                return f"{policy.name} could not be checked: {one.reason}."
        return f"{policy.name} matched, and its action is {policy.action}."


def build_clean_evaluation(applied: Sequence[AppliedPolicy]) -> Evaluation:
    """Return the evaluation of a message that none of these policies matched."""
    return Evaluation(outcome=Outcome.PASS, clean=tuple(applied))


def is_final(applied: Sequence[AppliedPolicy], result: DetectorResult, pieces: Sequence[Scannable]) -> bool:
    """Return whether a BLOCK policy matched, so that further checks cannot change the outcome."""
    return any(
        index is not None
        and applied[index].policy.action is PolicyAction.BLOCK
        and _reaches_threshold(match, applied[index])
        for match in result.scan.matches
        if _is_valid_match(match, pieces)
        for index in (result.rules.get(match.rule),)
    )


def evaluate_scans(
    applied: Sequence[AppliedPolicy], results: Iterable[DetectorResult], pieces: Sequence[Scannable]
) -> Evaluation:
    """Return the evaluation of the detectors' results. Policies in no result count as not reached."""
    reached: set[int] = set()
    failures: dict[int, str] = {}
    found: dict[int, list[Finding]] = {}
    for result in results:
        reached.update(result.rules.values())
        _collect_findings(result, applied, pieces, found, failures)
    not_reached = {index for index in range(len(applied)) if index not in reached}
    decided_by, outcome = _choose_strictest(applied, found, failures)
    return Evaluation(
        outcome=outcome,
        decided_by=decided_by,
        matched=tuple(applied[index] for index in sorted(found)),
        clean=tuple(
            one
            for index, one in enumerate(applied)
            if index not in found and index not in failures and index not in not_reached
        ),
        unchecked=tuple(
            FailedCheck(applied=applied[index], reason=failures[index]) for index in sorted(failures)
        ),
        not_reached=tuple(applied[index] for index in sorted(not_reached)),
        findings=tuple(finding for index in sorted(found) for finding in found[index]),
    )


def build_near_misses(
    applied: Sequence[AppliedPolicy], results: Iterable[DetectorResult], pieces: Sequence[Scannable]
) -> tuple[NearMiss, ...]:
    """Return what policies almost found, each once."""
    near_misses: dict[tuple[int, str, int, int], NearMiss] = {}
    for result in results:
        for match in result.scan.near_misses:
            index = result.rules.get(match.rule)
            if index is None or not _is_valid_match(match, pieces) or len(near_misses) >= MAX_NEAR_MISSES:
                continue
            policy, piece = applied[index].policy, pieces[match.piece]
            near_misses[index, piece.path, match.start, match.end] = NearMiss(
                policy_id=policy.policy_id,
                policy_name=policy.name,
                entity=match.entity,
                score=match.score,
                threshold=build_rule(policy.config).threshold,
                path=piece.path,
                start=match.start,
                end=match.end,
                text=piece.text[match.start : min(match.end, match.start + MAX_SHOWN_LENGTH)],
                hint=match.hint,
            )
    return tuple(near_misses.values())


def exempt_approved(
    evaluation: Evaluation,
    approved: Set[int],
    *,
    approved_findings: Set[int] = frozenset(),
    all_approved: bool,
) -> Evaluation:
    """Return the evaluation without holds for texts that a person has approved.

    `approved` has the indexes of these texts, and `approved_findings` those of findings in other texts that a
    person has approved. Findings of policies that mask or block are not exempt. Failed
    checks are exempt if a person has approved every text.
    """
    findings = tuple(
        one
        for index, one in enumerate(evaluation.findings)
        if (one.piece not in approved and index not in approved_findings)
        or one.action is not PolicyAction.HUMAN_REVIEW_REQUIRED
    )
    matching = {(one.policy_id, one.policy_version) for one in findings}
    candidates = {
        one.policy.key: one for one in (*evaluation.matched, *(one.applied for one in evaluation.unchecked))
    }
    matched = tuple(one for one in evaluation.matched if one.policy.key in matching)
    unchecked = () if all_approved else evaluation.unchecked
    kept = {one.policy.key for one in matched} | {one.applied.policy.key for one in unchecked}
    applied = list(candidates.values())
    decided_by, outcome = _choose_strictest(
        applied,
        [index for index, one in enumerate(applied) if one.policy.key in matching],
        [index for index, one in enumerate(applied) if any(one is other.applied for other in unchecked)],
    )
    return replace(
        evaluation,
        outcome=outcome,
        decided_by=decided_by,
        matched=matched,
        clean=(*evaluation.clean, *(one for key, one in candidates.items() if key not in kept)),
        unchecked=unchecked,
        findings=findings,
    )


def add_findings(evaluation: Evaluation, other: Evaluation) -> Evaluation:
    """Return the evaluation with the findings of another evaluation by the same policies."""
    if not other.findings:
        return evaluation
    keys = {(one.policy_id, one.policy_version) for one in other.findings}
    matched = [one for one in other.matched if one.policy.key in keys]
    new = [one for one in matched if one not in evaluation.matched]
    decided_by, outcome = _choose_strictest(matched, range(len(matched)), ())
    is_stricter = outcome.strictness > evaluation.outcome.strictness
    return replace(
        evaluation,
        outcome=outcome if is_stricter else evaluation.outcome,
        decided_by=decided_by if is_stricter else evaluation.decided_by,
        matched=(*evaluation.matched, *new),
        clean=tuple(one for one in evaluation.clean if one not in new),
        findings=(*evaluation.findings, *other.findings),
    )


def hold_unchecked(evaluation: Evaluation, failed: Sequence[AppliedPolicy], reason: str) -> Evaluation:
    """Return the evaluation with these policies as failed checks, which hold the message."""
    if not failed or evaluation.outcome is Outcome.BLOCK:
        return evaluation
    keys = {one.policy.key for one in failed}
    known = {one.applied.policy.key for one in evaluation.unchecked}
    is_held = evaluation.outcome is Outcome.HOLD
    return replace(
        evaluation,
        outcome=Outcome.HOLD,
        decided_by=evaluation.decided_by if is_held else failed[0],
        clean=tuple(one for one in evaluation.clean if one.policy.key not in keys),
        unchecked=(
            *evaluation.unchecked,
            *(FailedCheck(applied=one, reason=reason) for one in failed if one.policy.key not in known),
        ),
    )


def _collect_findings(
    result: DetectorResult,
    applied: Sequence[AppliedPolicy],
    pieces: Sequence[Scannable],
    found: dict[int, list[Finding]],
    failures: dict[int, str],
) -> None:
    for rule, reason in result.scan.unchecked.items():
        if rule in result.rules:
            failures[result.rules[rule]] = reason
    counts: dict[tuple[int, int], int] = {}
    for match in sorted(result.scan.matches, key=lambda one: (one.rule, one.piece, one.start, one.end)):
        index = result.rules.get(match.rule)
        if index is None:
            continue
        if not _is_valid_match(match, pieces):
            failures[index] = "its detector returned a position that is not in the message"
        elif _reaches_threshold(match, applied[index]):
            count = counts[index, match.piece] = counts.get((index, match.piece), 0) + 1
            if count <= MAX_FINDINGS:
                to_end = count == MAX_FINDINGS
                found.setdefault(index, []).append(
                    _build_finding(match, applied[index], pieces, result.detector, to_end=to_end)
                )


def _reaches_threshold(match: Match, applied: AppliedPolicy) -> bool:
    return match.score >= build_rule(applied.policy.config).threshold


def _is_valid_match(match: Match, pieces: Sequence[Scannable]) -> bool:
    if not 0 <= match.piece < len(pieces) or not isfinite(match.score):
        return False
    return 0 <= match.start <= match.end <= len(pieces[match.piece].text)


def _build_finding(
    match: Match, applied: AppliedPolicy, pieces: Sequence[Scannable], detector: str, *, to_end: bool
) -> Finding:
    piece = pieces[match.piece]
    end = len(piece.text) if to_end else match.end
    policy = applied.policy
    return Finding(
        policy_id=policy.policy_id,
        policy_name=policy.name,
        policy_version=policy.version,
        policy_level=applied.level,
        action=policy.action,
        detector=detector,
        entity=match.entity,
        score=match.score,
        path=piece.path,
        piece=match.piece,
        start=match.start,
        end=end,
        text=piece.text[match.start : min(end, match.start + MAX_SHOWN_LENGTH)],
    )


def _choose_strictest(
    applied: Sequence[AppliedPolicy], matched: Iterable[int], failed: Iterable[int]
) -> tuple[AppliedPolicy | None, Outcome]:
    outcomes = {index: OUTCOMES[applied[index].policy.action] for index in matched}
    for index in failed:
        known = outcomes.get(index, Outcome.HOLD)
        outcomes[index] = max(known, Outcome.HOLD, key=lambda outcome: outcome.strictness)
    if not outcomes:
        return None, Outcome.PASS
    first = min(outcomes, key=lambda index: (-outcomes[index].strictness, index))
    return applied[first], outcomes[first]
