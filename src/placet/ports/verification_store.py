"""Storage for verification attempts: answers that wait for the proof of the person who gave them."""

from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from placet.protocol.poll import RespondedBy
from placet.protocol.verification import VerifiedEvidence


class PageProof(Struct, frozen=True, kw_only=True):
    """A proof that a person gave on our page, as it was verified."""

    format: str
    found: VerifiedEvidence
    person: RespondedBy | None = None
    """Who gave it, if the proof names a person."""


class VerificationAttempt(Struct, frozen=True, kw_only=True):
    """One answer that waits for proofs. The proofs count for exactly this answer."""

    id: str
    case_id: str
    action: str
    data: dict[str, Any]
    answer_digest: str
    """The digest of case, content, action and data; see `desk.verified_answer`."""
    actor: str
    created_at: datetime
    expires_at: datetime
    submitted_via: str | None = None
    responded_by: RespondedBy | None = None
    replay_digest: str | None = None
    version: int = 1
    started: dict[str, dict[str, Any]] = {}
    """What each method that was started has to remember, by the name of the method."""
    proofs: tuple[PageProof, ...] = ()
    failures: int = 0


class VerificationStore(Protocol):
    """Stores verification attempts."""

    async def add_verification_attempt(self, attempt: VerificationAttempt, *, most: int) -> None:
        """Write a new attempt, and delete those that have expired.

        Raises CaseConflict if the case then has more than `most`.
        """
        ...

    async def get_verification_attempt(self, id: str) -> VerificationAttempt | None:
        """Return the attempt, expired or not; None once it was deleted."""
        ...

    async def update_verification_attempt(self, attempt: VerificationAttempt) -> None:
        """Write the next version of an attempt. Raises CaseConflict unless the stored one precedes it."""
        ...

    async def delete_verification_attempt(self, id: str) -> None:
        """Delete an attempt, if it exists. The erasure of its case deletes it too."""
        ...
