"""Verify World ID proofs of personhood with World's verification API.

The proof is bound to the answer as appendix H of the specification proposes: the action is
`hitl:{case_id}:{action}`, and the signal `SHA-256(case_id | action | challenge)`. World checks the proof.
Whether it was made for this action and signal is checked here.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from placet.cases.case import Case
from placet.protocol.verification import Evidence, ProofSource, VerificationPolicy, VerifiedEvidence
from placet.verification.keccak import keccak_256

PROVIDER = "world_id"
PROOF_TYPE = "proof_of_human"

PostJson = Callable[[str, Mapping[str, Any]], Awaitable[tuple[int, Any]]]
"""Sends JSON to a URL and returns the status and the JSON of the reply."""


class WorldIdVerifier:
    """Asks World whether a proof holds. Anything but a clear yes means that it does not."""

    sources: tuple[ProofSource, ...] = (
        ProofSource(
            proof_type=PROOF_TYPE,
            provider=PROVIDER,
            formats=("provider_opaque", "zkp"),
            paths=frozenset({"inline_submit"}),
            assurance="high",
        ),
    )

    def __init__(self, *, rp_id: str, url: str, post: PostJson, clock: Callable[[], datetime]) -> None:
        self._address = f"{url.rstrip('/')}/api/v4/verify/{rp_id}"
        self._post = post
        self._now = clock

    async def verify(
        self, evidence: Evidence, *, case: Case, action: str, policy: VerificationPolicy
    ) -> VerifiedEvidence | None:
        """Return what World confirmed, or None. Errors of the connection are raised."""
        result = evidence.presentation
        expected = build_action(case.id, action)
        if evidence.provider != PROVIDER or not isinstance(result, dict) or result.get("action") != expected:
            return None
        if not _has_signal(result, hash_signal(build_signal(case.id, action, policy.binding.challenge))):
            return None
        status, reply = await self._post(self._address, result)
        if status != 200 or not isinstance(reply, dict) or reply.get("success") is not True:
            return None
        if reply.get("action", expected) != expected:
            return None
        return VerifiedEvidence(
            proof_type=PROOF_TYPE,
            provider=PROVIDER,
            assurance_level="high",
            bound_to_case=True,
            bound_to_action=True,
            # The proof names the case, so it is not older than the case; it does not tell its age otherwise.
            fresh=self._now() - case.created_at <= timedelta(seconds=policy.binding.freshness_seconds),
        )


def build_action(case_id: str, action: str) -> str:
    """Return the action that a proof for this answer is made for."""
    return f"hitl:{case_id}:{action}"


def build_signal(case_id: str, action: str, challenge: str | None) -> str:
    """Return the signal that a proof for this answer is made for."""
    return hashlib.sha256(f"{case_id}|{action}|{challenge or ''}".encode()).hexdigest()


def hash_signal(signal: str) -> int:
    """Return what World ID puts into a proof for a signal: its Keccak digest as a field element."""
    return int.from_bytes(keccak_256(signal.encode())) >> 8


def _has_signal(result: Mapping[str, Any], expected: int) -> bool:
    responses = result.get("responses")
    if not isinstance(responses, list) or not responses:
        return False
    return all(isinstance(one, dict) and _read_hex(one.get("signal_hash")) == expected for one in responses)


def _read_hex(text: object) -> int | None:
    try:
        return int(text, 16) if isinstance(text, str) and len(text) <= 66 else None
    except ValueError:
        return None
