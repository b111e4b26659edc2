"""Combine detector results into an outcome: the strictest wins, and failed checks hold the message."""

from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from math import isfinite

from msgspec import Struct
from msgspec.structs import replace

from placet.ports.detector import Match, Scan, Scannable
from placet.relay.policies.finding import Finding
from placet.relay.policies.masking import mask_pieces
from placet.relay.policies.policy import PolicyAction, build_rule
from placet.relay.policies.policy_set import AppliedPolicy

MAX_FINDINGS = 1_000
"""So many findings of one policy in one text are told one by one; the last covers what comes after them."""

UNREADABLE_FILE = "there is a file in it that is no text"

MAX_SHOWN = 1_000
"""So many characters of a match are kept for the reviewer, who has the whole text beside it."""


class Outcome(StrEnum):
    """What becomes of a message, from the mildest to the strictest."""

    PASS = "PASS"  # noqa: S105 - not a password
    LOG = "LOG"
    WARN = "WARN"
    MASK = "MASK"
    HOLD = "HOLD"
    BLOCK = "BLOCK"

    @property
    def strictness(self) -> int:
        """Larger is stricter."""
        return _STRICTNESS[self]

    @property
    def goes_on(self) -> bool:
        """Whether the message is forwarded at once, as it is or masked."""
        return self.strictness < Outcome.HOLD.strictness


_STRICTNESS = {outcome: place for place, outcome in enumerate(Outcome)}
OUTCOMES: Mapping[PolicyAction, Outcome] = {
    PolicyAction.LOG: Outcome.LOG,
    PolicyAction.WARN: Outcome.WARN,
    PolicyAction.MASK: Outcome.MASK,
    PolicyAction.HUMAN_REVIEW_REQUIRED: Outcome.HOLD,
    PolicyAction.BLOCK: Outcome.BLOCK,
}


class FailedCheck(Struct, frozen=True, kw_only=True):
    """A policy that could not be checked, and why."""

    applied: AppliedPolicy
    reason: str


class DetectorResult(Struct, frozen=True, kw_only=True):
    """What one detector said: its rules are the applied policies at these places, by the rule's number."""

    detector: str
    rules: Mapping[int, int]
    scan: Scan


class Evaluation(Struct, frozen=True, kw_only=True):
    """What becomes of a message and why; each applied policy is in one of the four lists.

    One that found something before it failed is both in `matched` and in `unchecked`.
    """

    outcome: Outcome
    decided_by: AppliedPolicy | None = None
    """The first of the strictest; None if nothing was found."""
    matched: tuple[AppliedPolicy, ...] = ()
    clean: tuple[AppliedPolicy, ...] = ()
    unchecked: tuple[FailedCheck, ...] = ()
    not_reached: tuple[AppliedPolicy, ...] = ()
    """Not looked at, because the message was blocked before."""
    findings: tuple[Finding, ...] = ()
    opaque: tuple[str, ...] = ()
    """Where the message carries content that is no text, such as files: nobody looked at it."""

    def mask(self, pieces: Sequence[Scannable]) -> tuple[Scannable, ...]:
        """The texts to forward: without what MASK policies found, now or when a held message is released."""
        return mask_pieces(pieces, (one for one in self.findings if one.action is PolicyAction.MASK))

    @property
    def reason(self) -> str:
        """Why, in one sentence that shows nothing of the message."""
        if self.decided_by is None:
            return "No policy applies." if not self.clean else "No policy found anything."
        policy = self.decided_by.policy
        for one in self.unchecked:
            if one.applied is self.decided_by and self.outcome is Outcome.HOLD:
                return f"{policy.name} could not be checked: {one.reason}."
        return f"{policy.name} found something, and its action is {policy.action}."


def build_clean_evaluation(applied: Sequence[AppliedPolicy]) -> Evaluation:
    """The evaluation of a message in which all of these found nothing."""
    return Evaluation(outcome=Outcome.PASS, clean=tuple(applied))


def is_final(applied: Sequence[AppliedPolicy], stage: DetectorResult, pieces: Sequence[Scannable]) -> bool:
    """Whether nothing that follows could change the outcome: a policy that blocks has matched."""
    return any(
        place is not None
        and applied[place].policy.action is PolicyAction.BLOCK
        and _reaches_threshold(match, applied[place])
        for match in stage.scan.matches
        if _is_valid_match(match, pieces)
        for place in (stage.rules.get(match.rule),)
    )


def evaluate_scans(
    applied: Sequence[AppliedPolicy], stages: Iterable[DetectorResult], pieces: Sequence[Scannable]
) -> Evaluation:
    """Put together what the detectors said; policies that no stage names were not reached."""
    reached: set[int] = set()
    doubts: dict[int, str] = {}
    found: dict[int, list[Finding]] = {}
    for stage in stages:
        reached.update(stage.rules.values())
        _collect_findings(stage, applied, pieces, found, doubts)
    missed = {place for place in range(len(applied)) if place not in reached}
    decided_by, outcome = _choose_strictest(applied, found, doubts)
    return Evaluation(
        outcome=outcome,
        decided_by=decided_by,
        matched=tuple(applied[place] for place in sorted(found)),
        clean=tuple(
            one
            for place, one in enumerate(applied)
            if place not in found and place not in doubts and place not in missed
        ),
        unchecked=tuple(
            FailedCheck(applied=applied[place], reason=doubts[place]) for place in sorted(doubts)
        ),
        not_reached=tuple(applied[place] for place in sorted(missed)),
        findings=tuple(finding for place in sorted(found) for finding in found[place]),
    )


