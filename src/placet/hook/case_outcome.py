"""How a case about stopped calls ended, and what that means for the calls."""

import inspect
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from placet.errors import HookError, InvalidFeedback
from placet.hook.answer_validation import Verdicts, reject_undecided, validate_answers
from placet.hook.feedback import FeedbackResult, Verdict
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import NOT_DECIDED_IN_TIME, REVIEW_WITHDRAWN
from placet.hook.turn import Schemas

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseOutcome:
    """The end of a case: decided call by call, or not at all; then `reason` says why."""

    how: Literal["decided", "expired", "withdrawn"]
    decisions: Mapping[str, Any] = field(default_factory=dict)
    decided_by: str | None = None
    note: str | None = None
    """What the person said about all calls; a rejection without a reason of its own is told this."""
    reason: str = NOT_DECIDED_IN_TIME

    def verdicts(
        self, interruption: InterruptionMetadata, decided: Mapping[str, Verdict], schemas: Schemas
    ) -> Verdicts:
        """The decisions it brings. The case kept its own time, so none of them is late here.

        A call that was decided elsewhere meanwhile stays as it was decided first.
        """
        if self.how != "decided":
            return reject_undecided(interruption, decided, reason=self.reason)
        named = {
            call_id: self._named(said) for call_id, said in self.decisions.items() if call_id not in decided
        }
        return validate_answers(interruption, named, decided=decided, schemas=schemas)

    def _named(self, said: Any) -> Any:
        if not isinstance(said, Mapping):
            return said
        rejected = said.get("decision") == FeedbackResult.REJECTED
        told = {"reason": said.get("reason") or self.note} if rejected else {}
        return {**said, **told, "decided_by": self.decided_by}


def is_expired(ruling: CaseOutcome | None) -> bool:
    """Whether the case ended because nobody answered in time."""
    return ruling is not None and ruling.how == "expired"


def check_against_case(
    given: Verdicts,
    ruling: CaseOutcome | None,
    interruption: InterruptionMetadata,
    decided: Mapping[str, Verdict],
    schemas: Schemas,
) -> Verdicts:
    """These decisions; InvalidFeedback if they run what a person refused or changed who answered the case.

    What was `decided` before the person answered stays as it is.
    """
    if ruling is None or ruling.how != "decided":
        return given
    try:
        said = ruling.verdicts(interruption, decided, schemas)
    except InvalidFeedback:
        return given  # an answer that does not fit decides nothing
    wrong = [
        f"{call_id}: already decided ({said[call_id].decision})"
        for call_id, verdict in given.items()
        if verdict.decision is not FeedbackResult.REJECTED and _contradicts(said.get(call_id), verdict)
    ]
    if wrong:
        raise InvalidFeedback(f"Nothing was stored: {'; '.join(wrong)}.", problems=wrong)
    return given


def _contradicts(said: Verdict | None, verdict: Verdict) -> bool:
    if said is None or said.decision is FeedbackResult.APPROVED:
        return False
    return said.decision is not verdict.decision or said.arguments != verdict.arguments


def read_case_outcome(status: Mapping[str, Any]) -> CaseOutcome | None:
    """A poll's answer as a ruling, None while the case waits; InvalidFeedback if it decides nothing."""
    match status.get("status"):
        case "completed":
            data = (status.get("result") or {}).get("data") or {}
            who = status.get("responded_by") or {}
            if not isinstance(data.get("decisions"), Mapping):
                raise InvalidFeedback("The case was answered without decisions about its calls.")
            return CaseOutcome(
                how="decided",
                decisions=data["decisions"],
                decided_by=who.get("name") or who.get("email"),
                note=data.get("note"),
            )
        case "expired":
            return CaseOutcome(how="expired")
        case "cancelled":
            said = status.get("reason")
            return CaseOutcome(
                how="withdrawn", reason=f"{REVIEW_WITHDRAWN} {said}" if said else REVIEW_WITHDRAWN
            )
        case _:
            return None


def require_sync(answer: T | Awaitable[T]) -> T:
    """What reviews answer to one who cannot wait for an event loop; raises HookError if they need one."""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise HookError("These reviews live on an event loop: use an agent's async methods.")
    return answer
