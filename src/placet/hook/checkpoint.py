"""A thread's state as it is saved: enough to continue in another process, and nothing but JSON."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Self

from placet.hook import json_text
from placet.hook.feedback import Verdict
from placet.hook.frozen_values import build_frozen, replace
from placet.hook.interruption import InterruptionMetadata

Message = dict[str, Any]
GrantedCalls = Mapping[str, Mapping[str, Any]]
"""Call id -> the `grant` that covers it, and the `call` to show to a reviewer if that grant ends."""
Stage = Literal["ready", "paused", "running"]
"""ready: the thread takes a message. paused: it waits for a reviewer. running: a process works on it."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A thread at one moment. `rev` grows by one with every change; a change from an old `rev` is refused."""

    thread_id: str
    agent: str = ""
    """The agent that owns the thread; for an inner agent, the names of both."""
    rev: int = 0
    stage: Stage = "ready"
    messages: tuple[Message, ...] = ()
    interruption: InterruptionMetadata | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """The decisions on the interruption so far."""
    started: tuple[str, ...] = ()
    """The calls of this turn that may have started to run."""
    results: Mapping[str, str] = field(default_factory=dict)
    """The results of this turn's calls so far."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """How those calls of this turn ended that started and did not simply run: call id -> `CallState`."""
    tools: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """The tools that an edit may change to, for gates that do not know them: name -> schema."""
    asked: tuple[Mapping[str, Any], ...] = ()
    """The calls as they were asked about, for gates whose keys are chosen by others."""
    granted: GrantedCalls = field(default_factory=dict)
    """Calls of this turn that are covered by grants and wait together with others."""
    changed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Edited calls whose inner agents were interrupted: call id -> the call as it continues."""
    queued: tuple[str, ...] = ()
    """Messages that arrived while the thread was paused."""
    resumed: Mapping[str, int] = field(default_factory=dict)
    """Answered interruption -> the number of messages in the thread when its calls had ended."""
    decided: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)
    """Answered interruption -> the decisions on its calls, as `decision_record` keeps them."""
    case: Mapping[str, Any] | None = None
    """The case that was opened for the interruption."""

    def next(self, **changes: Any) -> Self:
        """Return the checkpoint that follows this one."""
        return replace(self, rev=self.rev + 1, **changes)

    def to_json(self) -> str:
        """Return the whole thread as one JSON text."""
        read: _SourceText | None = self.__dict__.get(_SOURCE)
        if read is not None and (added := read.find_added(self.__dict__)) is not None:
            added = self._serialize(added)
            return f"{read.text[:-1]},{json_text.encode_json(added)[1:]}" if added else read.text
        members = {name: value for name, value in self.__dict__.items() if value and name not in _COLUMNS}
        return json_text.encode_json(self._serialize(members))

    def _serialize(self, members: dict[str, Any]) -> dict[str, Any]:
        if self.interruption is not None and "interruption" in members:
            members["interruption"] = self.interruption.to_compact(self.thread_id)
        if "verdicts" in members:
            members["verdicts"] = {call_id: verdict.to_dict() for call_id, verdict in self.verdicts.items()}
        return members

    @classmethod
    def from_json(cls, text: str, *, thread_id: str, rev: int, stage: Stage) -> Self:
        """Return what `to_json` wrote, with the columns that a saver stores beside the text."""
        stored = json_text.decode_json(text)
        members: dict[str, Any] = {**_EMPTY, **stored, "thread_id": thread_id, "rev": rev, "stage": stage}
        if members.keys() != _MEMBERS:
            raise TypeError(f"A checkpoint has no member {', '.join(members.keys() - _MEMBERS)}.")
        for name in _SEQUENCES:
            members[name] = tuple(members[name])
        for name in _MAPPINGS - stored.keys():
            members[name] = {}
        said = members["verdicts"]
        members["verdicts"] = {call_id: Verdict.restore(each) for call_id, each in said.items()}
        if members["interruption"] is not None:
            members["interruption"] = InterruptionMetadata.from_compact(
                members["interruption"], thread_id=thread_id, state={"messages": members["messages"]}
            )
        if stored:
            members[_SOURCE] = _SourceText(text, stored.keys(), members.copy())
        return build_frozen(cls, members)


class _SourceText(NamedTuple):
    """The text that a checkpoint was read from: members added since then are appended to the text."""

    text: str
    names: Collection[str]
    """The members that the text contains."""
    members: dict[str, Any]

    def find_added(self, members: dict[str, Any]) -> dict[str, Any] | None:
        """Return the members that the text lacks; None if one of its members has changed."""
        added = {}
        for name, value in self.members.items():
            now = members[name]
            if now is not value and name not in _COLUMNS:
                if name in self.names:
                    return None
                added[name] = now
        return {name: value for name, value in added.items() if value}


_SOURCE = "_read"
_MEMBERS = frozenset(member.name for member in fields(Checkpoint))
_COLUMNS = frozenset({"thread_id", "rev", "stage", _SOURCE})
"""Stored beside the text, or not at all."""
_SEQUENCES = frozenset({"messages", "started", "asked", "queued"})
_MAPPINGS = frozenset({"verdicts", "results", "ends", "tools", "granted", "changed", "resumed", "decided"})
_EMPTY = {"agent": "", "interruption": None, "case": None, **dict.fromkeys(_SEQUENCES | _MAPPINGS, ())}