def exempt_approved(evaluation: Evaluation, approved: Set[int], *, all_approved: bool) -> Evaluation:
    """The evaluation once nothing is held any more for texts that a person let pass, given by their number.

    Only holds are spared: what another policy masks or blocks stays so. Doubts are spared if a person has
    seen every text.
    """
    findings = tuple(
        one
        for one in evaluation.findings
        if one.piece not in approved or one.action is not PolicyAction.HUMAN_REVIEW_REQUIRED
    )
    named = {(one.policy_id, one.policy_version) for one in findings}
    every = {
        _get_version_key(one): one
        for one in (*evaluation.matched, *(one.applied for one in evaluation.unchecked))
    }
    matched = tuple(one for one in evaluation.matched if _get_version_key(one) in named)
    unchecked = () if all_approved else evaluation.unchecked
    kept = {_get_version_key(one) for one in matched} | {_get_version_key(one.applied) for one in unchecked}
    applied = list(every.values())
    decided_by, outcome = _choose_strictest(
        applied,
        [place for place, one in enumerate(applied) if _get_version_key(one) in named],
        [place for place, one in enumerate(applied) if any(one is other.applied for other in unchecked)],
    )
    return replace(
        evaluation,
        outcome=outcome,
        decided_by=decided_by,
        matched=matched,
        clean=(*evaluation.clean, *(one for name, one in every.items() if name not in kept)),
        unchecked=unchecked,
        findings=findings,
    )


def hold_unchecked(evaluation: Evaluation, doubtful: Sequence[AppliedPolicy], reason: str) -> Evaluation:
    """The evaluation once these policies could not look at all of a message, which holds it."""
    if not doubtful or evaluation.outcome is Outcome.BLOCK:
        return evaluation
    names = {_get_version_key(one) for one in doubtful}
    known = {_get_version_key(one.applied) for one in evaluation.unchecked}
    held = evaluation.outcome is Outcome.HOLD
    return replace(
        evaluation,
        outcome=Outcome.HOLD,
        decided_by=evaluation.decided_by if held else doubtful[0],
        clean=tuple(one for one in evaluation.clean if _get_version_key(one) not in names),
        unchecked=(
            *evaluation.unchecked,
            *(
                FailedCheck(applied=one, reason=reason)
                for one in doubtful
                if _get_version_key(one) not in known
            ),
        ),
    )


def _get_version_key(applied: AppliedPolicy) -> tuple[str, str]:
    return (applied.policy.policy_id, applied.policy.version)


def _collect_findings(
    stage: DetectorResult,
    applied: Sequence[AppliedPolicy],
    pieces: Sequence[Scannable],
    found: dict[int, list[Finding]],
    doubts: dict[int, str],
) -> None:
    for rule, reason in stage.scan.unchecked.items():
        if rule in stage.rules:
            doubts[stage.rules[rule]] = reason
    told: dict[tuple[int, int], int] = {}
    for match in sorted(stage.scan.matches, key=lambda one: (one.rule, one.piece, one.start, one.end)):
        place = stage.rules.get(match.rule)
        if place is None:
            continue
        if not _is_valid_match(match, pieces):
            doubts[place] = "its detector named a place that the message does not have"
        elif _reaches_threshold(match, applied[place]):
            count = told[place, match.piece] = told.get((place, match.piece), 0) + 1
            if count <= MAX_FINDINGS:
                rest = count == MAX_FINDINGS
                found.setdefault(place, []).append(
                    _build_finding(match, applied[place], pieces, stage.detector, rest=rest)
                )


def _reaches_threshold(match: Match, applied: AppliedPolicy) -> bool:
    return match.score >= build_rule(applied.policy.config).threshold


def _is_valid_match(match: Match, pieces: Sequence[Scannable]) -> bool:
    if not 0 <= match.piece < len(pieces) or not isfinite(match.score):
        return False
    return 0 <= match.start <= match.end <= len(pieces[match.piece].text)


def _build_finding(
    match: Match, applied: AppliedPolicy, pieces: Sequence[Scannable], detector: str, *, rest: bool
) -> Finding:
    piece = pieces[match.piece]
    end = len(piece.text) if rest else match.end
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
        text=piece.text[match.start : min(end, match.start + MAX_SHOWN)],
    )


def _choose_strictest(
    applied: Sequence[AppliedPolicy], found: Iterable[int], doubts: Iterable[int]
) -> tuple[AppliedPolicy | None, Outcome]:
    outcomes = {place: OUTCOMES[applied[place].policy.action] for place in found}
    for place in doubts:
        known = outcomes.get(place, Outcome.HOLD)
        outcomes[place] = max(known, Outcome.HOLD, key=lambda outcome: outcome.strictness)
    if not outcomes:
        return None, Outcome.PASS
    place = min(outcomes, key=lambda one: (-outcomes[one].strictness, one))
    return applied[place], outcomes[place]
