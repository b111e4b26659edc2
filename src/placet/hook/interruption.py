"""A turn of calls that was stopped, frozen as it was judged; answering one makes a new value."""

import os
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
    """Calls that wait for a person, and those of the same turn that wait with them but need nobody.

    `digest` covers every call as it was judged: whoever answers, answers exactly this.
    """

    id: str
    thread_id: str
    turn: int = 0
    """Which reply of the model in this thread asked for the calls."""
    node: str = NODE
    state: Mapping[str, Any] = field(default_factory=dict)
    """Where the agent stands: its messages so far."""
    tool_feedbacks: tuple[ToolFeedback, ...]
    tools_automatically_approved: tuple[ToolCall, ...] = ()
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    default: str = DEFAULT
    """What becomes of the calls when nobody answers in time: "reject", or "hold" to go on waiting."""
    case: Mapping[str, Any] | None = None
    """Where a person can decide the calls: `case_id`, `review_url` and `expires_at` of the case."""

    @property
    def undecided(self) -> tuple[ToolFeedback, ...]:
        """The calls that nobody has decided yet."""
        return tuple(waiting for waiting in self.tool_feedbacks if waiting.result is None)

    def approve_all(self) -> Self:
        """Every call that is still undecided runs as it stands."""
        return self._each(lambda waiting: waiting.approve())

    def reject_all(self, reason: str | None = None) -> Self:
        """No call that is still undecided runs; the model is told why."""
        return self._each(lambda waiting: waiting.reject(reason))

    def edit_tool(self, name: str, arguments: Mapping[str, Any] | str) -> Self:
        """The calls of this tool run with these arguments, every other undecided one as it stands."""
        if not any(waiting.name == name for waiting in self.undecided):
            raise InvalidFeedback(f"No call of {name} waits here.")
        changed = read_arguments(arguments)
        return self._each(
            lambda waiting: (
                waiting.edit(changed)
                if waiting.name == name and waiting.arguments != changed
                else waiting.approve()
            )
        )

    def approve(self, call_id: str) -> Self:
        """One call runs as it stands; the others stay as they are."""
        return self._one(call_id, lambda waiting: waiting.approve())

    def edit(self, call_id: str, arguments: Mapping[str, Any] | str, *, name: str | None = None) -> Self:
        """One call runs with these arguments."""
        return self._one(call_id, lambda waiting: waiting.edit(arguments, name=name))

    def reject(self, call_id: str, reason: str | None = None) -> Self:
        """One call does not run."""
        return self._one(call_id, lambda waiting: waiting.reject(reason))

    def respond(self, call_id: str, answer: str) -> Self:
        """One call does not run; the person answers in the tool's place."""
        return self._one(call_id, lambda waiting: waiting.respond(answer))

    def with_feedback(self, decided: ToolFeedback) -> Self:
        """The same interruption with this call decided so."""
        return self._one(decided.id, lambda waiting: decided)

    def with_verdicts(self, verdicts: Mapping[str, Verdict]) -> Self:
        """The same interruption, showing what has been decided so far."""
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
        """The calls as they wait, ready for JSON; `state` and decisions are kept elsewhere."""
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
    def from_dict(cls, kept: Mapping[str, Any], *, state: Mapping[str, Any] | None = None) -> Self:
        """What `to_dict` wrote."""
        members, expires_at = {"case": None, **kept}, kept["expires_at"]
        members["state"] = state or {}
        members["tool_feedbacks"] = tuple(map(ToolFeedback.from_dict, kept["tool_feedbacks"]))
        calls = kept["tools_automatically_approved"]
        members["tools_automatically_approved"] = tuple(ToolCall(**call) for call in calls)
        members["created_at"] = datetime.fromisoformat(kept["created_at"])
        members["expires_at"] = None if expires_at is None else datetime.fromisoformat(expires_at)
        return build_frozen(cls, members) if members.keys() == _MEMBERS else cls(**members)

    def to_kept(self, thread_id: str) -> dict[str, Any]:
        """As `to_dict`, for the text of this thread: without what goes without saying there."""
        schemas: dict[str, Mapping[str, Any] | None] = {}
        kept: dict[str, Any] = {
            "id": self.id,
            "turn": self.turn,
            "tool_feedbacks": [waiting.to_kept(schemas) for waiting in self.tool_feedbacks],
            "schemas": schemas,
            "digest": self.digest,
            "created_at": self.created_at.isoformat(),
        }
        if self.thread_id != thread_id:
            kept["thread_id"] = self.thread_id
        if self.node != NODE:
            kept["node"] = self.node
        if self.tools_automatically_approved:
            calls = self.tools_automatically_approved
            kept["tools_automatically_approved"] = [call.to_dict() for call in calls]
        if self.expires_at is not None:
            kept["expires_at"] = self.expires_at.isoformat()
        if self.default != DEFAULT:
            kept["default"] = self.default
        return kept

    @classmethod
    def from_kept(cls, kept: Mapping[str, Any], *, thread_id: str, state: Mapping[str, Any]) -> Self:
        """What `to_kept` wrote for this thread, or `to_dict`."""
        members = {**_COMPACT_DEFAULTS, "thread_id": thread_id, **kept, "state": state}
        schemas, expires_at = members.pop("schemas", {}), members["expires_at"]
        if members.keys() != _MEMBERS:
            raise TypeError(f"An interruption has no {', '.join(members.keys() - _MEMBERS)}.")
        waiting = [ToolFeedback.from_kept(each, schemas) for each in members["tool_feedbacks"]]
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
            raise InvalidFeedback(f"No call {call_id} waits here.")
        return replace(
            self,
            tool_feedbacks=tuple(
                decide(waiting) if waiting.id == call_id else waiting for waiting in self.tool_feedbacks
            ),
        )


def new_interruption(
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
    """Freeze a turn's judgement, under an id of its own: an old answer to the same calls is none to these."""
    interruption_id = f"int_{os.urandom(16).hex()}"
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
"""What `to_kept` leaves out."""


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
    )
