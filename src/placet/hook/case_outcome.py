"""The outcome of a case about stopped calls, and the decisions it brings."""

import inspect
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from placet.errors import HookError, InvalidFeedback
from placet.hook.answer_validation import Verdicts, reject_undecided, validate_answers
from placet.hook.call_evaluation import Schemas
from placet.hook.feedback import FeedbackResult, Verdict, contradicts
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import NOT_DECIDED_IN_TIME, REVIEW_WITHDRAWN

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseOutcome:
    """The outcome of a case: decisions by call, or none; then `reason` says why."""

    status: Literal["decided", "expired", "withdrawn"]
    decisions: Mapping[str, Any] = field(default_factory=dict)
    decided_by: str | None = None
    note: str | None = None
    """The reviewer's note on all calls; the reason of rejections that have none of their own."""
    reason: str = NOT_DECIDED_IN_TIME

    def to_verdicts(
        self, interruption: InterruptionMetadata, decided: Mapping[str, Verdict], schemas: Schemas
    ) -> Verdicts:
        """Return the decisions so far including this outcome. The case checked its expiry itself.

        A call that was decided elsewhere before keeps its first decision.
        """
        if self.status != "decided":
            return reject_undecided(interruption, decided, reason=self.reason)
        decisions = {
            call_id: self._complete_decision(said)
            for call_id, said in self.decisions.items()
            if call_id not in decided
        }
        return validate_answers(interruption, decisions, decided=decided, schemas=schemas)

    def _complete_decision(self, said: Any) -> Any:
        if not isinstance(said, Mapping):
            return said
        rejected = said.get("decision") == FeedbackResult.REJECTED
        reason = {"reason": said.get("reason") or self.note} if rejected else {}
        return {**said, **reason, "decided_by": self.decided_by}


def is_expired(outcome: CaseOutcome | None) -> bool:
    """Return whether the case expired without an answer."""
    return outcome is not None and outcome.status == "expired"


def check_against_case(
    given: Verdicts,
    outcome: CaseOutcome | None,
    interruption: InterruptionMetadata,
    decided: Mapping[str, Verdict],
    schemas: Schemas,
) -> Verdicts:
    """Return the given decisions; raises InvalidFeedback if they contradict the reviewer's decisions.

    Decisions made before the reviewer answered (`decided`) stay as they are.
    """
    if outcome is None or outcome.status != "decided":
        return given
    try:
        said = outcome.to_verdicts(interruption, decided, schemas)
    except InvalidFeedback:
        return given  # an invalid answer decides nothing
    tools = {waiting.id: waiting.name for waiting in interruption.tool_feedbacks}
    wrong = [
        f"{call_id}: already decided ({said[call_id].decision})"
        for call_id, verdict in given.items()
        if _contradicts(said.get(call_id), verdict, tools.get(call_id, ""))
    ]
    if wrong:
        raise InvalidFeedback(f"Nothing was stored: {'; '.join(wrong)}.", problems=wrong)
    return given


def _contradicts(said: Verdict | None, verdict: Verdict, tool: str) -> bool:
    """Return whether code may not decide this; it may stop a call that the reviewer lets run."""
    if said is None or verdict.decision is FeedbackResult.REJECTED:
        return False
    if said.decision is FeedbackResult.APPROVED and verdict.decision is FeedbackResult.RESPONDED:
        return False
    return contradicts(said, verdict, tool)


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


def require_sync(answer: T | Awaitable[T]) -> T:
    """Return the reviews' answer to a synchronous caller; raises HookError if it must be awaited."""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise HookError("These reviews are async: use an agent's async methods.")
    return answer
