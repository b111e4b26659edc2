"""Limit the number of expensive operations that run at the same time, per tenant and in total."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from placet.errors import RateLimited


class ConcurrencyLimit:
    """Rejects an operation that would exceed the limit of its tenant or the total limit."""

    def __init__(self, *, per_tenant: int, total: int, refusal: str, retry_after: int) -> None:
        self._per_tenant = per_tenant
        self._total = total
        self._refusal = refusal
        self._retry_after = retry_after
        self._running: Counter[str] = Counter()

    @contextmanager
    def acquire(self, tenant: str) -> Iterator[None]:
        """Count an operation of this tenant while it runs. Raises RateLimited at a limit."""
        if self._running[tenant] >= self._per_tenant or self._running.total() >= self._total:
            raise RateLimited(self._refusal, retry_after=self._retry_after)
        self._running[tenant] += 1
        try:
            yield
        finally:
            self._running[tenant] -= 1
            self._running += Counter()  # removes tenants without running operations
