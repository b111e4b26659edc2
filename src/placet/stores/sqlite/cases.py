"""Cases, their offers, events and drafts in SQLite."""

from collections.abc import Sequence
from datetime import datetime

from placet.cases.case import Case, Offer
from placet.cases.events import Event
from placet.ports.case_store import CaseCreation, CaseUpdate, FormDraft, IdempotencyRecord
from placet.protocol.poll import Status
from placet.stores.sqlite import rows
from placet.stores.sqlite.operation import (
    commitment_operation,
    erasure_operation,
    filing_operation,
    single,
)
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.recent import RecentCases, Row
from placet.stores.sqlite.rows import micros, moment
from placet.stores.sqlite.writer import Writer

SELECT_CASE = QUERIES["select_case"]
SELECT_CASE_AND_OFFER = QUERIES["select_case_and_offer"]
SELECT_EVENTS = QUERIES["select_events"]
SELECT_CASES_OF_OWNER = QUERIES["select_cases_of_owner"]
SELECT_CASES_OF_OWNER_BY_STATUS = QUERIES["select_cases_of_owner_by_status"]
SELECT_CASE_NUMBER = QUERIES["select_case_number"]
SELECT_DUE = QUERIES["select_due"]
SELECT_NEXT_DUE_AT = QUERIES["select_next_due_at"]
SELECT_REPLAY = QUERIES["select_replay"]
SELECT_SPENT_EVIDENCE = QUERIES["select_spent_evidence"]
UPSERT_DRAFT = QUERIES["upsert_draft"]
SELECT_DRAFT = QUERIES["select_draft"]

_NEWEST = 2**63 - 1


class SqliteCaseStore:
    """The CaseStore over one reader and one writer."""

    _reader: Reader
    _writer: Writer
    _recent: RecentCases

    async def create_case(self, filing: CaseCreation) -> None:
        """Write a new case; raises CaseConflict if its id, its replay key or its link's version is taken."""
        case = filing.case
        row = Row(case.version, rows.encode(case), rows.encode(filing.offer))
        if filing.link is not None:
            self._recent.drop(filing.link.case.id)
        await self._writer.submit(filing_operation(filing, row.state, row.offer))
        self._recent.keep(case.id, row)

    async def update_case(self, commitment: CaseUpdate) -> None:
        """Write a step; raises CaseConflict unless the case is still at the expected version."""
        case = commitment.step.case
        state = rows.encode(case)
        known = self._recent.drop(case.id)
        await self._writer.submit(commitment_operation(commitment, state))
        if known is not None:
            self._recent.keep(case.id, Row(case.version, state, known.offer))

    async def erase_case(self, commitment: CaseUpdate) -> None:
        """Write an erasing step and remove content: the offer, event data, drafts, bodies, patterns."""
        self._recent.drop(commitment.step.case.id)
        await self._writer.submit(erasure_operation(commitment, rows.encode(commitment.step.case)))

    async def get_case(self, case_id: str) -> Case | None:
        """Where a case stands."""
        if recent := self._recent.get(case_id):
            return rows.case_from(recent.state)
        row = self._reader.row(SELECT_CASE, (case_id,))
        return rows.case_from(row[0]) if row else None

    async def get_case_and_offer(self, case_id: str) -> tuple[Case, Offer] | None:
        """A case with what it shows."""
        if recent := self._recent.get(case_id):
            return rows.case_from(recent.state), rows.offer_from(recent.offer)
        row = self._reader.row(SELECT_CASE_AND_OFFER, (case_id,))
        return (rows.case_from(row[0]), rows.offer_from(row[1])) if row else None

    async def list_events(self, case_id: str, *, after: int = 0) -> Sequence[Event]:
        """The case's events with a sequence above `after`, in order."""
        return [rows.event_from(row) for row in self._reader.rows(SELECT_EVENTS, (case_id, after))]

    async def list_cases(
        self, owner: str | None, *, status: Status | None = None, before: str | None = None, limit: int = 50
    ) -> Sequence[Case]:
        """The owner's cases, newest first; `before` is the id that the last page ended with."""
        number = self._number_before(before)
        if status is None:
            found = self._reader.rows(SELECT_CASES_OF_OWNER, (owner, number, limit))
        else:
            found = self._reader.rows(SELECT_CASES_OF_OWNER_BY_STATUS, (owner, status, number, limit))
        return [rows.case_from(state) for (state,) in found]

    def _number_before(self, case_id: str | None) -> int:
        if case_id is None:
            return _NEWEST
        row = self._reader.row(SELECT_CASE_NUMBER, (case_id,))
        return int(row[0]) if row else 0

    async def list_due_cases(self, now: datetime, *, limit: int) -> Sequence[Case]:
        """Cases whose due moment has passed, the most overdue first."""
        return [rows.case_from(state) for (state,) in self._reader.rows(SELECT_DUE, (micros(now), limit))]

    async def get_next_due_at(self) -> datetime | None:
        """The earliest due moment of all cases."""
        due_at: int | None = self._reader.row(SELECT_NEXT_DUE_AT)[0]
        return moment(due_at)

    async def get_idempotency_record(self, owner: str, key_digest: str) -> IdempotencyRecord | None:
        """What was first answered to this Idempotency-Key."""
        row = self._reader.row(SELECT_REPLAY, (owner, key_digest))
        return rows.replay_from(owner, key_digest, row) if row else None

    async def is_evidence_spent(self, digests: Sequence[str]) -> bool:
        """Whether any of this evidence has been used before."""
        return any(self._reader.row(SELECT_SPENT_EVIDENCE, (digest,)) for digest in digests)

    async def save_draft(self, draft: FormDraft) -> None:
        """Keep what was typed so far; the last save stands. Raises CaseConflict once the case is closed."""
        await self._writer.submit(single(UPSERT_DRAFT, rows.draft_row(draft), guarded=True))

    async def get_draft(self, case_id: str) -> FormDraft | None:
        """What was typed so far."""
        row = self._reader.row(SELECT_DRAFT, (case_id,))
        return rows.draft_from(case_id, row) if row else None
