"""Remembers why a case could not be opened, for the result that the MCP client gets."""

from collections.abc import Awaitable
from typing import Any

from placet.errors import PlacetError
from placet.hook.case_outcome import CaseOutcome
from placet.hook.interruption import InterruptionMetadata
from placet.hook.reviews import CaseReference, Reviews

MAX_ERRORS = 100


class CaseErrorRecorder:
    """Wraps reviews and records why opening a case failed."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews
        self._errors: dict[str, str] = {}

    def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> CaseReference | Awaitable[CaseReference]:
        """Open the case."""
        self._errors.pop(interruption.id, None)
        try:
            return self._reviews.open_case(interruption, agent=agent, attempt=attempt)
        except PlacetError as error:
            while len(self._errors) >= MAX_ERRORS:
                self._errors.pop(next(iter(self._errors)), None)
            self._errors[interruption.id] = error.message
            raise

    def poll_case(self, case: CaseReference) -> CaseOutcome | Awaitable[CaseOutcome | None] | None:
        """Return the outcome of the case."""
        return self._reviews.poll_case(case)

    def withdraw(self, case: CaseReference, reason: str) -> Awaitable[None] | None:
        """Withdraw the case."""
        return self._reviews.withdraw(case, reason)

    def __getattr__(self, name: str) -> Any:
        """Return what else the reviews can do: report receipts, and say at once when a case closes."""
        return getattr(self._reviews, name)

    def find_error(self, interruption: InterruptionMetadata) -> str | None:
        """Return why the case for these calls could not be opened."""
        return self._errors.get(interruption.id)
