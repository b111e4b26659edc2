"""A turn of calls that was stopped, frozen as it was evaluated; answering returns a new value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from placet.errors import InvalidFeedback
from placet.hook.feedback import FeedbackResult, ToolFeedback, Verdict
from placet.hook.frozen_values import build_frozen, replace
from placet.hook.json_text import digest_json
from placet.hook.tool_call import ToolCall, read_arguments

NODE = "HITL"
DEFAULT = "reject"


@dataclass(frozen=True, kw_only=True)
class InterruptionMetadata:
    """Calls that wait for a reviewer, and calls of the same turn that wait with them without needing review.

    `digest` covers every call as it was evaluated: an answer always refers to exactly these calls.
    """

    id: str
    thread_id: str
    turn: int = 0
    """The number of the model's reply in this thread that requested the calls."""
    node: str = NODE
    state: Mapping[str, Any] = field(default_factory=dict)
    """The agent's state: its messages so far."""
    tool_feedbacks: tuple[ToolFeedback, ...]
    tools_automatically_approved: tuple[ToolCall, ...] = ()
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    default: str = DEFAULT
    """What happens to undecided calls on expiry: "reject", or "hold" to keep waiting."""
    case: Mapping[str, Any] | None = None
    """The case where a reviewer can decide the calls: `case_id`, `review_url` and `expires_at`."""

    @property
    def undecided(self) -> tuple[ToolFeedback, ...]:
        """The calls without a decision."""
        return tuple(waiting for waiting in self.tool_feedbacks if waiting.result is None)

    def approve_all(self) -> Self:
        """Approve every undecided call."""
        return self._each(lambda waiting: waiting.approve())

    def reject_all(self, reason: str | None = None) -> Self:
        """Reject every undecided call; the model reads the reason."""
        return self._each(lambda waiting: waiting.reject(reason))

    def edit_tool(self, name: str, arguments: Mapping[str, Any] | str) -> Self:
        """Run the calls of this tool with these arguments, and approve every other undecided call.

        If no call of the tool is undecided, those that were approved are edited instead.
        """
        decisions = (None, FeedbackResult.APPROVED)
        named = [each for each in self.tool_feedbacks if each.name == name and each.result in decisions]
        if not named:
            raise InvalidFeedback(f"No undecided or approved call of {name} is waiting.")
        edited = {each.id for each in named if each.result is None} or {each.id for each in named}
        changed = read_arguments(arguments)
        approved = self.approve_all()
        return replace(
            approved,
            tool_feedbacks=tuple(
                each.edit(changed) if each.id in edited and each.arguments != changed else each
                for each in approved.tool_feedbacks
            ),
        )

    def approve(self, call_id: str) -> Self:
        """Approve one call; the others stay as they are."""
        return self._one(call_id, lambda waiting: waiting.approve())

    def edit(self, call_id: str, arguments: Mapping[str, Any] | str, *, name: str | None = None) -> Self:
        """Run one call with these arguments."""
        return self._one(call_id, lambda waiting: waiting.edit(arguments, name=name))

    def reject(self, call_id: str, reason: str | None = None) -> Self:
        """Reject one call."""
        return self._one(call_id, lambda waiting: waiting.reject(reason))

    def respond(self, call_id: str, answer: str) -> Self:
        """Answer one call in the tool's place; it does not run."""
        return self._one(call_id, lambda waiting: waiting.respond(answer))

    def with_feedback(self, decided: ToolFeedback) -> Self:
        """Return the same interruption with this decision on one call."""
        return self._one(decided.id, lambda waiting: decided)

    def with_verdicts(self, verdicts: Mapping[str, Verdict]) -> Self:
        """Return the same interruption with the decisions so far."""
        if not verdicts:
            return self
        return replace(
            self,
            tool_feedbacks=tuple(
                _with_verdict(waiting, verdicts[waiting.id]) if waiting.id in verdicts else waiting
                for waiting in self.tool_feedbacks
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the waiting calls, ready for JSON; `state` and decisions are stored elsewhere."""
        return {
            "id": self.id,
            "thread_id": self.thread_id,
            "turn": self.turn,
            "node": self.node,
            "tool_feedbacks": [waiting.to_dict() for waiting in self.tool_feedbacks],
            "tools_automatically_approved": [call.to_dict() for call in self.tools_automatically_approved],
            "digest": self.digest,
            "created_at": self.created_at.isoformat(),
            "expires_at": None if self.expires_at is None else self.expires_at.isoformat(),
            "default": self.default,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], *, state: Mapping[str, Any] | None = None) -> Self:
        """Return what `to_dict` wrote."""
        members, expires_at = {"case": None, **stored}, stored["expires_at"]
        members["state"] = state or {}
        members["tool_feedbacks"] = tuple(map(ToolFeedback.from_dict, stored["tool_feedbacks"]))
        calls = stored["tools_automatically_approved"]
        members["tools_automatically_approved"] = tuple(ToolCall(**call) for call in calls)
        members["created_at"] = datetime.fromisoformat(stored["created_at"])
        members["expires_at"] = None if expires_at is None else datetime.fromisoformat(expires_at)
        return build_frozen(cls, members) if members.keys() == _MEMBERS else cls(**members)

    def to_compact(self, thread_id: str) -> dict[str, Any]:
        """Like `to_dict`, as it is saved in a checkpoint of this thread, without default values."""
        schemas: dict[str, Mapping[str, Any] | None] = {}
        members: dict[str, Any] = {
            "id": self.id,
            "turn": self.turn,
            "tool_feedbacks": [waiting.to_compact(schemas) for waiting in self.tool_feedbacks],
            "schemas": schemas,
            "digest": self.digest,
            "created_at": self.created_at.isoformat(),
        }
        if self.thread_id != thread_id:
            members["thread_id"] = self.thread_id
        if self.node != NODE:
            members["node"] = self.node
        if self.tools_automatically_approved:
            calls = self.tools_automatically_approved
            members["tools_automatically_approved"] = [call.to_dict() for call in calls]
        if self.expires_at is not None:
            members["expires_at"] = self.expires_at.isoformat()
        if self.default != DEFAULT:
            members["default"] = self.default
        return members

    @classmethod
    def from_compact(cls, stored: Mapping[str, Any], *, thread_id: str, state: Mapping[str, Any]) -> Self:
        """Return what `to_compact` wrote for this thread, or `to_dict`."""
        members = {**_COMPACT_DEFAULTS, "thread_id": thread_id, **stored, "state": state}
        schemas, expires_at = members.pop("schemas", {}), members["expires_at"]
        if members.keys() != _MEMBERS:
            raise TypeError(f"An interruption has no member {', '.join(members.keys() - _MEMBERS)}.")
        waiting = [ToolFeedback.from_compact(each, schemas) for each in members["tool_feedbacks"]]
        members["tool_feedbacks"] = tuple(waiting)
        calls = members["tools_automatically_approved"]
        members["tools_automatically_approved"] = tuple([ToolCall(**call) for call in calls])
        members["created_at"] = datetime.fromisoformat(members["created_at"])
        members["expires_at"] = None if expires_at is None else datetime.fromisoformat(expires_at)
        return build_frozen(cls, members)

    def _each(self, decide: Callable[[ToolFeedback], ToolFeedback]) -> Self:
        return replace(
            self,
            tool_feedbacks=tuple(
                decide(waiting) if waiting.result is None else waiting for waiting in self.tool_feedbacks
            ),
        )

    def _one(self, call_id: str, decide: Callable[[ToolFeedback], ToolFeedback]) -> Self:
        if not any(waiting.id == call_id for waiting in self.tool_feedbacks):
            raise InvalidFeedback(f"No call {call_id} is waiting.")
        return replace(
            self,
            tool_feedbacks=tuple(
                decide(waiting) if waiting.id == call_id else waiting for waiting in self.tool_feedbacks
            ),
        )


def create_interruption(
    interruption_id: str,
    *,
    thread_id: str,
    turn: int,
    feedbacks: Sequence[ToolFeedback],
    automatic: Sequence[ToolCall],
    now: datetime,
    state: Mapping[str, Any] | None = None,
    expires_at: datetime | None = None,
    default: str = DEFAULT,
) -> InterruptionMetadata:
    """Freeze a turn under a new id, so that an old answer to the same calls does not fit it."""
    shown = {
        "id": interruption_id,
        "thread_id": thread_id,
        "turn": turn,
        "tool_feedbacks": [waiting.to_dict() for waiting in feedbacks],
        "tools_automatically_approved": [call.to_dict() for call in automatic],
    }
    members = {
        "id": interruption_id,
        "thread_id": thread_id,
        "turn": turn,
        "node": NODE,
        "state": state or {},
        "tool_feedbacks": tuple(feedbacks),
        "tools_automatically_approved": tuple(automatic),
        "digest": f"sha256:{digest_json(shown)}",
        "created_at": now,
        "expires_at": expires_at,
        "default": default,
        "case": None,
    }
    return build_frozen(InterruptionMetadata, members)


_MEMBERS = frozenset(member.name for member in fields(InterruptionMetadata))


_COMPACT_DEFAULTS = {
    "node": NODE,
    "tools_automatically_approved": (),
    "expires_at": None,
    "default": DEFAULT,
    "case": None,
}
"""Members that `to_compact` leaves out when they have these values."""


def _with_verdict(waiting: ToolFeedback, verdict: Verdict) -> ToolFeedback:
    edited = verdict.decision is FeedbackResult.EDITED
    return replace(
        waiting,
        result=verdict.decision,
        name=verdict.name or waiting.name,
        arguments=verdict.arguments if edited and verdict.arguments is not None else waiting.arguments,
        reason=verdict.reason,
        answer=verdict.answer,
        decided_by=verdict.decided_by,
        not_run=verdict.not_run_reason,
    )
