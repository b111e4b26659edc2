"""Reads the store beside the running server and holds every case against the ledger."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import apsw
from msgspec import Struct

from bench.faults.checks import (
    STUCK_AFTER,
    StoredCase,
    find_broken_promises,
    find_torn_writes,
    is_overdue,
    measure_lateness,
)
from bench.faults.ledger import Ledger, Promise
from bench.faults.victim import Victim
from placet.desk import clock
from placet.ports.store import Store
from placet.protocol.poll import Status
from placet.stores.sqlite.store import SqliteStore

PAGE = 200
OLDER = 100  # cases of earlier lives that are looked at again after each start
OWNER = "clients"


class Findings(Struct, kw_only=True):
    """What the audits of a whole run came to."""

    violations: list[str] = []
    audits: int = 0
    cases: int = 0
    events: int = 0
    strangers: int = 0
    expired: int = 0
    latest_expiry_s: float = 0.0


class Auditor:
    """Looks into the file while the server is up, through a store of its own."""

    def __init__(self, victim: Victim, ledger: Ledger, dice: random.Random) -> None:
        self._victim = victim
        self._ledger = ledger
        self._dice = dice
        self.findings = Findings()

    async def after_start(self, latest: Sequence[Promise]) -> None:
        """Check the cases of the life that was cut short, and some older ones."""
        older = list(self._ledger.promises.values())
        sample = self._dice.sample(older, min(OLDER, len(older)))
        store = await SqliteStore.open(self._victim.db)
        try:
            await self._check_promises(store, {one.case_id: one for one in (*latest, *sample)}.values())
            await self._check_expiry(store, latest)
        finally:
            await store.aclose()
        self.findings.audits += 1

    async def at_the_end(self) -> None:
        """Check every case there is: the acknowledged ones, and that no others are there than may be."""
        store = await SqliteStore.open(self._victim.db)
        try:
            await self._check_promises(store, self._ledger.promises.values())
            await self._check_expiry(store, list(self._ledger.promises.values()))
            await self._check_lateness(store)
            await self._check_strangers(store)
        finally:
            await store.aclose()

    async def _check_promises(self, store: Store, promises: Iterable[Promise]) -> None:
        for promise in promises:
            found = await self._find(store, promise.case_id)
            problems = list(find_broken_promises(promise, found, now=clock.now()))
            if found is not None:
                problems += find_torn_writes(found)
            self._note(promise.case_id, problems)

    async def _check_expiry(self, store: Store, promises: Sequence[Promise]) -> None:
        """Wait for every case that is overdue, as long as it may take."""
        began = clock.now()
        overdue = [one.case_id for one in promises if one.expires_at <= began]
        while overdue:
            now = clock.now()
            cases = [case for case_id in overdue if (case := await store.get_case(case_id))]
            late = [case for case in cases if case.live]
            if not late:
                break
            for case in late:
                if is_overdue(case, self._victim.lives[-1], now=now):
                    self._note(case.id, ["it is stuck past its expiry"])
                    overdue.remove(case.id)
            await asyncio.sleep(0.02)

    async def _check_lateness(self, store: Store) -> None:
        """That every case which expired did so in time."""
        for case_id in self._ledger.promises:
            found = await self._find(store, case_id)
            if found is None or found.case.status is not Status.EXPIRED:
                continue
            late = measure_lateness(found, self._victim.lives)
            self.findings.expired += 1
            self.findings.latest_expiry_s = max(self.findings.latest_expiry_s, late.total_seconds())
            if late > STUCK_AFTER:
                self._note(case_id, [f"it expired {late} late"])

    async def _check_strangers(self, store: Store) -> None:
        """Cases that nobody was told of: whole ones, and no more than openings that broke off."""
        before: str | None = None
        while page := await store.list_cases(OWNER, before=before, limit=PAGE):
            before = page[-1].id
            for case in page:
                if case.id not in self._ledger.promises:
                    self.findings.strangers += 1
                    found = await self._find(store, case.id)
                    self._note(case.id, find_torn_writes(found) if found else ["it vanished"])
        if self.findings.strangers > self._ledger.unsure_openings:
            self._note("the store", [f"{self.findings.strangers} cases that nobody opened"])

    async def _find(self, store: Store, case_id: str) -> StoredCase | None:
        while (case := await store.get_case(case_id)) is not None:
            both = await store.get_case_and_offer(case_id)
            events = await store.list_events(case_id)
            if await store.get_case(case_id) == case:  # else the server moved it on between our reads
                self.findings.cases += 1
                self.findings.events += len(events)
                return StoredCase(case=case, offer=both[1] if both else None, events=events)
        return None

    def _note(self, case_id: str, problems: Iterable[str]) -> None:
        self.findings.violations.extend(f"{case_id}: {problem}" for problem in problems)


def is_sound(path: Path) -> bool:
    """Whether SQLite itself finds nothing wrong with the file."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return bool(connection.pragma("integrity_check") == "ok")
    finally:
        connection.close()
