"""Cases, their offers, events and drafts."""

from collections.abc import Sequence
from datetime import datetime

from placet.cases.case import Case, Offer
from placet.cases.events import Event
from placet.ports.case_store import CaseCreation, CaseUpdate, FormDraft, IdempotencyRecord, OwnerUsage
from placet.ports.row_validation import check_rows
from placet.protocol.poll import Status
from placet.stores.sql import rows
from placet.stores.sql.operation import (
    build_creation_operation,
    build_erasure_operation,
    build_single_statement,
    update_operation,
)
from placet.stores.sql.reader import SqlReader
from placet.stores.sql.recent_cases import EncodedCase, RecentCases
from placet.stores.sql.rows import datetime_from, to_micros
from placet.stores.sql.writer import Writer

SELECT_CASE = "select_case"
SELECT_CASE_AND_OFFER = "select_case_and_offer"
SELECT_EVENTS = "select_events"
SELECT_CASES_OF_OWNER = "select_cases_of_owner"
SELECT_CASES_OF_OWNER_BY_STATUS = "select_cases_of_owner_by_status"
SELECT_CASE_NUMBER = "select_case_number"
SELECT_DUE = "select_due"
SELECT_USAGE = "select_usage"
SELECT_NEXT_DUE_AT = "select_next_due_at"
SELECT_REPLAY = "select_replay"
SELECT_SPENT_EVIDENCE = "select_spent_evidence"
UPSERT_DRAFT = "upsert_draft"
SELECT_DRAFT = "select_draft"

_NEWEST = 2**63 - 1


class SqlCaseStore:
    """Implements `CaseStore`."""

    _reader: SqlReader
    _writer: Writer
    _recent: RecentCases

    async def create_case(self, creation: CaseCreation) -> None:
        """Write a new case."""
        case = creation.case
        if creation.hold is not None:
            check_rows((creation.hold.hold, *creation.hold.tasks, *creation.hold.events))
        row = EncodedCase(case.version, rows.encode(case), rows.encode(creation.offer))
        if creation.link is not None:
            self._recent.remove(creation.link.case.id)
        await self._writer.submit(build_creation_operation(creation, row.state, row.offer))
        self._recent.put(case.id, row)

    async def update_case(self, update: CaseUpdate) -> None:
        """Write a step. Raises CaseConflict unless the case is still at the expected version."""
        case = update.step.case
        state = rows.encode(case)
        known = self._recent.remove(case.id)
        await self._writer.submit(update_operation(update, state))
        if known is not None:
            self._recent.put(case.id, EncodedCase(case.version, state, known.offer))

    async def erase_case(self, update: CaseUpdate) -> None:
        """Write an erasing step and remove the content: offer, event data, drafts, bodies, grant patterns."""
        self._recent.remove(update.step.case.id)
        await self._writer.submit(build_erasure_operation(update, rows.encode(update.step.case)))

    async def get_case(self, case_id: str) -> Case | None:
        """Return the case's current state, or None if it does not exist."""
        if recent := self._recent.get(case_id):
            return rows.case_from(recent.state)
        row = await self._reader.row(SELECT_CASE, (case_id,))
        return rows.case_from(row[0]) if row else None

    async def get_case_and_offer(self, case_id: str) -> tuple[Case, Offer] | None:
        """Return a case with its offer, or None if it does not exist or was erased."""
        if recent := self._recent.get(case_id):
            return rows.case_and_offer_from((recent.state, recent.offer))
        row = await self._reader.row(SELECT_CASE_AND_OFFER, (case_id,))
        return rows.case_and_offer_from(row) if row else None

    async def list_events(self, case_id: str, *, after: int = 0) -> Sequence[Event]:
        """Return the case's events with a sequence number above `after`, in order."""
        found = await self._reader.rows(SELECT_EVENTS, (case_id, after))
        return [rows.event_from(row) for row in found]

    async def list_cases(
        self, owner: str | None, *, status: Status | None = None, before: str | None = None, limit: int = 50
    ) -> Sequence[Case]:
        """Return the owner's cases, newest first. `before` is the last id of the previous page."""
        number = await self._find_number_before(before)
        if status is None:
            found = await self._reader.rows(SELECT_CASES_OF_OWNER, (owner, number, limit))
        else:
            found = await self._reader.rows(SELECT_CASES_OF_OWNER_BY_STATUS, (owner, status, number, limit))
        return [rows.case_from(state) for (state,) in found]

    async def _find_number_before(self, case_id: str | None) -> int:
        if case_id is None:
            return _NEWEST
        row = await self._reader.row(SELECT_CASE_NUMBER, (case_id,))
        return int(row[0]) if row else 0

    async def get_usage(self, owner: str | None) -> OwnerUsage:
        """Return what the owner's cases use, without counting them one by one."""
        row = await self._reader.row(SELECT_USAGE, (owner or "",))
        return OwnerUsage(open_cases=row[0], stored_bytes=row[1]) if row else OwnerUsage()

    async def list_due_cases(self, now: datetime, *, limit: int) -> Sequence[Case]:
        """Return cases whose due time has passed, the most overdue first."""
        found = await self._reader.rows(SELECT_DUE, (to_micros(now), limit))
        return [rows.case_from(state) for (state,) in found]

    async def get_next_due_at(self) -> datetime | None:
        """Return the earliest due time of all cases."""
        row = await self._reader.row(SELECT_NEXT_DUE_AT)
        due_at: int | None = row[0]
        return datetime_from(due_at)

    async def get_idempotency_record(self, owner: str, key_digest: str) -> IdempotencyRecord | None:
        """Return the first response to this Idempotency-Key."""
        row = await self._reader.row(SELECT_REPLAY, (owner, key_digest))
        return rows.idempotency_from(owner, key_digest, row) if row else None

    async def is_evidence_spent(self, digests: Sequence[str]) -> bool:
        """Return whether any of this evidence has been used before."""
        for digest in digests:
            if await self._reader.row(SELECT_SPENT_EVIDENCE, (digest,)):
                return True
        return False

    async def save_draft(self, draft: FormDraft) -> None:
        """Save the values entered so far; a later save replaces an earlier one."""
        await self._writer.submit(
            build_single_statement(UPSERT_DRAFT, rows.row_from_draft(draft), guarded=True)
        )

    async def get_draft(self, case_id: str) -> FormDraft | None:
        """Return the values entered so far."""
        row = await self._reader.row(SELECT_DRAFT, (case_id,))
        return rows.draft_from(case_id, row) if row else None
