"""Where a thread stands, as it is kept: enough to go on in another process, and nothing but JSON."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Self

from placet.hook import json_text
from placet.hook.feedback import Verdict
from placet.hook.frozen_values import build_frozen, replace
from placet.hook.interruption import InterruptionMetadata

Message = dict[str, Any]
GrantedCalls = Mapping[str, Mapping[str, Any]]
"""Call -> the `grant` that covers it, and the `call` as a person is asked about it if that ends."""
Stage = Literal["ready", "paused", "running"]
"""ready: the thread takes a message. paused: it waits for a person. running: someone works on it."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A thread at one moment. `rev` grows by one with every change; a change from an old `rev` is refused."""

    thread_id: str
    agent: str = ""
    """Whose thread it is; an agent inside another has both names."""
    rev: int = 0
    stage: Stage = "ready"
    messages: tuple[Message, ...] = ()
    interruption: InterruptionMetadata | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """The decisions given so far for the interruption."""
    started: tuple[str, ...] = ()
    """The calls of this turn that may have begun to run."""
    results: Mapping[str, str] = field(default_factory=dict)
    """What the calls of this turn have answered so far."""
    tools: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """The tools that an edit may lead to, where the one who answers does not know them: name -> schema."""
    granted: GrantedCalls = field(default_factory=dict)
    """Calls of this turn that grants cover and that wait with others."""
    changed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Calls that a person changed and that agents inside have stopped: call -> as it goes on."""
    queued: tuple[str, ...] = ()
    """Messages that came while the thread waited."""
    resumed: Mapping[str, int] = field(default_factory=dict)
    """Interruption that was answered -> how many messages the thread had when that was over."""
    case: Mapping[str, Any] | None = None
    """Where the interruption can be decided: the case that was opened for it."""

    def next(self, **changes: Any) -> Self:
        """The thread a step further."""
        return replace(self, rev=self.rev + 1, **changes)

    def to_json(self) -> str:
        """The whole thread as one text."""
        read: _SourceText | None = self.__dict__.get(_SOURCE)
        if read is not None and (added := read.added_in(self.__dict__)) is not None:
            added = self._spelled(added)
            return f"{read.text[:-1]},{json_text.encode_json(added)[1:]}" if added else read.text
        kept = {name: value for name, value in self.__dict__.items() if value and name not in _COLUMNS}
        return json_text.encode_json(self._spelled(kept))

    def _spelled(self, kept: dict[str, Any]) -> dict[str, Any]:
        if self.interruption is not None and "interruption" in kept:
            kept["interruption"] = self.interruption.to_kept(self.thread_id)
        if "verdicts" in kept:
            kept["verdicts"] = {call_id: verdict.to_dict() for call_id, verdict in self.verdicts.items()}
        return kept

    @classmethod
    def from_json(cls, text: str, *, thread_id: str, rev: int, stage: Stage) -> Self:
        """What `to_json` wrote, under the columns that a saver keeps beside it."""
        kept = json_text.decode_json(text)
        members: dict[str, Any] = {**_EMPTY, **kept, "thread_id": thread_id, "rev": rev, "stage": stage}
        if members.keys() != _MEMBERS:
            raise TypeError(f"A thread has no {', '.join(members.keys() - _MEMBERS)}.")
        for name in _SEQUENCES:
            members[name] = tuple(members[name])
        for name in _MAPPINGS - kept.keys():
            members[name] = {}
        said = members["verdicts"]
        members["verdicts"] = {call_id: Verdict.from_dict(each) for call_id, each in said.items()}
        if members["interruption"] is not None:
            members["interruption"] = InterruptionMetadata.from_kept(
                members["interruption"], thread_id=thread_id, state={"messages": members["messages"]}
            )
        if kept:
            members[_SOURCE] = _SourceText(text, kept.keys(), members.copy())
        return build_frozen(cls, members)


class _SourceText(NamedTuple):
    """What a thread was read from: what was added to it since need only be added to the text."""

    text: str
    names: Collection[str]
    """Of the members that the text has."""
    members: dict[str, Any]

    def added_in(self, members: dict[str, Any]) -> dict[str, Any] | None:
        """The members that the text does not have; None if it says of one what is no longer so."""
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
"""Kept beside the text, or not at all."""
_SEQUENCES = frozenset({"messages", "started", "queued"})
_MAPPINGS = frozenset({"verdicts", "results", "tools", "granted", "changed", "resumed"})
_EMPTY = {"agent": "", "interruption": None, "case": None, **dict.fromkeys(_SEQUENCES | _MAPPINGS, ())}
