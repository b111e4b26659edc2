"""What was decided about answered calls, so that a late answer that says something else is noticed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placet.errors import InvalidFeedback
from placet.hook.answer_validation import NOT_ANSWERS, Feedback
from placet.hook.feedback import FeedbackResult, ToolFeedback, Verdict
from placet.hook.interruption import InterruptionMetadata
from placet.hook.json_text import digest_json

DecisionRecord = Mapping[str, list[str]]
"""Call id -> the decision, the tool that it is about, and a digest of what the decision says."""
MAX_RECORDS = 20
"""How many answered interruptions of a thread are remembered."""
_DIGEST_CHARACTERS = 24


class _Said(NamedTuple):
    """What an answer says about one call."""

    decision: FeedbackResult
    tool: str | None
    arguments: Mapping[str, object] | None
    answer: str | None

    def digest(self, tool: str) -> str:
        if self.decision is FeedbackResult.EDITED:
            return digest_json([self.tool or tool, self.arguments])[:_DIGEST_CHARACTERS]
        if self.decision is FeedbackResult.RESPONDED:
            return digest_json([self.answer])[:_DIGEST_CHARACTERS]
        return ""


def record_decisions(
    records: Mapping[str, DecisionRecord], answered: InterruptionMetadata
) -> dict[str, DecisionRecord]:
    """Return the records, by interruption, with the decisions of this one; the oldest are dropped."""
    kept = {
        each.id: [str(each.result), each.name, said.digest(each.name)]
        for each in answered.tool_feedbacks
        if (said := _read_feedback(each)) is not None
    }
    others = [(name, record) for name, record in records.items() if name != answered.id]
    return {**dict(others[-MAX_RECORDS + 1 :]), answered.id: kept}


def find_contradictions(records: Mapping[str, DecisionRecord], feedback: Feedback | None) -> list[str]:
    """Return what the answers say otherwise than the decisions that count; raises InvalidFeedback."""
    if feedback is None or not records:
        return []
    own = records.get(feedback.id, {}) if isinstance(feedback, InterruptionMetadata) else {}
    problems = []
    for call_id, said in _read_answers(feedback).items():
        found = own.get(call_id) or next(
            (record[call_id] for record in reversed([*records.values()]) if call_id in record), None
        )
        if found is None:
            problems.append(f"{call_id}: no call with this id was waiting")
            continue
        decision, tool, digest = found
        if said.decision != decision or said.digest(tool) != digest:
            problems.append(f"{call_id}: already decided ({decision})")
    return problems


def describe_contradictions(problems: Sequence[str]) -> str:
    """Return the message of an AlreadyDecided error."""
    return f"The first decision stands, and nothing was changed: {'; '.join(problems)}."


def _read_answers(feedback: Feedback) -> dict[str, _Said]:
    if isinstance(feedback, Mapping):
        verdicts = {call_id: Verdict.from_dict(said) for call_id, said in feedback.items()}
        return {
            call_id: _Said(verdict.decision, verdict.name, verdict.arguments, verdict.answer)
            for call_id, verdict in verdicts.items()
        }
    calls = feedback.tool_feedbacks if isinstance(feedback, InterruptionMetadata) else feedback
    read: dict[str, _Said] = {}
    for each in calls:
        if not isinstance(each, ToolFeedback):
            raise InvalidFeedback(NOT_ANSWERS)
        if (said := _read_feedback(each)) is not None:
            read[each.id] = said
    return read


def _read_feedback(feedback: ToolFeedback) -> _Said | None:
    if feedback.result is None:
        return None
    return _Said(feedback.result, feedback.name, feedback.arguments, feedback.answer)
