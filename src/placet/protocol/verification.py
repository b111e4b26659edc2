"""Verification evidence (spec 0.8): required, presented and verified proofs."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from placet.protocol.conversion import anchor_pattern
from placet.protocol.timestamp import Timestamp

Assurance = Literal["low", "medium", "high"]
SubmitPath = Literal["inline_submit", "browser_submit"]
Fallback = Literal["browser_review", "reject"]
ProofType = Annotated[str, Meta(pattern=anchor_pattern("proof_of_human|x-.+"), max_length=100)]
ProofFormat = Annotated[
    str, Meta(pattern=anchor_pattern("provider_opaque|jwt|zkp|attestation|x-.+"), max_length=100)
]
ShortText = Annotated[str, Meta(max_length=500)]

ASSURANCE_ORDER: tuple[Assurance, ...] = ("low", "medium", "high")


class EvidenceRequirement(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One required proof."""

    proof_type: ProofType
    provider: ShortText | None = None
    min_assurance: Assurance | None = None
    presentation_formats: tuple[ProofFormat, ...] | None = None


class RequirementBranch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Proofs that are all required."""

    all_of: Annotated[tuple[EvidenceRequirement, ...], Meta(min_length=1, max_length=20)]


class Requirements(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Branches of which one must be satisfied."""

    any_of: Annotated[tuple[RequirementBranch, ...], Meta(min_length=1, max_length=20)]


class PolicyBinding(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the evidence must be bound to."""

    case_id: bool
    action: bool
    freshness_seconds: Annotated[int, Meta(ge=1)]
    single_use: bool
    challenge: ShortText | None = None
    expires_at: Timestamp | None = None


class PolicyFallback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens if evidence is missing or invalid."""

    on_missing: Fallback
    on_invalid: Fallback


class VerificationPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When evidence is required, which, and what it is bound to."""

    mode: Literal["optional", "required", "step_up"]
    required_for: Annotated[tuple[SubmitPath, ...], Meta(min_length=1, max_length=2)]
    requirements: Requirements
    binding: PolicyBinding
    fallback: PolicyFallback

    def requires_evidence(self, path: SubmitPath) -> bool:
        """Return whether an answer by this path requires evidence; also in step-up mode."""
        return self.mode != "optional" and path in self.required_for


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One presented proof; opaque until the verifier of its provider has checked it."""

    proof_type: ProofType
    provider: ShortText
    format: ProofFormat
    presentation: str | dict[str, Any]
    binding: dict[str, Any]


class VerifiedEvidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One verified proof, without the proof material."""

    proof_type: str
    provider: str
    assurance_level: Assurance | None = None
    bound_to_case: bool | None = None
    bound_to_action: bool | None = None
    fresh: bool | None = None
    single_use_enforced: bool | None = None
    verified_at: Timestamp | None = None


class VerificationResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of verification in a completed case."""

    satisfied: bool
    verified_evidence: tuple[VerifiedEvidence, ...] = ()
    missing_requirements: tuple[str, ...] = ()


Held = tuple[Evidence, VerifiedEvidence]


def find_unmet_branches(policy: VerificationPolicy, held: Sequence[Held]) -> tuple[str, ...]:
    """Return the names of the unsatisfied branches; empty if one branch is satisfied."""
    missing = []
    for branch in policy.requirements.any_of:
        open_points = [need for need in branch.all_of if not any(satisfies(need, *one) for one in held)]
        if not open_points:
            return ()
        missing.append(" and ".join(_describe_requirement(need) for need in open_points))
    return tuple(missing)


def satisfies(need: EvidenceRequirement, evidence: Evidence, found: VerifiedEvidence) -> bool:
    """Return whether one verified proof, in its presented format, satisfies one requirement."""
    if need.proof_type != found.proof_type or need.provider not in (None, found.provider):
        return False
    if need.presentation_formats is not None and evidence.format not in need.presentation_formats:
        return False
    if need.min_assurance is None:
        return True
    level = found.assurance_level
    return level is not None and ASSURANCE_ORDER.index(level) >= ASSURANCE_ORDER.index(need.min_assurance)


def _describe_requirement(need: EvidenceRequirement) -> str:
    return ":".join(part for part in (need.proof_type, need.provider, need.min_assurance) if part)


def encode_evidence(evidence: Evidence) -> bytes:
    """Return the bytes whose digest identifies evidence that was used."""
    return msgspec.json.encode([evidence.provider, evidence.presentation], order="deterministic")
