"""The outcome of a case about stopped calls, and the decisions it brings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from placet.cases.execution_outcomes import NotRunReason
from placet.errors import InvalidFeedback
from placet.hook.feedback import FeedbackResult
from placet.hook.result_texts import NOT_DECIDED_IN_TIME, REVIEW_WITHDRAWN


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseOutcome:
    """The outcome of a case: decisions by call, or none; then `reason` says why."""

    status: Literal["decided", "expired", "withdrawn"]
    decisions: Mapping[str, Any] = field(default_factory=dict)
    decided_by: str | None = None
    note: str | None = None
    """The reviewer's note on all calls; the reason of rejections that have none of their own."""
    reason: str = NOT_DECIDED_IN_TIME

    @property
    def not_run(self) -> NotRunReason | None:
        """Why undecided calls do not run; None if the case brought decisions."""
        return None if self.status == "decided" else _NOT_RUN.get(self.status, NotRunReason.WITHDRAWN)

    def complete_decisions(self) -> dict[str, Any]:
        """Return the decisions by call, each with the reviewer's name and note; they are not validated."""
        return {call_id: self._complete_decision(said) for call_id, said in self.decisions.items()}

    def _complete_decision(self, said: Any) -> Any:
        if not isinstance(said, Mapping):
            return said
        rejected = said.get("decision") == FeedbackResult.REJECTED
        reason = {"reason": said.get("reason") or self.note} if rejected else {}
        return {**said, **reason, "decided_by": self.decided_by}


def read_case_outcome(status: Mapping[str, Any]) -> CaseOutcome | None:
    """Return the outcome in a poll response, None while the case is open; raises InvalidFeedback."""
    match status.get("status"):
        case "completed":
            data = (status.get("result") or {}).get("data") or {}
            who = status.get("responded_by") or {}
            if not isinstance(data.get("decisions"), Mapping):
                raise InvalidFeedback("The case was answered without decisions about its calls.")
            return CaseOutcome(
                status="decided",
                decisions=data["decisions"],
                decided_by=who.get("name") or who.get("email"),
                note=data.get("note"),
            )
        case "expired":
            return CaseOutcome(status="expired")
        case "cancelled":
            said = status.get("reason")
            return CaseOutcome(
                status="withdrawn", reason=f"{REVIEW_WITHDRAWN} {said}" if said else REVIEW_WITHDRAWN
            )
        case _:
            return None


_NOT_RUN = {"expired": NotRunReason.TIMED_OUT, "withdrawn": NotRunReason.WITHDRAWN}
