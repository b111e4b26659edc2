"""Verification evidence (spec 0.8): required, presented and verified proofs."""

from collections.abc import Callable, Sequence
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

PASSKEY = "x-passkey"
EMAIL_CODE = "x-email-code"
NETWORK = "x-network"
IDENTIFYING = frozenset({PASSKEY, EMAIL_CODE})
"""The proof types of ours that tell who the person is."""
OWN_PROVIDER = "placet"

ASSURANCE_ORDER: tuple[Assurance, ...] = ("low", "medium", "high")


class EvidenceRequirement(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One required proof."""

    proof_type: ProofType
    provider: ShortText | None = None
    min_assurance: Assurance | None = None
    presentation_formats: tuple[ProofFormat, ...] | None = None

    @property
    def name(self) -> str:
        """Its proof type, provider and assurance, as errors and results name it."""
        return ":".join(part for part in (self.proof_type, self.provider, self.min_assurance) if part)


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


HeldProof = tuple[str, VerifiedEvidence]
"""A verified proof with the format in which it was presented."""


class ProofSource(Struct, frozen=True, kw_only=True):
    """A kind of proof that a server can verify: what it is called, how strong it is, and on which paths."""

    proof_type: str
    provider: str
    formats: tuple[str, ...]
    paths: frozenset[SubmitPath]
    assurance: Assurance | None = None
    """The highest assurance that it reaches."""
    needs_reviewers: bool = False
    """Whether it counts only for a case that names its reviewers."""

    def can_meet(self, need: EvidenceRequirement) -> bool:
        """Return whether a proof of this kind can satisfy the requirement."""
        best = VerifiedEvidence(
            proof_type=self.proof_type, provider=self.provider, assurance_level=self.assurance
        )
        return any(satisfies(need, format, best) for format in self.formats)


def find_unmet_branches(policy: VerificationPolicy, held: Sequence[HeldProof]) -> tuple[str, ...]:
    """Return the names of the unsatisfied branches; empty if one branch is satisfied."""
    return _name_unmet_branches(policy, lambda need: any(satisfies(need, *one) for one in held))


def find_unmeetable_branches(
    policy: VerificationPolicy, path: SubmitPath, sources: Sequence[ProofSource]
) -> tuple[str, ...]:
    """Return what no source can prove on this path, for each branch; empty if one branch can be satisfied."""
    usable = [source for source in sources if path in source.paths]
    return _name_unmet_branches(policy, lambda need: any(source.can_meet(need) for source in usable))


def _name_unmet_branches(
    policy: VerificationPolicy, is_met: Callable[[EvidenceRequirement], bool]
) -> tuple[str, ...]:
    missing = []
    for branch in policy.requirements.any_of:
        open_points = [need for need in branch.all_of if not is_met(need)]
        if not open_points:
            return ()
        missing.append(" and ".join(need.name for need in open_points))
    return tuple(missing)


def satisfies(need: EvidenceRequirement, format: str, found: VerifiedEvidence) -> bool:
    """Return whether one verified proof, in its presented format, satisfies one requirement."""
    if need.proof_type != found.proof_type or need.provider not in (None, found.provider):
        return False
    if need.presentation_formats is not None and format not in need.presentation_formats:
        return False
    if need.min_assurance is None:
        return True
    level = found.assurance_level
    return level is not None and ASSURANCE_ORDER.index(level) >= ASSURANCE_ORDER.index(need.min_assurance)


def encode_evidence(evidence: Evidence) -> bytes:
    """Return the bytes whose digest identifies evidence that was used."""
    return msgspec.json.encode([evidence.provider, evidence.presentation], order="deterministic")
