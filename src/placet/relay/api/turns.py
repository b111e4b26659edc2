"""How much of what costs time may go on at once: of one tenant, and of all of them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from placet.errors import RateLimited


class Turns:
    """Refuses whoever would be one too many. A tenant alone never takes all places there are."""

    def __init__(self, *, each: int, together: int, refusal: str, retry_after: int) -> None:
        self._each = each
        self._together = together
        self._refusal = refusal
        self._retry_after = retry_after
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, tenant: str) -> Iterator[None]:
        """A turn of this tenant's; raises RateLimited."""
        if self._taken[tenant] >= self._each or self._taken.total() >= self._together:
            raise RateLimited(self._refusal, retry_after=self._retry_after)
        self._taken[tenant] += 1
        try:
            yield
        finally:
            self._taken[tenant] -= 1
            self._taken += Counter()  # forgets whoever has no turn
