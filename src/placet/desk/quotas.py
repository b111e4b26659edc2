"""Quotas of a principal: open cases, stored content, and how fast it creates both.

Open cases and stored content are counted by the store, in the transactions that change them. So they are
right after a restart and with several processes. A principal far from its quotas is not counted for each
case. Rates are counted in the memory of this process.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from math import ceil, inf
from typing import NoReturn

from placet.desk.case_limits import Limits
from placet.errors import QuotaExceeded
from placet.ports.case_store import CaseStore

MAX_REMEMBERED = 10_000
ALLOWANCE_LIFETIME_S = 1.0
ALLOWANCE_SHARE = 10
"""A principal may use a tenth of what its quotas leave, for a second, before it is counted again."""
WAIT_FOR_PEOPLE_S = 60  # answers and the end of retention free a quota, at an unknown time


class RateQuota:
    """How much each principal may use per minute, with a burst of a whole minute."""

    def __init__(self, per_minute: int) -> None:
        self._per_second = per_minute / 60
        self._full_at: dict[str, float] = {}

    def get_wait_s(self, owner: str, now: float) -> int:
        """Return 0 if the principal may go on now, or after how many seconds it may."""
        over = self._full_at.get(owner, 0.0) - now - 60
        return max(1, ceil(over)) if self._per_second and over > -1e-9 else 0

    def spend(self, owner: str, amount: int, now: float) -> None:
        """Use this much. The last use of a minute may be larger than what is left; it delays the next."""
        if not self._per_second:
            return
        if len(self._full_at) >= MAX_REMEMBERED:
            self._full_at = {name: at for name, at in self._full_at.items() if at > now}
        self._full_at[owner] = max(self._full_at.get(owner, now), now) + amount / self._per_second


class _Allowance:
    """What a principal may create without being counted again."""

    def __init__(self, cases: float, size: float, until: float) -> None:
        self.cases = cases
        self.size = size
        self.until = until

    def take(self, size: int, now: float) -> bool:
        """Use it for one case of this many bytes; return False if it is too small or too old."""
        if now >= self.until or self.cases < 1 or self.size < size:
            return False
        self.cases -= 1
        self.size -= size
        return True


class _InFlight:
    """How many cases and bytes of a principal are being written."""

    def __init__(self) -> None:
        self.cases = 0
        self.size = 0

    def add(self, cases: int, size: int) -> None:
        """Count these too; negative numbers count them no more."""
        self.cases += cases
        self.size += size


class _Reservation:
    """Counts cases and bytes as in flight while it is entered."""

    def __init__(self, all_in_flight: dict[str, _InFlight], owner: str, cases: int, size: int) -> None:
        self._all = all_in_flight
        self._owner = owner
        self._cases = cases
        self._size = size

    def __enter__(self) -> None:
        self._all.setdefault(self._owner, _InFlight()).add(self._cases, self._size)

    def __exit__(self, *_: object) -> None:
        one = self._all[self._owner]
        one.add(-self._cases, -self._size)
        if not one.size:
            del self._all[self._owner]


class CreationQuotas:
    """Refuses new cases, drafts and answers beyond a quota of a principal, before anything is written."""

    def __init__(self, store: CaseStore, limits: Limits, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._limits = limits
        self._monotonic = monotonic
        self._allowances: dict[str, _Allowance] = {}
        self._cases = RateQuota(limits.max_cases_per_minute)
        self._bytes = RateQuota(limits.max_case_bytes_per_minute)
        self._answer_bytes = RateQuota(limits.max_case_bytes_per_minute)
        self._in_flight: dict[str, _InFlight] = {}
        self._refused: Counter[str] = Counter()

    @property
    def refused(self) -> Mapping[str, int]:
        """How many requests each quota has refused."""
        return self._refused

    async def check(self, owner: str | None, size: int) -> None:
        """Raise QuotaExceeded if this principal may not create a case of this many bytes now."""
        name, limits, now = owner or "", self._limits, self._monotonic()
        if wait := self._cases.get_wait_s(name, now):
            self.refuse("cases_per_minute", limits.max_cases_per_minute, wait)
        if wait := self._bytes.get_wait_s(name, now):
            self.refuse("case_bytes_per_minute", limits.max_case_bytes_per_minute, wait)
        if not (limits.max_open_cases or limits.max_stored_bytes):
            return
        allowance = self._allowances.get(name)
        if allowance is not None and allowance.take(size, now):
            return
        used = await self._store.get_usage(owner)
        in_flight = self._in_flight.get(name, _InFlight())
        open_cases = used.open_cases + in_flight.cases
        stored_bytes = used.stored_bytes + in_flight.size
        if 0 < limits.max_open_cases <= open_cases:
            self.refuse("open_cases", limits.max_open_cases)
        if 0 < limits.max_stored_bytes < stored_bytes + size:
            self.refuse("stored_bytes", limits.max_stored_bytes)
        if len(self._allowances) >= MAX_REMEMBERED:
            self._allowances.clear()
        self._allowances[name] = _Allowance(
            cases=_share_rest(limits.max_open_cases, open_cases),
            size=_share_rest(limits.max_stored_bytes, stored_bytes),
            until=self._monotonic() + ALLOWANCE_LIFETIME_S,
        )

    async def check_draft(self, owner: str | None, size: int) -> None:
        """Count a draft that is saved; raise QuotaExceeded if the principal may not store it now."""
        self.count_answer(owner, size)
        limit, used = self._limits.max_stored_bytes, await self._store.get_usage(owner)
        in_flight = self._in_flight.get(owner or "", _InFlight())
        if 0 < limit < used.stored_bytes + in_flight.size + size:
            self.refuse("stored_bytes", limit)

    def count_answer(self, owner: str | None, size: int) -> None:
        """Count the content of an answer; raise QuotaExceeded if the principal has to wait.

        Only their own rate limits answers: new cases and stored content must not keep people from deciding.
        """
        name, now = owner or "", self._monotonic()
        if wait := self._answer_bytes.get_wait_s(name, now):
            self.refuse("answer_bytes_per_minute", self._limits.max_case_bytes_per_minute, wait)
        self._answer_bytes.spend(name, size, now)

    def reserve(self, owner: str | None, size: int) -> AbstractContextManager[None]:
        """Count a case that is being created, so that requests at the same time cannot exceed a quota."""
        name, now = owner or "", self._monotonic()
        self._cases.spend(name, 1, now)
        self._bytes.spend(name, size, now)
        return _Reservation(self._in_flight, name, 1, size)

    def reserve_draft(self, owner: str | None, size: int) -> AbstractContextManager[None]:
        """Count a draft that is being written, so that requests at the same time cannot exceed a quota."""
        return _Reservation(self._in_flight, owner or "", 0, size)

    def refuse(self, quota: str, limit: int, wait_s: int = WAIT_FOR_PEOPLE_S) -> NoReturn:
        """Count the refusal and raise QuotaExceeded."""
        self._refused[quota] += 1
        raise QuotaExceeded(
            f"This principal has used up its quota {quota} ({limit}). {WHAT_TO_DO[quota]}",
            quota=quota,
            limit=limit,
            retry_after=wait_s,
        )


WHAT_TO_DO: Mapping[str, str] = {
    "cases_per_minute": "Open cases more slowly.",
    "case_bytes_per_minute": "Open cases more slowly, or send less content.",
    "answer_bytes_per_minute": "Save and answer more slowly, or enter less.",
    "open_cases": "Wait for answers, or cancel cases that are no longer needed.",
    "stored_bytes": "Wait until the retention of closed cases ends, or ask the operator for more.",
    "streams": "Close streams that are no longer needed, or poll instead.",
}


def _share_rest(limit: int, used: int) -> float:
    """Return the part of what a quota leaves that may be used without another count; a limit of 0 is none."""
    return (limit - used) / ALLOWANCE_SHARE if limit else inf
