"""A limit on expensive operations that run at the same time, per tenant and in total."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from placet.errors import RateLimited


class ConcurrencyLimit:
    """Refuses an operation that would exceed the tenant's limit or the total."""

    def __init__(self, *, each: int, together: int, refusal: str, retry_after: int) -> None:
        self._each = each
        self._together = together
        self._refusal = refusal
        self._retry_after = retry_after
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, tenant: str) -> Iterator[None]:
        """Count an operation of this tenant while it runs; raise RateLimited at a limit."""
        if self._taken[tenant] >= self._each or self._taken.total() >= self._together:
            raise RateLimited(self._refusal, retry_after=self._retry_after)
        self._taken[tenant] += 1
        try:
            yield
        finally:
            self._taken[tenant] -= 1
            self._taken += Counter()  # forgets whoever has no turn
