"""The interface for inspecting messages on the four legs, and its verdicts."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

from msgspec import Struct

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.inspection.findings_record import FindingsRecord
from placet.relay.policies.policy import Leg
from placet.relay.registry.subscriptions import Subscription


class InspectionRequest(Struct, frozen=True, kw_only=True):
    """What an inspector receives: the call and, on response legs, the reply."""

    subscription: Subscription
    correlation_id: str
    call: A2ACall
    reply: A2AReply | None = None
    """On response legs the whole answer, or one event of a stream."""
    headers: Mapping[str, str] = {}
    """What travels besides and may be kept; credentials are not among it."""
    task_id: str | None = None
    """The caller's name of the task that a held message goes on with; None for what just came in."""
    upstream_task: str | None = None
    """The agent's own name for it, once it has said one."""
    webhook: str | None = None
    """Where the agent is to push to, if the caller wants to be told of changes."""
    pushed: bool = False
    """Whether the agent told it unasked, by a push notification; the call then only names the task."""
    findings_record: FindingsRecord | None = None
    """Where those who look write what they found, for the audit of the call as a whole."""


class PassVerdict(Struct, frozen=True):
    """Go on."""


class ChangeVerdict(Struct, frozen=True):
    """Go on with another document in the place of the one that was looked at."""

    document: dict[str, Any]


class RefuseVerdict(Struct, frozen=True):
    """Go no further, and tell the caller this."""

    problem: A2AError


class AnswerVerdict(Struct, frozen=True):
    """Go no further: the relay has taken the task over, and this document is the caller's answer."""

    document: dict[str, Any]


class ReleaseVerdict(Struct, frozen=True):
    """Go on with these events in the place of all that were looked at."""

    replies: tuple[A2AReply, ...]


Verdict = PassVerdict | ChangeVerdict | RefuseVerdict | AnswerVerdict
StreamVerdict = PassVerdict | ReleaseVerdict | RefuseVerdict | AnswerVerdict
PASS = PassVerdict()


class QuickCheck(Enum):
    """The result of a quick check without waiting."""

    UNWATCHED = "Nothing looks at it."
    CLEAR = "Nothing that is looked for is in it."
    UNSURE = "It has to be inspected."


class MessageInspector(Protocol):
    """Looks at every message. Whatever it raises ends the exchange: no error becomes a pass."""

    def has_policies(self, leg: Leg, subscription: Subscription) -> bool:
        """Whether anything looks at this leg at all; a leg nobody looks at costs nothing."""
        ...

    def check_quickly(self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply) -> QuickCheck:
        """What can be said without waiting, as of nearly all messages. Raises nothing: doubt is unsure."""
        ...

    async def inspect(self, leg: Leg, request: InspectionRequest) -> Verdict:
        """What becomes of the message."""
        ...

    def must_withhold(self, subscription: Subscription) -> bool:
        """Whether a stream must be seen whole before its caller gets any text of it.

        That is so wherever something could be masked, refused or held of which each half is in another event.
        """
        ...

    async def inspect_stream(
        self, leg: Leg, request: InspectionRequest, replies: Sequence[A2AReply]
    ) -> StreamVerdict:
        """What becomes of all events of a stream together."""
        ...


class PassthroughInspector:
    """A `MessageInspector` that passes everything."""

    def has_policies(self, leg: Leg, subscription: Subscription) -> bool:
        """Nothing does."""
        return False

    def check_quickly(self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply) -> QuickCheck:
        """Nothing looks."""
        return QuickCheck.UNWATCHED

    async def inspect(self, leg: Leg, request: InspectionRequest) -> Verdict:
        """Everything passes."""
        return PASS

    def must_withhold(self, subscription: Subscription) -> bool:
        """No stream waits."""
        return False

    async def inspect_stream(
        self, leg: Leg, request: InspectionRequest, replies: Sequence[A2AReply]
    ) -> StreamVerdict:
        """Everything passes."""
        return PASS
