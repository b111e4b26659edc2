"""Storage for cases, their offers, events, form drafts and idempotency records.

Every write is one transaction. A write that returns is on disk. A write that raises changed nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from placet.cases.case import Case, Offer
from placet.cases.events import Event
from placet.cases.grant import Grant, GrantUse
from placet.cases.machine import CaseStep
from placet.ports.endpoint_store import Endpoint
from placet.ports.hold_store import HoldCreation
from placet.ports.outbox_store import Delivery
from placet.protocol.poll import Status


class IdempotencyRecord(Struct, frozen=True, kw_only=True):
    """The first response to an Idempotency-Key, encrypted so that only a holder of the key can read it."""

    owner: str
    key_digest: str
    request_digest: str
    sealed_response: bytes
    expires_at: datetime


class FormDraft(Struct, frozen=True, kw_only=True):
    """The values a reviewer has entered so far, saved so that they can continue on another device."""

    case_id: str
    values: dict[str, object]
    step: int
    saved_at: datetime


class CaseCreation(Struct, frozen=True, kw_only=True):
    """Everything that is written when a case is created."""

    case: Case
    offer: Offer
    events: tuple[Event, ...]
    due_at: datetime | None
    idempotency: IdempotencyRecord | None = None
    link: CaseStep | None = None
    """The step that links the previous case of a chain to this one."""
    endpoint: Endpoint | None = None
    hold: HoldCreation | None = None
    """The held message that the case decides."""
    deliveries: tuple[Delivery, ...] = ()


class CaseUpdate(Struct, frozen=True, kw_only=True):
    """Everything that is written when a case changes."""

    step: CaseStep
    due_at: datetime | None
    deliveries: tuple[Delivery, ...] = ()
    spent_evidence: tuple[str, ...] = ()
    clear_draft: bool = False
    grants: tuple[Grant, ...] = ()
    grant_use: GrantUse | None = None


class OwnerUsage(Struct, frozen=True, kw_only=True):
    """What the cases of one owner use: how many are open, and the bytes of their stored offers."""

    open_cases: int = 0
    stored_bytes: int = 0


class CaseStore(Protocol):
    """Stores cases, their offers and their events."""

    async def create_case(self, creation: CaseCreation) -> None:
        """Write a new case.

        Raises CaseConflict if its id, its idempotency key or its hold is taken, or if the linked case has
        changed.
        """
        ...

    async def update_case(self, update: CaseUpdate) -> None:
        """Write a step. Raises CaseConflict unless the case is still at the expected version.

        New and changed grants are written only with their case, so the case's version guards them too.
        """
        ...

    async def erase_case(self, update: CaseUpdate) -> None:
        """Write an erasing step and remove the content: offer, event data, drafts, bodies, grant patterns."""
        ...

    async def get_case(self, case_id: str) -> Case | None:
        """Return the case's current state, or None if it does not exist."""
        ...

    async def get_case_and_offer(self, case_id: str) -> tuple[Case, Offer] | None:
        """Return a case with its offer, or None if it does not exist or was erased."""
        ...

    async def list_events(self, case_id: str, *, after: int = 0) -> Sequence[Event]:
        """Return the case's events with a sequence number above `after`, in order."""
        ...

    async def list_cases(
        self, owner: str | None, *, status: Status | None = None, before: str | None = None, limit: int = 50
    ) -> Sequence[Case]:
        """Return the owner's cases, newest first. `before` is the last id of the previous page."""
        ...

    async def get_usage(self, owner: str | None) -> OwnerUsage:
        """Return what the owner's cases use, without counting them one by one."""
        ...

    async def list_due_cases(self, now: datetime, *, limit: int) -> Sequence[Case]:
        """Return cases whose due time has passed, the most overdue first."""
        ...

    async def get_next_due_at(self) -> datetime | None:
        """Return the earliest due time of all cases."""
        ...

    async def get_idempotency_record(self, owner: str, key_digest: str) -> IdempotencyRecord | None:
        """Return the first response to this Idempotency-Key."""
        ...

    async def is_evidence_spent(self, digests: Sequence[str]) -> bool:
        """Return whether any of this evidence has been used before."""
        ...

    async def save_draft(self, draft: FormDraft) -> None:
        """Save the values entered so far; a later save replaces an earlier one.

        Raises CaseConflict once the case is closed.
        """
        ...

    async def get_draft(self, case_id: str) -> FormDraft | None:
        """Return the values entered so far."""
        ...
