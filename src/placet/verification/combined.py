"""Verify evidence with several verifiers."""

from collections.abc import Sequence

from placet.cases.case import Case
from placet.ports.verifier import EvidenceVerifier
from placet.protocol.verification import Evidence, ProofSource, VerificationPolicy, VerifiedEvidence


class CombinedVerifier:
    """Asks the verifier that declares the provider of the evidence."""

    def __init__(self, verifiers: Sequence[EvidenceVerifier]) -> None:
        self._verifiers = verifiers
        self.sources: tuple[ProofSource, ...] = tuple(
            source for verifier in verifiers for source in verifier.sources
        )

    async def verify(
        self, evidence: Evidence, *, case: Case, action: str, policy: VerificationPolicy
    ) -> VerifiedEvidence | None:
        """Return what that verifier found; None if no verifier declares the provider."""
        for verifier in self._verifiers:
            if any(_is_of(source, evidence) for source in verifier.sources):
                return await verifier.verify(evidence, case=case, action=action, policy=policy)
        return None


def _is_of(source: ProofSource, evidence: Evidence) -> bool:
    return (source.proof_type, source.provider) == (evidence.proof_type, evidence.provider)
