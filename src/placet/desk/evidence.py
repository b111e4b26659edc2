"""Verification evidence (spec 0.8): whether an answer by this path has the proofs that it needs.

A proof is either evidence that somebody sends with the answer, which a verifier checks, or it was given and
checked on our own page beforehand, for exactly this answer.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.cases.case import Case, Offer
from placet.desk.answer import Answer
from placet.desk.idempotency import digest
from placet.errors import VerificationFailed, VerificationRequired
from placet.ports.case_store import CaseStore
from placet.ports.verifier import EvidenceVerifier
from placet.protocol.mail_address import is_one_of
from placet.protocol.verification import (
    Evidence,
    HeldProof,
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


def compute_answer_digest(case: Case, action: str, data: dict[str, Any]) -> str:
    """Return the SHA-256 of the case, what was shown, and the answer. Proofs on our page are bound to it."""
    answer = msgspec.json.encode([case.id, case.offer_digest, action, data], order="deterministic")
    return hashlib.sha256(answer).hexdigest()


async def verify_evidence(
    answer: Answer,
    data: dict[str, Any],
    *,
    offer: Offer,
    case: Case,
    verifier: EvidenceVerifier | None,
    store: CaseStore,
    now: datetime,
) -> VerificationOutcome:
    """Return the outcome to record. Raises VerificationRequired or VerificationFailed."""
    policy, evidence = offer.verification_policy, answer.evidence
    if policy is None:  # no policy: the evidence is not verified and proves nothing
        return (
            VerificationOutcome(result=VerificationResult(satisfied=False)) if evidence else NO_VERIFICATION
        )
    is_required = policy.requires_evidence(answer.path)
    if not evidence and answer.given is None:
        if is_required:
            raise VerificationRequired()
        return VerificationOutcome(
            result=VerificationResult(satisfied=False, missing_requirements=find_unmet_branches(policy, ()))
        )
    spent = await _digest_unspent(evidence, store) if policy.binding.single_use else ()
    verified = [await _verify(one, policy, case, answer.action, verifier, now) for one in evidence]
    held = [(one.format, found) for one, found in zip(evidence, verified, strict=True)]
    if answer.given is not None:
        held += _list_page_proofs(answer, compute_answer_digest(case, answer.action, data), policy, now)
        spent += (digest("attempt", answer.given.attempt_id),)
    missing = find_unmet_branches(policy, held)
    if missing and is_required:
        raise VerificationFailed(f"The evidence does not meet: {'; '.join(missing)}.")
    result = VerificationResult(
        satisfied=not missing,
        verified_evidence=tuple(found for _, found in held),
        missing_requirements=missing,
    )
    return VerificationOutcome(result=result, spent=spent)


def require_named_reviewer(offer: Offer, answer: Answer) -> None:
    """Raise VerificationFailed unless the person who answers has proved to be one of the named reviewers."""
    if not offer.reviewers:
        return
    proved = {proof.person.email for proof in (answer.given.proofs if answer.given else ()) if proof.person}
    if not any(is_one_of(email, offer.reviewers) for email in proved if email):
        raise VerificationFailed("Only the people whom this case names can answer it.")


def _list_page_proofs(
    answer: Answer, answer_digest: str, policy: VerificationPolicy, now: datetime
) -> list[HeldProof]:
    given = answer.given
    if given is None or given.answer_digest != answer_digest:
        raise VerificationFailed("The proof was given for another answer. Decide again.")
    binding = policy.binding
    if binding.expires_at is not None and now >= binding.expires_at:
        raise VerificationFailed("The time for this verification has passed.")
    oldest = now - timedelta(seconds=binding.freshness_seconds)
    for proof in given.proofs:
        if proof.found.verified_at is None or proof.found.verified_at < oldest:
            raise VerificationFailed("The proof is too old. Confirm again that it is you.")
    return [(proof.format, proof.found) for proof in given.proofs]


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
