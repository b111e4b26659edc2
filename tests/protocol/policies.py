"""Verification policies and the evidence that meets them."""

from typing import Any

import msgspec

from placet.protocol.verification import (
    Evidence,
    ProofSource,
    SubmitPath,
    VerificationPolicy,
    VerifiedEvidence,
)


def policy(**changes: Any) -> VerificationPolicy:
    """Proof of a human from one provider, required inline, bound and used once; `changes` are its fields."""
    fields: dict[str, Any] = {
        "mode": "required",
        "required_for": ["inline_submit"],
        "requirements": {"any_of": [{"all_of": [{"proof_type": "proof_of_human", "provider": "mark"}]}]},
        "binding": {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True},
        "fallback": {"on_missing": "browser_review", "on_invalid": "reject"},
    }
    return msgspec.convert(fields | changes, VerificationPolicy)


def require_branches(*branches: list[dict[str, Any]]) -> VerificationPolicy:
    """A policy that is met when all needs of one branch are."""
    return policy(requirements={"any_of": [{"all_of": branch} for branch in branches]})


def evidence(**changes: Any) -> Evidence:
    """A proof as it is presented."""
    fields: dict[str, Any] = {
        "proof_type": "proof_of_human",
        "provider": "mark",
        "format": "jwt",
        "presentation": "header.payload.signature",
        "binding": {},
    }
    return msgspec.convert(fields | changes, Evidence)


def verified_evidence(**changes: Any) -> VerifiedEvidence:
    """What a verifier says of it."""
    return VerifiedEvidence(**{"proof_type": "proof_of_human", "provider": "mark"} | changes)


def proof_sources(*proof_types: str, provider: str = "mark") -> tuple[ProofSource, ...]:
    """What a verifier of these proofs declares, on both paths, in any format and of high assurance."""
    paths: frozenset[SubmitPath] = frozenset({"inline_submit", "browser_submit"})
    formats = ("provider_opaque", "jwt", "zkp", "attestation")
    return tuple(
        ProofSource(proof_type=one, provider=provider, formats=formats, paths=paths, assurance="high")
        for one in proof_types
    )
