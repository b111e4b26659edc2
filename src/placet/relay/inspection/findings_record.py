"""Collect the findings on all legs of one call, for its audit event."""

from placet.relay.policy.evaluation import Evaluation, Outcome
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import Leg


class FindingsRecord:
    """The findings of one call by leg. Inspectors add to it while the call runs."""

    __slots__ = ("findings", "outcome", "unreadable_paths")

    def __init__(self) -> None:
        self.findings: dict[Leg, tuple[Finding, ...]] = {}
        self.unreadable_paths: dict[Leg, tuple[str, ...]] = {}
        self.outcome = Outcome.PASS
        """The strictest outcome of all legs."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no findings and every outcome is to pass."""
        return not self.findings and not self.unreadable_paths and self.outcome is Outcome.PASS

    def add(self, leg: Leg, evaluation: Evaluation) -> None:
        """Add the evaluation of a leg."""
        if evaluation.findings:
            self.findings[leg] = (*self.findings.get(leg, ()), *evaluation.findings)
        if evaluation.unreadable_paths:
            self.unreadable_paths[leg] = (*self.unreadable_paths.get(leg, ()), *evaluation.unreadable_paths)
        if evaluation.outcome.strictness > self.outcome.strictness:
            self.outcome = evaluation.outcome
