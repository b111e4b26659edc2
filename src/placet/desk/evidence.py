"""Verification evidence (spec 0.8): whether an answer by this path has the evidence that it needs."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from placet.cases.case import Case
from placet.desk.idempotency import digest
from placet.errors import VerificationFailed, VerificationRequired
from placet.ports.case_store import CaseStore
from placet.ports.verifier import EvidenceVerifier
from placet.protocol.verification import (
    Evidence,
    SubmitPath,
    VerificationPolicy,
    VerificationResult,
    VerifiedEvidence,
    encode_evidence,
    find_unmet_branches,
)


class VerificationOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of verification, and the digests of the evidence that is now used up."""

    result: VerificationResult | None = None
    spent: tuple[str, ...] = ()


NO_VERIFICATION = VerificationOutcome()


async def verify_evidence(
    evidence: Sequence[Evidence],
    *,
    policy: VerificationPolicy | None,
    path: SubmitPath,
    case: Case,
    action: str,
    verifier: EvidenceVerifier | None,
    store: CaseStore,
    now: datetime,
) -> VerificationOutcome:
    """Return the outcome to record. Raises VerificationRequired or VerificationFailed."""
    if policy is None:  # no policy: the evidence is not verified and proves nothing
        return (
            VerificationOutcome(result=VerificationResult(satisfied=False)) if evidence else NO_VERIFICATION
        )
    if not evidence:
        if policy.requires_evidence(path):
            raise VerificationRequired()
        return VerificationOutcome(
            result=VerificationResult(satisfied=False, missing_requirements=find_unmet_branches(policy, ()))
        )
    spent = await _digest_unspent(evidence, store) if policy.binding.single_use else ()
    verified = [await _verify(one, policy, case, action, verifier, now) for one in evidence]
    missing = find_unmet_branches(policy, list(zip(evidence, verified, strict=True)))
    if missing and policy.requires_evidence(path):
        raise VerificationFailed(f"The evidence does not meet: {'; '.join(missing)}.")
    result = VerificationResult(
        satisfied=not missing, verified_evidence=tuple(verified), missing_requirements=missing
    )
    return VerificationOutcome(result=result, spent=spent)


async def _digest_unspent(evidence: Sequence[Evidence], store: CaseStore) -> tuple[str, ...]:
    digests = tuple(dict.fromkeys(digest(encode_evidence(one)) for one in evidence))
    if await store.is_evidence_spent(digests):
        raise VerificationFailed("This evidence has been used before.")
    return digests


async def _verify(
    evidence: Evidence,
    policy: VerificationPolicy,
    case: Case,
    action: str,
    verifier: EvidenceVerifier | None,
    now: datetime,
) -> VerifiedEvidence:
    _check_binding(evidence, policy, case, action, now)
    if verifier is None:
        raise VerificationFailed(f"This server has no verifier for provider {evidence.provider[:50]!r}.")
    try:
        found = await verifier.verify(evidence, case=case, action=action, policy=policy)
    except Exception as error:  # a verifier that fails has verified nothing
        raise VerificationFailed("The evidence could not be verified.") from error
    if found is None or (found.proof_type, found.provider) != (evidence.proof_type, evidence.provider):
        raise VerificationFailed()
    _check_findings(found, policy)
    return replace(found, single_use_enforced=policy.binding.single_use, verified_at=found.verified_at or now)


def _check_binding(
    evidence: Evidence, policy: VerificationPolicy, case: Case, action: str, now: datetime
) -> None:
    binding = policy.binding
    expected = {
        "case_id": case.id if binding.case_id else None,
        "action": action if binding.action else None,
        "challenge": binding.challenge,
    }
    for name, value in expected.items():
        if value is not None and evidence.binding.get(name) != value:
            raise VerificationFailed(f"The evidence is not bound to this {name}.")
    if binding.expires_at is not None and now >= binding.expires_at:
        raise VerificationFailed("The time for this verification has passed.")


def _check_findings(found: VerifiedEvidence, policy: VerificationPolicy) -> None:
    """Check what the verifier found: the claims in the evidence itself are not verified."""
    binding = policy.binding
    demanded = {"bound_to_case": binding.case_id, "bound_to_action": binding.action, "fresh": True}
    for name, is_demanded in demanded.items():
        if is_demanded and getattr(found, name) is not True:
            raise VerificationFailed(f"The verifier did not find the evidence {name.replace('_', ' ')}.")
