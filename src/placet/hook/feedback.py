"""What a person says to one tool call; whether it fits the call is judged in `answers`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self

from placet.errors import InvalidFeedback
from placet.hook.frozen_values import build_frozen, replace
from placet.hook.tool_call import Arguments, ToolCall, read_arguments


class FeedbackResult(StrEnum):
    """The ways to decide a call; None is none of them, and never runs anything."""

    APPROVED = "approve"
    EDITED = "edit"
    REJECTED = "reject"
    RESPONDED = "respond"


DEFAULT_DECISIONS = (FeedbackResult.APPROVED, FeedbackResult.EDITED, FeedbackResult.REJECTED)


@dataclass(frozen=True, kw_only=True)
class ToolFeedback:
    """A call that waits, with what a person needs to decide it; with `result` set, the decision itself.

    An edit carries the new arguments in `arguments` (and another tool in `name`); a rejection its reason in
    `reason`; a response, what the person says in the tool's place, in `answer`.
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
    """The tool's JSON Schema: what edited arguments must fit."""
    path: tuple[str, ...] = ()
    """The agents between the one that was called and the one that asks, outermost first."""
    high_risk: bool = False
    """Such a call is never covered by a grant."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", read_arguments(self.arguments))
        if self.result is not None:
            object.__setattr__(self, "result", _parse_result(self.result))

    @classmethod
    def of(
        cls,
        call: ToolCall,
        *,
        description: str,
        allowed_decisions: tuple[FeedbackResult, ...],
        schema: Mapping[str, Any] | None,
        high_risk: bool,
    ) -> Self:
        """This call, which nobody has decided yet."""
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

    def call_of(self, asked: ToolCall) -> ToolCall:
        """The call itself; the one that was asked for, if it is the same."""
        same = asked.id == self.id and asked.name == self.name and asked.arguments == self.arguments
        return asked if same else self.call

    def approve(self) -> Self:
        """Run it as it stands."""
        arguments = dict(self.arguments)
        return build_frozen(
            type(self), {**self.__dict__, "arguments": arguments, "result": FeedbackResult.APPROVED}
        )

    def edit(self, arguments: Mapping[str, Any] | str, *, name: str | None = None) -> Self:
        """Run it with these arguments instead, or run another tool with them."""
        changed = read_arguments(arguments)
        return replace(self, result=FeedbackResult.EDITED, arguments=changed, name=name or self.name)

    def reject(self, reason: str | None = None) -> Self:
        """Do not run it; the model is told why."""
        return replace(self, result=FeedbackResult.REJECTED, reason=reason)

    def respond(self, answer: str) -> Self:
        """Do not run it; the model gets this as the tool's answer."""
        return replace(self, result=FeedbackResult.RESPONDED, answer=answer)

    def to_dict(self) -> dict[str, Any]:
        """The waiting call, ready for JSON; a decision is kept apart, as a Verdict."""
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

    def to_kept(self, schemas: dict[str, Mapping[str, Any] | None]) -> dict[str, Any]:
        """The waiting call as a thread is kept: without what goes without saying.

        Its schema is added to `schemas`, where calls of one tool share it.
        """
        kept: dict[str, Any] = {"id": self.id, "name": self.name, "arguments": self.arguments}
        if schemas.setdefault(self.name, self.schema) is not self.schema:
            kept["schema"] = self.schema
        if self.description:
            kept["description"] = self.description
        if self.allowed_decisions != DEFAULT_DECISIONS:
            kept["allowed_decisions"] = self.allowed_decisions
        if self.path:
            kept["path"] = self.path
        if self.high_risk:
            kept["high_risk"] = True
        return kept

    @classmethod
    def from_kept(cls, kept: Mapping[str, Any], schemas: Mapping[str, Mapping[str, Any] | None]) -> Self:
        """What `to_kept` wrote, or `to_dict`."""
        members = {**_COMPACT_DEFAULTS, "schema": schemas.get(kept["name"]), **kept, **_UNDECIDED}
        if members.keys() != _FEEDBACK_MEMBERS:
            raise TypeError(f"A waiting call has no {', '.join(members.keys() - _FEEDBACK_MEMBERS)}.")
        members["arguments"] = read_arguments(kept["arguments"])
        if "allowed_decisions" in kept:
            members["allowed_decisions"] = _parse_decisions(tuple(kept["allowed_decisions"]))
        if "path" in kept:
            members["path"] = tuple(kept["path"])
        return build_frozen(cls, members)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote."""
        decisions, path = _parse_decisions(tuple(kept["allowed_decisions"])), tuple(kept["path"])
        if kept.keys() != _DICT_MEMBERS:
            return cls(**{**kept, "allowed_decisions": decisions, "path": path})
        arguments = read_arguments(kept["arguments"])
        members = {**_UNDECIDED, **kept, "arguments": arguments, "allowed_decisions": decisions, "path": path}
        return build_frozen(cls, members)


_DICT_MEMBERS = frozenset(ToolFeedback(id="", name="").to_dict())
_UNDECIDED = dict.fromkeys(("result", "reason", "answer", "decided_by"))
"""What `to_dict` leaves out."""
_COMPACT_DEFAULTS = {
    "description": "",
    "allowed_decisions": DEFAULT_DECISIONS,
    "path": (),
    "high_risk": False,
}
"""What `to_kept` leaves out."""
_FEEDBACK_MEMBERS = frozenset(member.name for member in fields(ToolFeedback))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One decision, checked and ready to be kept: what travels as a member of `result.data.decisions`."""

    decision: FeedbackResult
    name: str | None = None
    """Another tool to run, where an edit names one."""
    arguments: Arguments | None = None
    """The edited arguments."""
    reason: str | None = None
    answer: str | None = None
    decided_by: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The members that say something."""
        return {name: value for name, value in self.__dict__.items() if value is not None}

    @classmethod
    def from_dict(cls, kept: Any) -> Self:
        """A decision as it travels, or just its word, such as "approve"; raises InvalidFeedback."""
        members = {"decision": kept} if isinstance(kept, str) else kept
        if not isinstance(members, Mapping):
            raise InvalidFeedback(f"A decision is one of {', '.join(FeedbackResult)}, or an object with one.")
        if unknown := set(members) - _VERDICT_MEMBERS:
            raise InvalidFeedback(f"A decision has no member {', '.join(sorted(map(str, unknown)))}.")
        arguments = members.get("arguments")
        return cls(
            decision=_parse_result(members.get("decision")),
            arguments=None if arguments is None else read_arguments(arguments),
            **{name: _read_text(members, name) for name in ("name", "reason", "answer", "decided_by")},
        )


_VERDICT_MEMBERS = frozenset(member.name for member in fields(Verdict))
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
        raise InvalidFeedback(f"{said!r} is no decision: take one of {', '.join(FeedbackResult)}.") from None


def _read_text(members: Mapping[str, Any], name: str) -> str | None:
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidFeedback(f"{name} must be text.")
    return value
