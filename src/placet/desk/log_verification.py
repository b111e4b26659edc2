"""Verification of the whole log: every case, the order of all events, audit events and checkpoints."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator

from msgspec import Struct

from placet.cases.audit_chain import AuditChainVerifier, AuditHead, AuditPoint
from placet.cases.case import NO_EVENT
from placet.cases.case_verification import find_problems
from placet.cases.log_checkpoint import LogCheckpoint, extend_digest
from placet.ports.log_store import LogStore

AUDIT = "audit"
LOG = "log"


class LogProblem(Struct, frozen=True, kw_only=True):
    """Something in the database that does not match its log."""

    case_id: str
    """The id of the case, or `log` and `audit` for what belongs to no single case."""
    problem: str


class LogTotals(Struct, kw_only=True):
    """How much was verified."""

    cases: int = 0
    events: int = 0
    audit_events: int = 0
    checkpoints: int = 0

    def add(self, *, cases: int = 0, events: int = 0, audit_events: int = 0, checkpoints: int = 0) -> None:
        """Count what was verified."""
        self.cases += cases
        self.events += events
        self.audit_events += audit_events
        self.checkpoints += checkpoints


async def verify_log(
    store: LogStore, checkpoints: Iterable[LogCheckpoint], totals: LogTotals
) -> AsyncIterator[LogProblem]:
    """Yield everything that is wrong, and count in `totals` what was verified.

    A running server may write meanwhile. Memory is bounded by one page of rows.
    """
    expected = list(checkpoints)
    totals.add(checkpoints=len(expected))
    async for problem in _verify_cases(store, totals):
        yield problem
    async for problem in _verify_order(store, expected, totals):
        yield problem
    async for problem in _verify_audit_events(store, expected, totals):
        yield problem


async def _verify_cases(store: LogStore, totals: LogTotals) -> AsyncIterator[LogProblem]:
    last = 0
    while page := await store.list_stored_cases(after=last):
        for stored in page:
            if stored.number != last + 1:
                gap = _describe_gap("case", last + 1, stored.number - 1)
                yield LogProblem(case_id=LOG, problem=gap)
            last = stored.number
            totals.add(cases=1)
            for text in find_problems(stored):
                yield LogProblem(case_id=stored.id, problem=text)
    for table, number in await store.list_stray_rows():
        yield LogProblem(case_id=LOG, problem=f"A row of {table} is out of place: case {number}.")


async def _verify_order(
    store: LogStore, checkpoints: list[LogCheckpoint], totals: LogTotals
) -> AsyncIterator[LogProblem]:
    """Check that no event is missing, and that the log begins as each checkpoint says."""
    due = defaultdict(list)
    for checkpoint in checkpoints:
        due[checkpoint.events].append(checkpoint)
    last, digest = 0, NO_EVENT
    for problem in _compare(due.pop(0, []), digest):
        yield problem
    while page := await store.list_log_entries(after=last):
        for entry in page:
            if entry.number != last + 1:
                yield LogProblem(case_id=LOG, problem=_describe_gap("event", last + 1, entry.number - 1))
            if entry.case_id is None:
                text = f"Event {entry.number} belongs to case {entry.case_number}, which is missing."
                yield LogProblem(case_id=LOG, problem=text)
            last, digest = entry.number, extend_digest(digest, entry.digest)
            totals.add(events=1)
            for problem in _compare(due.pop(last, []), digest):
                yield problem
    for checkpoint in [one for waiting in due.values() for one in waiting]:
        yield LogProblem(
            case_id=LOG,
            problem=f"The log has {last} events, and the checkpoint of {checkpoint.made_at} covers "
            f"{checkpoint.events}: events were deleted, or an older database was put back.",
        )
    for checkpoint in checkpoints:
        if checkpoint.cases > totals.cases:
            yield LogProblem(
                case_id=LOG,
                problem=f"There are {totals.cases} cases, and the checkpoint of {checkpoint.made_at} covers "
                f"{checkpoint.cases}.",
            )


def _compare(checkpoints: list[LogCheckpoint], digest: str) -> Iterator[LogProblem]:
    for checkpoint in checkpoints:
        if checkpoint.digest != digest:
            yield LogProblem(
                case_id=LOG,
                problem=f"The first {checkpoint.events} events are not those of the checkpoint of "
                f"{checkpoint.made_at}: a case was deleted, or its chain was rewritten.",
            )


def _describe_gap(kind: str, first: int, last: int) -> str:
    return (
        f"The {kind} {first} is missing." if first == last else f"The {kind}s {first} to {last} are missing."
    )


async def _verify_audit_events(
    store: LogStore, checkpoints: list[LogCheckpoint], totals: LogTotals
) -> AsyncIterator[LogProblem]:
    heads = await store.list_audit_heads()
    expected = {(tenant, at.count): at for one in checkpoints for tenant, at in one.audit.items()}
    verifier, last = AuditChainVerifier(heads), 0
    while page := await store.list_chained_audit_rows(after=last):
        for row in page:
            last = row.number
            totals.add(audit_events=1)
            point = expected.get((row.tenant, row.seq or 0))
            if point is not None and point.digest != row.digest:
                text = f"Event {row.id} of tenant {row.tenant} is not the one of a checkpoint."
                yield LogProblem(case_id=AUDIT, problem=text)
            for text in verifier.check(row):
                yield LogProblem(case_id=AUDIT, problem=f"Event {row.id} of tenant {row.tenant}: {text}")
    later = await store.list_audit_heads()
    for tenant, text in verifier.finish(later):
        yield LogProblem(case_id=AUDIT, problem=f"Tenant {tenant}: {text}")
    for (tenant, _), point in expected.items():
        if not _reaches(later.get(tenant), point):
            text = (
                f"Tenant {tenant}: the chain does not reach event {point.count}, which a checkpoint covers."
            )
            yield LogProblem(case_id=AUDIT, problem=text)


def _reaches(head: AuditHead | None, point: AuditPoint) -> bool:
    return point.count == 0 or (head is not None and head.last.count >= point.count)
