"""What the agent loop asks its driver to do, beside the effects of a turn; the driver returns the result."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from placet.hook.checkpoint import Checkpoint, Message
from placet.hook.events import AgentEvent, AgentOutcome, ToolJob
from placet.hook.interruption import InterruptionMetadata
from placet.hook.turn import TurnEffect


@dataclass(slots=True)
class LoadCheckpoint:
    """Load the newest SavedCheckpoint of the thread, or None."""

    thread_id: str


@dataclass(slots=True)
class ClaimThread:
    """Save the checkpoint and take the thread's lease, if no other process holds it."""

    checkpoint: Checkpoint


@dataclass(slots=True)
class CallModel:
    """Return the model's reply to these messages."""

    messages: tuple[Message, ...]


@dataclass(slots=True)
class RunStep:
    """Call the agent's own hooks around a step; return the value, or what they returned in its place."""

    name: str
    value: Any


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
class EmitEvents:
    """Report events to the consumer; a loop without a consumer does not yield this."""

    events: Iterable[AgentEvent]


Effect = (
    TurnEffect
    | RunStep
    | LoadCheckpoint
    | ClaimThread
    | CallModel
    | RunTools
    | AwaitTools
    | ReleaseThread
    | EmitEvents
)
LoopSteps = Generator[Effect, Any, AgentOutcome]
LoopPart = Generator[Effect, Any, Checkpoint | InterruptionMetadata]
"""A part of the loop: it ends with the next checkpoint, or with the calls that wait for a reviewer."""
