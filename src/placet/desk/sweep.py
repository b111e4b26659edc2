"""The clock's own orders: remind, expire and erase what is due, whichever process opened it."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from placet.cases.case import Case
from placet.cases.commands import Erase
from placet.cases.deadlines import due_at, due_command
from placet.cases.machine import CaseStep, apply
from placet.desk import random_values
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseConflict
from placet.ports.case_store import CaseUpdate
from placet.ports.inbox_store import InboxCursor

BATCH = 200


class Sweep:
    """Moves due cases on; safe to run in many processes, since each step is guarded by its version."""

    def __init__(self, desk: ReviewDesk) -> None:
        self._desk = desk

    async def once(self) -> int:
        """Handle everything that is due now; returns how many cases moved or were put off."""
        moved = 0
        while batch := await self._desk.store.list_due_cases(self._desk.now(), limit=BATCH):
            done = await self._move_all(batch)
            moved += done
            if not done:
                break
        return moved

    async def catch_up(self) -> int:
        """Erase what was closed under a longer retention than today's; returns how many cases."""
        erased = 0
        owners = await self._desk.store.list_owners()
        over = InboxCursor(at=self._desk.now() - self._keep_for, case_id="")
        while batch := await self._desk.store.list_closed_cases(owners, after=over, limit=BATCH):
            done = await self._move_all([case for case, _ in batch])
            erased += done
            if not done:
                break
        return erased

    async def next_at(self) -> datetime | None:
        """When the next case comes due."""
        return await self._desk.store.get_next_due_at()

    async def _move_all(self, cases: Sequence[Case]) -> int:
        done = await asyncio.gather(*(self._move(case) for case in cases), return_exceptions=True)
        for outcome in done:
            if isinstance(outcome, BaseException):
                raise outcome
        return done.count(True)

    async def _move(self, case: Case) -> bool:
        command = due_command(case, self._desk.now(), keep_for=self._keep_for)
        try:
            if command is None:
                return not case.live and await self._put_off(case)
            if isinstance(command, Erase):
                return await self._erase(case, command)
            return (await self._desk.order(case, command)).version > case.version
        except CaseConflict:  # someone answered meanwhile; the next round looks again
            return False

    async def _put_off(self, case: Case) -> bool:
        """It was closed under a shorter retention than today's, and would be found due for ever."""
        unmoved = CaseStep(case=case, events=(), expected_version=case.version)
        due = due_at(case, keep_for=self._keep_for)
        await self._desk.store.update_case(CaseUpdate(step=unmoved, due_at=due))
        return True

    async def _erase(self, case: Case, command: Erase) -> bool:
        step = apply(case, command, now=self._desk.now(), salt=random_values.generate_salt())
        due = due_at(step.case, keep_for=self._keep_for)
        commitment = CaseUpdate(step=step, due_at=due, clear_draft=True)
        await self._desk.store.erase_case(commitment)
        if self._desk.observe is not None:
            self._desk.observe(commitment)
        return True

    @property
    def _keep_for(self) -> timedelta:
        return self._desk.limits.keep_for
