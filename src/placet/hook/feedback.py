"""A reviewer's decision on one tool call; `answer_validation` checks whether it fits the call."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, NotRequired, Self, TypedDict

from placet.cases.execution_outcomes import NotRunReason
from placet.errors import InvalidFeedback
from placet.hook.frozen_values import build_frozen, replace
from placet.hook.tool_call import Arguments, ToolCall, read_arguments


class FeedbackResult(StrEnum):
    """The possible decisions on a call. None is not a decision and never runs a call."""

    APPROVED = "approve"
    EDITED = "edit"
    REJECTED = "reject"
    RESPONDED = "respond"


DecisionName = Literal["approve", "edit", "reject", "respond"]
"""The values of FeedbackResult, for programs that write them as text."""


class DecisionMembers(TypedDict):
    """A decision with what belongs to it, as in `result.data.decisions` of a case."""

    decision: FeedbackResult | DecisionName
    name: NotRequired[str | None]
    """Another tool to run, if an edit names one."""
    arguments: NotRequired[Mapping[str, Any] | str | None]
    """The edited arguments."""
    reason: NotRequired[str | None]
    answer: NotRequired[str | None]
    decided_by: NotRequired[str | None]


CallDecision = FeedbackResult | DecisionName | DecisionMembers
"""A decision on one call, as an answer gives it."""
DEFAULT_DECISIONS = (FeedbackResult.APPROVED, FeedbackResult.EDITED, FeedbackResult.REJECTED)


@dataclass(frozen=True, kw_only=True)
class ToolFeedback:
    """A call that waits, with what a reviewer needs to decide it; with `result` set, the decision itself.

    An edit has the new arguments in `arguments` (and another tool in `name`), a rejection its reason in
    `reason`, and a response the reviewer's answer in place of the tool's in `answer`.
    """

    id: str
    name: str
    arguments: Arguments = field(default_factory=dict)
    description: str = ""
    result: FeedbackResult | None = None
    reason: str | None = None
    answer: str | None = None
    decided_by: str | None = None
    allowed_decisions: tuple[FeedbackResult, ...] = DEFAULT_DECISIONS
    schema: Mapping[str, Any] | None = None
    """The tool's JSON Schema, which edited arguments must match."""
    path: tuple[str, ...] = ()
    """The agents between the one that was called and the one that makes this call, outermost first."""
    high_risk: bool = False
    """A high-risk call is never covered by a grant."""
    not_run: NotRunReason | None = None
    """Why the call does not run, once that is decided."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", read_arguments(self.arguments))
        if self.result is not None:
            object.__setattr__(self, "result", _parse_result(self.result))
        if self.not_run is not None:
            object.__setattr__(self, "not_run", NotRunReason(self.not_run))

    @classmethod
    def for_call(
        cls,
        call: ToolCall,
        *,
        description: str,
        allowed_decisions: tuple[FeedbackResult, ...],
        schema: Mapping[str, Any] | None,
        high_risk: bool,
    ) -> Self:
        """Return the feedback for a call that is not decided yet."""
        members = {
            "id": call.id,
            "name": call.name,
            "arguments": dict(call.arguments),
            "description": description,
            **_UNDECIDED,
            "allowed_decisions": allowed_decisions,
            "schema": schema,
            "path": (),
            "high_risk": high_risk,
        }
        return build_frozen(cls, members)

    @property
    def call(self) -> ToolCall:
        """The call itself."""
        return ToolCall(id=self.id, name=self.name, arguments=self.arguments)

    @property
    def verdict(self) -> "Verdict | None":
        """The decision, or None if there is none; arguments and names of edits are left out."""
        if self.result is None:
            return None
        not_run = None if self.not_run is NotRunReason.REJECTED else self.not_run
        return Verdict(decision=self.result, reason=self.reason, answer=self.answer, not_run=not_run)

    def reuse_call(self, asked: ToolCall) -> ToolCall:
        """Return the call; the requested object itself if it is equal."""
        same = asked.id == self.id and asked.name == self.name and asked.arguments == self.arguments
        return asked if same else self.call

    def approve(self) -> Self:
        """Run the call as requested."""
        arguments = dict(self.arguments)
        return build_frozen(
            type(self), {**self.__dict__, "arguments": arguments, "result": FeedbackResult.APPROVED}
        )

    def edit(self, arguments: Mapping[str, Any] | str, *, name: str | None = None) -> Self:
        """Run the call with these arguments instead, or run another tool with them."""
        changed = read_arguments(arguments)
        _check_text("name", name)
        return replace(self, result=FeedbackResult.EDITED, arguments=changed, name=name or self.name)

    def reject(self, reason: str | None = None) -> Self:
        """Do not run the call; the model reads the reason."""
        _check_text("reason", reason)
        return replace(self, result=FeedbackResult.REJECTED, reason=reason)

    def respond(self, answer: str) -> Self:
        """Do not run the call; the model reads this as the tool's answer."""
        _check_text("answer", answer, required=True)
        return replace(self, result=FeedbackResult.RESPONDED, answer=answer)

    def to_dict(self) -> dict[str, Any]:
        """Return the waiting call, ready for JSON; a decision is stored separately, as a Verdict."""
        return {
            "id": self.id,
            "name": self.name,
            "arguments": self.arguments,
            "description": self.description,
            "allowed_decisions": list(self.allowed_decisions),
            "schema": self.schema,
            "path": list(self.path),
            "high_risk": self.high_risk,
        }

    def to_compact(self, schemas: dict[str, Mapping[str, Any] | None]) -> dict[str, Any]:
        """Return the waiting call as it is saved in a checkpoint, without default values.

        Its schema is added to `schemas`, which calls of the same tool share.
        """
        members: dict[str, Any] = {"id": self.id, "name": self.name, "arguments": self.arguments}
        if schemas.setdefault(self.name, self.schema) is not self.schema:
            members["schema"] = self.schema
        if self.description:
            members["description"] = self.description
        if self.allowed_decisions != DEFAULT_DECISIONS:
            members["allowed_decisions"] = self.allowed_decisions
        if self.path:
            members["path"] = self.path
        if self.high_risk:
            members["high_risk"] = True
        return members

    @classmethod
    def from_compact(cls, stored: Mapping[str, Any], schemas: Mapping[str, Mapping[str, Any] | None]) -> Self:
        """Return what `to_compact` or `to_dict` wrote."""
        members = {**_COMPACT_DEFAULTS, "schema": schemas.get(stored["name"]), **stored, **_UNDECIDED}
        if members.keys() != _FEEDBACK_MEMBERS:
            raise TypeError(f"A waiting call has no member {', '.join(members.keys() - _FEEDBACK_MEMBERS)}.")
        members["arguments"] = read_arguments(stored["arguments"])
        if "allowed_decisions" in stored:
            members["allowed_decisions"] = _parse_decisions(tuple(stored["allowed_decisions"]))
        if "path" in stored:
            members["path"] = tuple(stored["path"])
        return build_frozen(cls, members)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Return what `to_dict` wrote."""
        decisions, path = _parse_decisions(tuple(stored["allowed_decisions"])), tuple(stored["path"])
        if stored.keys() != _DICT_MEMBERS:
            return cls(**{**stored, "allowed_decisions": decisions, "path": path})
        arguments = read_arguments(stored["arguments"])
        members = {
            **_UNDECIDED,
            **stored,
            "arguments": arguments,
            "allowed_decisions": decisions,
            "path": path,
        }
        return build_frozen(cls, members)


_DICT_MEMBERS = frozenset(ToolFeedback(id="", name="").to_dict())
_UNDECIDED = dict.fromkeys(("result", "reason", "answer", "decided_by", "not_run"))
"""Members that `to_dict` leaves out."""
_COMPACT_DEFAULTS = {
    "description": "",
    "allowed_decisions": DEFAULT_DECISIONS,
    "path": (),
    "high_risk": False,
}
"""Members that `to_compact` leaves out when they have these values."""
_FEEDBACK_MEMBERS = frozenset(member.name for member in fields(ToolFeedback))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One checked decision, as it is stored and sent in `result.data.decisions`."""

    decision: FeedbackResult
    name: str | None = None
    """Another tool to run, if an edit names one."""
    arguments: Arguments | None = None
    """The edited arguments."""
    reason: str | None = None
    answer: str | None = None
    decided_by: str | None = None
    not_run: NotRunReason | None = None
    """Why the call does not run, if no person rejected it."""

    @property
    def not_run_reason(self) -> NotRunReason | None:
        """Why the call does not run; None if it runs, or if a person answered in its place."""
        return self.not_run or (NotRunReason.REJECTED if self.decision is FeedbackResult.REJECTED else None)

    @classmethod
    def restore(cls, stored: Mapping[str, Any]) -> Self:
        """Return what `to_dict` wrote."""
        not_run = stored.get("not_run")
        if not_run is None:
            return cls.from_dict(stored)
        given = {name: value for name, value in stored.items() if name != "not_run"}
        return replace(cls.from_dict(given), not_run=NotRunReason(not_run))

    def to_dict(self) -> dict[str, Any]:
        """Return the members that are set."""
        return {name: value for name, value in self.__dict__.items() if value is not None}

    @classmethod
    def from_dict(cls, stored: Any) -> Self:
        """Return a decision from its members, or from a word such as "approve"; raises InvalidFeedback."""
        members = {"decision": stored} if isinstance(stored, str) else stored
        if not isinstance(members, Mapping):
            raise InvalidFeedback(
                f"A decision must be one of {', '.join(FeedbackResult)}, or an object with a decision."
            )
        if unknown := set(members) - _VERDICT_MEMBERS:
            raise InvalidFeedback(f"A decision has no member {', '.join(sorted(map(str, unknown)))}.")
        arguments = members.get("arguments")
        texts = {name: _read_text(members, name) for name in _VERDICT_TEXTS}
        return cls(
            decision=_parse_result(members.get("decision")),
            arguments=None if arguments is None else read_arguments(arguments),
            name=texts["name"],
            reason=texts["reason"],
            answer=texts["answer"],
            decided_by=texts["decided_by"],
        )


