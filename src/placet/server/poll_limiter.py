"""Limit how often a principal may poll a case, with a token bucket (ruling 16)."""

from collections.abc import Callable

from placet.errors import RateLimited

MAX_REMEMBERED = 100_000


class PollLimiter:
    """Token buckets per principal and case, in this process's memory."""

    def __init__(self, *, per_minute: int, monotonic: Callable[[], float]) -> None:
        self.per_minute = per_minute
        self._rate = per_minute / 60
        self._monotonic = monotonic
        self._full_at: dict[tuple[str | None, str], float] = {}

    def count_remaining(self, principal: str | None, case_id: str) -> int | None:
        """Return how many polls remain, without taking one; None without a limit."""
        if not self.per_minute:
            return None
        now = self._monotonic()
        full_at = max(self._full_at.get((principal, case_id), now), now)
        return int(self.per_minute - (full_at - now) * self._rate + 1e-9)

    def spend(self, principal: str | None, case_id: str) -> int | None:
        """Take one poll; returns how many remain, None without a limit; raises RateLimited when none does."""
        if not self.per_minute:
            return None
        now = self._monotonic()
        key = (principal, case_id)
        full_at = max(self._full_at.get(key, now), now) + 1 / self._rate
        remaining = self.per_minute - (full_at - now) * self._rate
        if remaining < -1e-9:
            wait = max(1, round(-remaining / self._rate + 0.5))
            raise RateLimited(f"At most {self.per_minute} polls a minute for one case.", retry_after=wait)
        if len(self._full_at) >= MAX_REMEMBERED:
            self._full_at = {key: moment for key, moment in self._full_at.items() if moment > now}
        self._full_at[key] = full_at
        return int(remaining + 1e-9)
