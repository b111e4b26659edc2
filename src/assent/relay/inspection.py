"""The seam where messages are looked at: one question on each of the four legs, and what may be answered."""

from typing import Any, Protocol

from msgspec import Struct

from assent.relay.a2a.call import A2ACall
from assent.relay.a2a.problems import A2AProblem
from assent.relay.a2a.reply import A2AReply
from assent.relay.policies.policy import Leg
from assent.relay.registry import Subscription


class Exchange(Struct, frozen=True, kw_only=True):
    """A call on its way, and on the way back also what the agent answered or told."""

    subscription: Subscription
    correlation_id: str
    call: A2ACall
    reply: A2AReply | None = None
    """On response legs the whole answer, or one event of a stream."""


class Passed(Struct, frozen=True):
    """Go on."""


class Changed(Struct, frozen=True):
    """Go on with another document in the place of the one that was looked at."""

    document: dict[str, Any]


class Refused(Struct, frozen=True):
    """Go no further, and tell the caller this."""

    problem: A2AProblem


class Answered(Struct, frozen=True):
    """Go no further: the relay has taken the task over, and this document is the caller's answer."""

    document: dict[str, Any]


Verdict = Passed | Changed | Refused | Answered
PASSED = Passed()


class Inspector(Protocol):
    """Looks at every message. Whatever it raises ends the exchange: no error becomes a pass."""

    def watches(self, leg: Leg, subscription: Subscription) -> bool:
        """Whether anything looks at this leg at all; a leg nobody looks at costs nothing."""
        ...

    async def inspect(self, leg: Leg, exchange: Exchange) -> Verdict:
        """What becomes of the message."""
        ...


class PassEverything:
    """An `Inspector` that looks at nothing."""

    def watches(self, leg: Leg, subscription: Subscription) -> bool:
        """Nothing does."""
        return False

    async def inspect(self, leg: Leg, exchange: Exchange) -> Verdict:
        """Everything passes."""
        return PASSED
