"""What the loop asks its driver to do, and is sent the outcome of."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placet.hook.calls import ToolCall
from placet.hook.checkpoint import Checkpoint, Granted, Message
from placet.hook.events import Event, Job, Outcome
from placet.hook.interruption import InterruptionMetadata

Case = Mapping[str, Any]


@dataclass(slots=True)
class Load:
    """Answered with the newest Kept of the thread, or None."""

    thread_id: str


@dataclass(slots=True)
class Put:
    """Keep the checkpoint; `leased` goes on holding the thread.

    `soon`: a power cut may undo it, since what would be lost then is told as unknown and not run again.
    """

    checkpoint: Checkpoint
    leased: bool = False
    soon: bool = False


@dataclass(slots=True)
class Claim:
    """Keep the checkpoint and hold the thread, if nobody else does."""

    checkpoint: Checkpoint


@dataclass(slots=True)
class AskModel:
    """Answered with the model's reply to these messages."""

    messages: tuple[Message, ...]


@dataclass(slots=True)
class Run:
    """Begin these jobs; answered, as Join is, with those that have ended: call -> text or interruption.

    The thread is held, at this checkpoint, as long as it takes.
    """

    jobs: Sequence[Job]
    checkpoint: Checkpoint


@dataclass(slots=True)
class Join:
    """Go on waiting for the jobs that have not ended."""

    checkpoint: Checkpoint


@dataclass(slots=True)
class Release:
    """Forget a thread of an agent inside, which nobody needs any more."""

    thread_id: str


@dataclass(slots=True)
class UseGrants:
    """Answered with those of the calls that a person allowed before: call -> grant."""

    calls: Sequence[ToolCall]
    thread_id: str
    turn: int


@dataclass(slots=True)
class LookAtGrants:
    """Answered with those of the calls whose grant still holds, now that they are to run."""

    granted: Granted


@dataclass(slots=True)
class Ask:
    """Open the case for an interruption; answered with the case, or None where nobody could be asked."""

    interruption: InterruptionMetadata
    attempt: int = 0


@dataclass(slots=True)
class Look:
    """Answered with the Ruling of a case, or None while it waits."""

    case: Case


@dataclass(slots=True)
class Withdraw:
    """The calls of this case were decided elsewhere."""

    case: Case


@dataclass(slots=True)
class Emit:
    """Tell whoever listens what happens on the way; a flow whose listeners only want the end does not."""

    events: Iterable[Event]


Effect = (
    Load | Put | Claim | AskModel | Run | Join | Release
    | UseGrants | LookAtGrants | Ask | Look | Withdraw | Emit
)  # fmt: skip
Steps = Generator[Effect, Any, Outcome]
Part = Generator[Effect, Any, Checkpoint | InterruptionMetadata]
"""A piece of the way: it ends with the thread a step further, or with the calls that wait for a person."""
