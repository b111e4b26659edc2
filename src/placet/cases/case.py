"""A case and its state, the offer that the reviewer sees, and the decision that the reviewer makes."""

import hashlib
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from placet.cases.call_receipt import CallReceipt
from placet.cases.case_reader import CaseReader
from placet.cases.grant import Grant
from placet.protocol.hitl_object import DefaultAction
from placet.protocol.poll import Progress, RespondedBy, Result, Status, SubmissionContext
from placet.protocol.surface import Surface
from placet.protocol.verification import VerificationPolicy

NO_EVENT = "0" * 64  # the previous digest of a case's first event


class Subject(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The entry point that created a case, and what that entry point refers to by it."""

    entry_point: str = "service"
    ref: str | None = None


class Offer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the reviewer sees and is asked. It never changes; the end of retention erases it."""

    type: str
    prompt: str
    message: str
    context: dict[str, Any] = {}
    page_only: tuple[str, ...] = ()
    """The fields of the context that only the page shows. They are never sent to the agent."""
    result_schema: dict[str, Any] | None = None
    """A JSON Schema of further data that an answer may have."""
    actions: tuple[str, ...] = ()
    affirmative_actions: tuple[str, ...] = ()
    inline_actions: tuple[str, ...] | None = None
    timeout: str = "24h"
    surface: Surface | None = None
    verification_policy: VerificationPolicy | None = None
    service: str | None = None
    agent: str | None = None
    only_reviewer: str | None = None
    """The one person who was asked, as the caller names them. If they hand the case back, it is cancelled."""
    reviewers: tuple[str, ...] = ()
    """The e-mail addresses of the only people who can answer, once they have proved who they are."""
    four_eyes: bool = False
    """Whether the principal and the people who asked cannot approve."""
    asked_by: tuple[str, ...] = ()
    """The names of others who asked, under the four-eyes rule; the owner of the case is always one."""
    salt: str = ""  # erased with the offer, so that the remaining digest does not reveal the offer


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer, with how it was submitted."""

    result: Result
    submission: SubmissionContext
    responded_by: RespondedBy | None = None
    replay_digest: str | None = None


class HandedBack(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reviewer who declined to decide a case, with the verified name and the reason if there are any."""

    actor: str
    at: datetime
    by: RespondedBy | None = None
    reason: str | None = None


class Case(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one case. A transition returns a new value; it never changes this one."""

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
    reader: CaseReader | None = None
    reminders: tuple[datetime, ...] = ()
    reminder_sent_at: datetime | None = None
    """When the server last sent a reminder or an expiry warning to somebody."""
    warn_at: datetime | None = None
    """When to warn the recipients that the case expires soon."""
    recipients: tuple[str, ...] = ()
    """The names of the recipients whom the server notifies."""
    previous_case_id: str | None = None
    next_case_id: str | None = None
    opened_at: datetime | None = None
    closed_at: datetime | None = None
    progress: Progress | None = None
    decision: Decision | None = None
    reason: str | None = None
    subject: Subject = Subject()
    handed_back: tuple[HandedBack, ...] = ()
    altered_at: datetime | None = None
    """When the stored offer was found not to match its digest. Such a case is never answered."""
    erased_at: datetime | None = None
    changed_at: datetime | None = None
    """The time of the last event after the creation, so that no later event is dated before it."""
    grant_digests: dict[str, str] = {}
    """The digest of each grant that was given with this case, by the grant's id."""
    own_review_url: str | None = None
    """The page of the service's own that shows this case in place of ours; None for ours."""
    receipts: tuple[CallReceipt, ...] = ()
    """What became of its calls, as far as the agent has reported it."""

    @property
    def live(self) -> bool:
        """Whether the case can still be answered, ignoring its deadline."""
        return not self.status.terminal


def compute_offer_digest(case_id: str, offer: Offer) -> str:
    """Return the SHA-256 of the case id and exactly what is shown. An approval is bound to it."""
    shown = msgspec.json.encode([case_id, offer], order="deterministic")
    return hashlib.sha256(shown).hexdigest()


def compute_grant_digest(grant: Grant) -> str:
    """Return the SHA-256 of what stays of a grant when the content of its case is erased."""
    kept = [grant.id, grant.owner, grant.tool, grant.agent, grant.uses, grant.used, grant.call_id]
    times = [grant.granted_at, grant.expires_at, grant.revoked_at]
    return hashlib.sha256(msgspec.json.encode([*kept, *times, grant.revoked_by])).hexdigest()


def matches_digest(case: Case, offer: Offer) -> bool:
    """Return whether this is the offer that the case was created with."""
    return offer.type == case.type and compute_offer_digest(case.id, offer) == case.offer_digest
