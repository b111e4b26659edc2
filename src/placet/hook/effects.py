"""Effects: what the agent loop asks its driver to do; the driver sends back the result."""

from collections.abc import Awaitable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placet.hook.checkpoint import Checkpoint, GrantedCalls, Message
from placet.hook.events import AgentEvent, AgentOutcome, ToolJob
from placet.hook.interruption import InterruptionMetadata
from placet.hook.tool_call import ToolCall

CaseMembers = Mapping[str, Any]


@dataclass(slots=True)
class LoadCheckpoint:
    """Load the newest SavedCheckpoint of the thread, or None."""

    thread_id: str


@dataclass(slots=True)
class SaveCheckpoint:
    """Save the checkpoint; `leased` keeps the thread's lease.

    `unsynced`: a power cut may undo the write, because calls lost that way are reported as unknown and
    not run again.
    """

    checkpoint: Checkpoint
    leased: bool = False
    unsynced: bool = False


@dataclass(slots=True)
class ClaimThread:
    """Save the checkpoint and take the thread's lease, if no other process holds it."""

    checkpoint: Checkpoint


@dataclass(slots=True)
class AwaitValue:
    """Return the value of an awaitable, such as the verdict of an async condition."""

    awaitable: Awaitable[Any]


@dataclass(slots=True)
class CallModel:
    """Return the model's reply to these messages."""

    messages: tuple[Message, ...]


@dataclass(slots=True)
class RunTools:
    """Start these jobs; return, like AwaitTools, those that have ended: call id -> text or interruption.

    The thread's lease is renewed at this checkpoint meanwhile.
    """

    jobs: Sequence[ToolJob]
    checkpoint: Checkpoint


@dataclass(slots=True)
class AwaitTools:
    """Wait for jobs that have not ended."""

    checkpoint: Checkpoint


@dataclass(slots=True)
class ReleaseThread:
    """Delete the thread of an inner agent that is no longer needed."""

    thread_id: str


@dataclass(slots=True)
class UseGrants:
    """Return the calls that are covered by a grant: call id -> grant id."""

    calls: Sequence[ToolCall]
    thread_id: str
    turn: int


@dataclass(slots=True)
class RecheckGrants:
    """Return the calls whose grant is still valid, just before they run."""

    granted: GrantedCalls


@dataclass(slots=True)
class OpenCase:
    """Open the case for an interruption; return the case, or None if it could not be opened yet."""

    interruption: InterruptionMetadata
    attempt: int = 0


@dataclass(slots=True)
class PollCase:
    """Return the CaseOutcome of a case, or None while it is open."""

    case: CaseMembers


@dataclass(slots=True)
class WithdrawCase:
    """Withdraw the case, because its calls were decided elsewhere."""

    case: CaseMembers


@dataclass(slots=True)
class EmitEvents:
    """Report events to the consumer; a loop without a consumer does not yield this."""

    events: Iterable[AgentEvent]


Effect = (
    LoadCheckpoint | SaveCheckpoint | ClaimThread | AwaitValue | CallModel | RunTools | AwaitTools
    | ReleaseThread | UseGrants | RecheckGrants | OpenCase | PollCase | WithdrawCase | EmitEvents
)  # fmt: skip
LoopSteps = Generator[Effect, Any, AgentOutcome]
LoopPart = Generator[Effect, Any, Checkpoint | InterruptionMetadata]
"""A part of the loop: it ends with the next checkpoint, or with the calls that wait for a reviewer."""
