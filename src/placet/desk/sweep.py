"""Reminders, expiry and erasure of cases that are due."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from placet.cases.case import Case
from placet.cases.commands import Erase
from placet.cases.deadlines import get_due_at, get_due_command
from placet.cases.machine import CaseStep, apply
from placet.desk import random_values
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseConflict
from placet.ports.case_store import CaseUpdate
from placet.ports.inbox_store import InboxCursor

BATCH = 200


class Sweep:
    """Applies what is due to cases. Several processes may run it: a case's version guards each step."""

    def __init__(self, desk: ReviewDesk) -> None:
        self._desk = desk

    async def run_once(self) -> int:
        """Handle every due case; return how many were changed or postponed."""
        changed = 0
        while batch := await self._desk.store.list_due_cases(self._desk.now(), limit=BATCH):
            done = await self._apply_due(batch)
            changed += done
            if not done:
                break
        return changed

    async def catch_up(self) -> int:
        """Erase cases closed under a longer retention period than the current one; return how many."""
        erased = 0
        owners = await self._desk.store.list_owners()
        cutoff = InboxCursor(at=self._desk.now() - self._keep_for, case_id="")
        while batch := await self._desk.store.list_closed_cases(owners, after=cutoff, limit=BATCH):
            done = await self._apply_due([case for case, _ in batch])
            erased += done
            if not done:
                break
        return erased

    async def next_at(self) -> datetime | None:
        """Return when the next case is due, or None."""
        return await self._desk.store.get_next_due_at()

    async def _apply_due(self, cases: Sequence[Case]) -> int:
        done = await asyncio.gather(*(self._apply_one(case) for case in cases), return_exceptions=True)
        for outcome in done:
            if isinstance(outcome, BaseException):
                raise outcome
        return done.count(True)

    async def _apply_one(self, case: Case) -> bool:
        command = get_due_command(case, self._desk.now(), keep_for=self._keep_for)
        try:
            if command is None:
                return not case.live and await self._postpone(case)
            if isinstance(command, Erase):
                return await self._erase(case, command)
            return (await self._desk.apply_command(case, command)).version > case.version
        except CaseConflict:  # the case changed meanwhile; the next batch reads it again
            return False

    async def _postpone(self, case: Case) -> bool:
        """Postpone the erasure of a case that was closed under a shorter retention period."""
        unchanged = CaseStep(case=case, events=(), expected_version=case.version)
        due = get_due_at(case, keep_for=self._keep_for)
        await self._desk.store.update_case(CaseUpdate(step=unchanged, due_at=due))
        return True

    async def _erase(self, case: Case, command: Erase) -> bool:
        step = apply(case, command, now=self._desk.now(), salt=random_values.generate_salt())
        due = get_due_at(step.case, keep_for=self._keep_for)
        update = CaseUpdate(step=step, due_at=due, clear_draft=True)
        await self._desk.store.erase_case(update)
        if self._desk.observe is not None:
            self._desk.observe(update)
        return True

    @property
    def _keep_for(self) -> timedelta:
        return self._desk.limits.keep_for