def contradicts(first: Verdict, later: Verdict, tool: str) -> bool:
    """Return whether two decisions on a call of this tool say something else; reasons may differ."""
    return _describe_outcome(first, tool) != _describe_outcome(later, tool)


def _describe_outcome(verdict: Verdict, tool: str) -> tuple[object, ...]:
    return verdict.decision, verdict.name or tool, verdict.arguments, verdict.answer


_VERDICT_TEXTS = ("name", "reason", "answer", "decided_by")
_VERDICT_MEMBERS = frozenset(member.name for member in fields(Verdict)) - {"not_run"}
"""The members that an answer may have."""
_RESULTS: dict[str, FeedbackResult] = {result.value: result for result in FeedbackResult}


@lru_cache(maxsize=64)
def _parse_decisions(said: tuple[Any, ...]) -> tuple[FeedbackResult, ...]:
    return tuple(map(_parse_result, said))


def _parse_result(said: Any) -> FeedbackResult:
    if type(said) is FeedbackResult:
        return said
    try:
        return _RESULTS[said]
    except (KeyError, TypeError):
        raise InvalidFeedback(
            f"{said!r} is not a decision: use one of {', '.join(FeedbackResult)}."
        ) from None


def _check_text(name: str, value: object, *, required: bool = False) -> None:
    if not isinstance(value, str) and (required or value is not None):
        raise InvalidFeedback(f"{name} must be text.")


def _read_text(members: Mapping[str, Any], name: str) -> str | None:
    value = members.get(name)
    _check_text(name, value)
    return value
