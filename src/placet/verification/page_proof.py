"""What our own methods say of a proof: they bind every proof to one answer and take it once."""

from datetime import datetime

from placet.ports.verification_store import PageProof
from placet.protocol.poll import RespondedBy
from placet.protocol.verification import ProofSource, VerifiedEvidence


def build_page_proof(source: ProofSource, *, now: datetime, person: RespondedBy | None = None) -> PageProof:
    """Return the proof of this kind that was just verified."""
    found = VerifiedEvidence(
        proof_type=source.proof_type,
        provider=source.provider,
        assurance_level=source.assurance,
        bound_to_case=True,
        bound_to_action=True,
        fresh=True,
        single_use_enforced=True,
        verified_at=now,
    )
    return PageProof(format=source.formats[0], found=found, person=person)
