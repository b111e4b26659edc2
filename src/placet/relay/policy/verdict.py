"""What the policies say about a message: pass, change, refuse, answer or release it."""

from enum import Enum
from typing import Any

from msgspec import Struct

from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply


class PassVerdict(Struct, frozen=True):
    """Forward the message."""


class ChangeVerdict(Struct, frozen=True):
    """Forward this document instead of the message."""

    document: dict[str, Any]


class RefuseVerdict(Struct, frozen=True):
    """Do not forward the message. Return this error to the caller."""

    problem: A2AError


class AnswerVerdict(Struct, frozen=True):
    """Do not forward the message. The relay owns the task and returns this document to the caller."""

    document: dict[str, Any]


class ReleaseVerdict(Struct, frozen=True):
    """Forward these events instead of the stream."""

    replies: tuple[A2AReply, ...]


Verdict = PassVerdict | ChangeVerdict | RefuseVerdict | AnswerVerdict
StreamVerdict = PassVerdict | ReleaseVerdict | RefuseVerdict | AnswerVerdict
PASS = PassVerdict()


class QuickCheck(Enum):
    """The result of a quick check, which does not wait."""

    UNWATCHED = "No policy applies."
    CLEAR = "No policy matches."
    UNSURE = "The message must be inspected."
