"""The people behind a gate: what they are asked, what they said, and that their answer is not needed."""

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
NO_LONGER_NEEDED = "Nobody waits for these calls any more."


class GateCases:
    """Asked about a gate's calls in the name of its agent; nobody, if there are no reviews."""

    def __init__(self, reviews: "Reviews | None", agent: str) -> None:
        self._reviews = reviews
        self._agent = agent

    def said(self, checkpoint: Checkpoint) -> CaseOutcome | None:
        """How the thread's case ended; None while it waits, or if it has none."""
        if checkpoint.case is None or self._reviews is None:
            return None
        return require_sync(self._reviews.look(checkpoint.case))

    def ask(self, interruption: InterruptionMetadata, attempt: int) -> "CaseReference | None":
        """The case where the calls can be decided; None if nobody could be asked yet.

        Raises NobodyAsked if nobody ever can be.
        """
        if self._reviews is None:
            return None
        try:
            opened = require_sync(self._reviews.ask(interruption, agent=self._agent, attempt=attempt))
        except HookError:
            raise
        except PlacetError as error:
            logger.warning("Nobody could be asked yet; the calls go on waiting.", exc_info=error)
            return None
        return {**opened, "attempt": attempt}

    def no_longer(self, checkpoint: Checkpoint, why: str) -> None:
        """Withdraw the thread's case, if it has one."""
        if checkpoint.case is None or self._reviews is None:
            return
        try:
            require_sync(self._reviews.withdraw(checkpoint.case, why))
        except PlacetError as error:
            logger.warning("The case could not be withdrawn.", exc_info=error)
