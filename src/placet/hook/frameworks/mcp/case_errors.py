"""Asks people about calls, and remembers why nobody could be asked: clients are told, as few read logs."""

from collections.abc import Awaitable

from placet.errors import PlacetError
from placet.hook.case_outcome import CaseOutcome
from placet.hook.interruption import InterruptionMetadata
from placet.hook.reviews import CaseReference, Reviews

MAX_ERRORS = 100


class CaseErrorRecorder:
    """The same reviews."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews
        self._why: dict[str, str] = {}

    def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> CaseReference | Awaitable[CaseReference]:
        """Open the case."""
        self._why.pop(interruption.id, None)
        try:
            return self._reviews.open_case(interruption, agent=agent, attempt=attempt)
        except PlacetError as error:
            while len(self._why) >= MAX_ERRORS:
                self._why.pop(next(iter(self._why)), None)
            self._why[interruption.id] = error.message
            raise

    def poll_case(self, case: CaseReference) -> CaseOutcome | Awaitable[CaseOutcome | None] | None:
        """How the case ended."""
        return self._reviews.poll_case(case)

    def withdraw(self, case: CaseReference, reason: str) -> Awaitable[None] | None:
        """Nobody needs the answer any more."""
        return self._reviews.withdraw(case, reason)

    def why_nobody(self, interruption: InterruptionMetadata) -> str | None:
        """Why nobody could be asked about these calls."""
        return self._why.get(interruption.id)
