"""Where a thread stands, as it is kept: enough to go on in another process, and nothing but JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from assent.hook import texts
from assent.hook.feedback import Verdict
from assent.hook.interruption import InterruptionMetadata
from assent.hook.values import replace

Message = dict[str, Any]
Stage = Literal["ready", "paused", "running"]
"""ready: the thread takes a message. paused: it waits for a person. running: someone works on it."""


@dataclass(frozen=True, kw_only=True, slots=True)
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
        kept = {
            "agent": self.agent,
            "messages": self.messages,
            "interruption": None if self.interruption is None else self.interruption.to_dict(),
            "verdicts": {call_id: verdict.to_dict() for call_id, verdict in self.verdicts.items()},
            "started": self.started,
            "results": self.results,
            "tools": self.tools,
            "queued": self.queued,
            "resumed": self.resumed,
            "case": self.case,
        }
        return texts.write({name: value for name, value in kept.items() if value})

    @classmethod
    def from_json(cls, text: str, *, thread_id: str, rev: int, stage: Stage) -> Self:
        """What `to_json` wrote, under the columns that a saver keeps beside it."""
        kept = texts.read(text)
        messages = tuple(kept.pop("messages", ()))
        interruption = kept.pop("interruption", None)
        verdicts = {call_id: Verdict.from_dict(said) for call_id, said in kept.pop("verdicts", {}).items()}
        return cls(
            thread_id=thread_id,
            rev=rev,
            stage=stage,
            messages=messages,
            interruption=None
            if interruption is None
            else InterruptionMetadata.from_dict(interruption, state={"messages": messages}),
            verdicts=verdicts,
            started=tuple(kept.pop("started", ())),
            queued=tuple(kept.pop("queued", ())),
            **kept,
        )
