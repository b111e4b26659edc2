"""The cases of a gate's interruptions: opening them, reading their outcome, withdrawing them."""

import logging
from typing import TYPE_CHECKING

from placet.errors import HookError, PlacetError
from placet.hook.case_outcome import CaseOutcome, require_sync
from placet.hook.checkpoint import Checkpoint
from placet.hook.interruption import InterruptionMetadata

if TYPE_CHECKING:
    from placet.hook.reviews import CaseReference, Reviews

logger = logging.getLogger(__name__)
DECIDED_ELSEWHERE = "The calls were decided elsewhere."
NO_LONGER_NEEDED = "The agent no longer waits for these calls."


class GateCases:
    """Opens and polls cases under the agent's name; does nothing without reviews."""

    def __init__(self, reviews: "Reviews | None", agent: str) -> None:
        self._reviews = reviews
        self._agent = agent

    def poll(self, checkpoint: Checkpoint) -> CaseOutcome | None:
        """Return the outcome of the thread's case; None while it is open, or if there is none."""
        if checkpoint.case is None or self._reviews is None:
            return None
        return require_sync(self._reviews.poll_case(checkpoint.case))

    def open(self, interruption: InterruptionMetadata, attempt: int) -> "CaseReference | None":
        """Open the case for these calls; return None if it could not be opened yet.

        Raises CaseNotOpened if it can never be opened.
        """
        if self._reviews is None:
            return None
        try:
            opened = require_sync(self._reviews.open_case(interruption, agent=self._agent, attempt=attempt))
        except HookError:
            raise
        except PlacetError as error:
            logger.warning("case_not_opened state=waiting", exc_info=error)
            return None
        return {**opened, "attempt": attempt}

    def withdraw(self, checkpoint: Checkpoint, why: str) -> None:
        """Withdraw the thread's case, if it has one."""
        if checkpoint.case is None or self._reviews is None:
            return
        try:
            require_sync(self._reviews.withdraw(checkpoint.case, why))
        except PlacetError as error:
            logger.warning("case_not_withdrawn", exc_info=error)
