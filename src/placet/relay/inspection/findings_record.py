"""Collect what was found on all legs of one call, for its audit event."""

from placet.relay.policies.evaluation import Evaluation, Outcome
from placet.relay.policies.finding import Finding
from placet.relay.policies.policy import Leg


class FindingsRecord:
    """Findings of one call by leg, filled in by inspectors while the call runs."""

    __slots__ = ("findings", "opaque", "outcome")

    def __init__(self) -> None:
        self.findings: dict[Leg, tuple[Finding, ...]] = {}
        self.opaque: dict[Leg, tuple[str, ...]] = {}
        self.outcome = Outcome.PASS
        """The strictest of all legs."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found."""
        return not self.findings and not self.opaque and self.outcome is Outcome.PASS

    def add(self, leg: Leg, evaluation: Evaluation) -> None:
        """Take in what came of a leg."""
        if evaluation.findings:
            self.findings[leg] = (*self.findings.get(leg, ()), *evaluation.findings)
        if evaluation.opaque:
            self.opaque[leg] = (*self.opaque.get(leg, ()), *evaluation.opaque)
        if evaluation.outcome.strictness > self.outcome.strictness:
            self.outcome = evaluation.outcome
