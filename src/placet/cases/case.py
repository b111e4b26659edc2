"""A case, where it stands; an offer, what was put before the person; a decision, what they answered."""

import hashlib
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from placet.protocol.hitl_object import DefaultAction
from placet.protocol.poll import Progress, RespondedBy, Result, Status, SubmissionContext
from placet.protocol.surface import Surface
from placet.protocol.verification import VerificationPolicy

NO_EVENT = "0" * 64  # what the first event of a case follows


class Subject(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Through which door a case came, and what that door ties to it."""

    entry_point: str = "service"
    ref: str | None = None


class Offer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the person is shown and asked. It never changes; retention erases it."""

    type: str
    prompt: str
    message: str
    context: dict[str, Any] = {}
    actions: tuple[str, ...] = ()
    inline_actions: tuple[str, ...] | None = None
    timeout: str = "24h"
    surface: Surface | None = None
    verification_policy: VerificationPolicy | None = None
    service: str | None = None
    agent: str | None = None
    salt: str = ""  # erased with the rest, so that the digest that stays cannot be guessed back


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer, with the path it took."""

    result: Result
    submission: SubmissionContext
    responded_by: RespondedBy | None = None
    replay_digest: str | None = None


class Case(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where one question stands. The machine returns the next value and leaves the last alone."""

    id: str
    type: str
    spec_version: str
    created_at: datetime
    expires_at: datetime
    default_action: DefaultAction
    offer_digest: str
    review_digests: tuple[str, ...]
    owner: str | None = None
    status: Status = Status.PENDING
    version: int = 0
    chain: str = NO_EVENT
    submit_digest: str | None = None
    callback_url: str | None = None
    reminders: tuple[datetime, ...] = ()
    reminder_sent_at: datetime | None = None
    previous_case_id: str | None = None
    next_case_id: str | None = None
    opened_at: datetime | None = None
    closed_at: datetime | None = None
    progress: Progress | None = None
    decision: Decision | None = None
    reason: str | None = None
    subject: Subject = Subject()
    erased_at: datetime | None = None

    @property
    def live(self) -> bool:
        """Whether an answer is still possible, the clock aside."""
        return not self.status.terminal


def offer_digest(case_id: str, offer: Offer) -> str:
    """SHA-256 of exactly what is shown, bound to its case: an approval is an approval of this."""
    shown = msgspec.json.encode([case_id, offer], order="deterministic")
    return hashlib.sha256(shown).hexdigest()
