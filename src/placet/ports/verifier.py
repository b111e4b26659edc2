"""The interface to verifiers of evidence."""

from typing import Protocol

from placet.cases.case import Case
from placet.protocol.verification import Evidence, ProofSource, VerificationPolicy, VerifiedEvidence


class EvidenceVerifier(Protocol):
    """Verifies the evidence of one or more providers, on the server."""

    sources: tuple[ProofSource, ...]
    """What it can verify. A case whose policy needs anything else is refused when it is opened."""

    async def verify(
        self, evidence: Evidence, *, case: Case, action: str, policy: VerificationPolicy
    ) -> VerifiedEvidence | None:
        """Return what was verified, or None. Any exception counts as a failed verification.

        The verifier must check everything that the policy binds, and report it: `bound_to_case` and
        `bound_to_action` if the binding asks for them, `fresh` always. What it
        does not report is not verified.
        """
        ...
