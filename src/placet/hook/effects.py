"""What the loop asks its driver to do, and is sent the outcome of."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placet.hook.checkpoint import Checkpoint, GrantedCalls, Message
from placet.hook.events import Event, Outcome, ToolJob
from placet.hook.interruption import InterruptionMetadata
from placet.hook.tool_call import ToolCall

CaseMembers = Mapping[str, Any]


@dataclass(slots=True)
class LoadCheckpoint:
    """Answered with the newest Kept of the thread, or None."""

    thread_id: str


@dataclass(slots=True)
class SaveCheckpoint:
    """Keep the checkpoint; `leased` goes on holding the thread.

    `soon`: a power cut may undo it, since what would be lost then is told as unknown and not run again.
    """

    checkpoint: Checkpoint
    leased: bool = False
    soon: bool = False


@dataclass(slots=True)
class ClaimThread:
    """Keep the checkpoint and hold the thread, if nobody else does."""

    checkpoint: Checkpoint


@dataclass(slots=True)
class CallModel:
    """Answered with the model's reply to these messages."""

    messages: tuple[Message, ...]


@dataclass(slots=True)
class RunTools:
    """Begin these jobs; answered, as Join is, with those that have ended: call -> text or interruption.

    The thread is held, at this checkpoint, as long as it takes.
    """

    jobs: Sequence[ToolJob]
    checkpoint: Checkpoint


@dataclass(slots=True)
class AwaitTools:
    """Go on waiting for the jobs that have not ended."""

    checkpoint: Checkpoint


@dataclass(slots=True)
class ReleaseThread:
    """Forget a thread of an agent inside, which nobody needs any more."""

    thread_id: str


@dataclass(slots=True)
class UseGrants:
    """Answered with those of the calls that a person allowed before: call -> grant."""

    calls: Sequence[ToolCall]
    thread_id: str
    turn: int


@dataclass(slots=True)
class RecheckGrants:
    """Answered with those of the calls whose grant still holds, now that they are to run."""

    granted: GrantedCalls


@dataclass(slots=True)
class OpenCase:
    """Open the case for an interruption; answered with the case, or None where nobody could be asked."""

    interruption: InterruptionMetadata
    attempt: int = 0


@dataclass(slots=True)
class PollCase:
    """Answered with the Ruling of a case, or None while it waits."""

    case: CaseMembers


@dataclass(slots=True)
class WithdrawCase:
    """The calls of this case were decided elsewhere."""

    case: CaseMembers


@dataclass(slots=True)
class EmitEvents:
    """Tell whoever listens what happens on the way; a flow whose listeners only want the end does not."""

    events: Iterable[Event]


Effect = (
    LoadCheckpoint | SaveCheckpoint | ClaimThread | CallModel | RunTools | AwaitTools | ReleaseThread
    | UseGrants | RecheckGrants | OpenCase | PollCase | WithdrawCase | EmitEvents
)  # fmt: skip
LoopSteps = Generator[Effect, Any, Outcome]
LoopPart = Generator[Effect, Any, Checkpoint | InterruptionMetadata]
"""A piece of the way: it ends with the thread a step further, or with the calls that wait for a person."""
