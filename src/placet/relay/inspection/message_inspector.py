"""The interfaces for inspecting and holding messages, and what they exchange."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.json_format import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.detectors.stream_plan import StreamPlan
from placet.relay.policy.evaluation import Evaluation, Outcome
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import Leg
from placet.relay.policy.verdict import PolicyVerdict, QuickCheck
from placet.relay.tenants import Subscription
from placet.relay.write_queue import CallWrites


class FindingsRecord:
    """The findings of one call by leg. Inspectors add to it while the call runs."""

    __slots__ = ("findings", "outcome", "unreadable_paths")

    def __init__(self) -> None:
        self.findings: dict[Leg, tuple[Finding, ...]] = {}
        self.unreadable_paths: dict[Leg, tuple[str, ...]] = {}
        self.outcome = Outcome.PASS
        """The strictest outcome of all legs."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no findings and every outcome is to pass."""
        return not self.findings and not self.unreadable_paths and self.outcome is Outcome.PASS

    def add(self, leg: Leg, evaluation: Evaluation) -> None:
        """Add the evaluation of a leg."""
        if evaluation.findings:
            self.findings[leg] = (*self.findings.get(leg, ()), *evaluation.findings)
        if evaluation.unreadable_paths:
            self.unreadable_paths[leg] = (*self.unreadable_paths.get(leg, ()), *evaluation.unreadable_paths)
        if evaluation.outcome.strictness > self.outcome.strictness:
            self.outcome = evaluation.outcome


class InspectionRequest(Struct, frozen=True, kw_only=True):
    """What an inspector gets: the call and, on response legs, the reply."""

    subscription: Subscription
    correlation_id: str
    call: A2ACall
    reply: A2AReply | None = None
    """On response legs, the whole reply or one event of a stream."""
    headers: Mapping[str, str] = {}
    """The headers that are forwarded and may be stored, without credentials."""
    task_id: str | None = None
    """The caller's id of the task of a held message; None for a new message."""
    upstream_task: str | None = None
    """The agent's id of the task, or None if it is not known yet."""
    webhook: str | None = None
    """The URL for the agent's push notifications, if the caller wants them."""
    pushed: bool = False
    """Whether the reply is a push notification. The call then only names the task."""
    findings_record: FindingsRecord | None = None
    """Collects the findings of all legs for the audit event of the call."""
    forwarded: str | None = None
    """The digest of the message as the agent got it; None if the relay sent no message to the agent."""
    sent_message: dict[str, Any] | None = None
    """The message as the agent got it."""
    released_events: int = 0
    """The number of events of a stream that the caller has got before the stream was inspected as a whole."""
    writes: CallWrites | None = None
    """The task rows that wait for the audit event of the call."""


class MessageInspector(Protocol):
    """Inspects every message. An exception ends the exchange, so a failure never passes a message."""

    def has_policies(self, leg: Leg, subscription: Subscription) -> bool:
        """Whether a policy may apply to this leg. Other legs are not inspected."""
        ...

    def check_quickly(self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply) -> QuickCheck:
        """Return the result of a quick check, which decides most messages. Returns UNSURE on any failure."""
        ...

    async def inspect(self, leg: Leg, request: InspectionRequest) -> PolicyVerdict:
        """Return the verdict about a message."""
        ...

    def plan_stream(self, subscription: Subscription) -> StreamPlan:
        """Return how a stream is inspected: event by event, behind a window, or whole."""
        ...

    async def inspect_window(
        self, subscription: Subscription, texts: Sequence[Scannable]
    ) -> Sequence[Finding] | None:
        """Return the findings of policies that mask, hold or block responses. None if a check failed.

        This does not record the findings: the whole stream is inspected again when it has ended.
        """
        ...

    async def inspect_stream(
        self, leg: Leg, request: InspectionRequest, replies: Sequence[A2AReply]
    ) -> PolicyVerdict:
        """Return the verdict about all events of a stream. Events that are held are merged into one reply."""
        ...

    async def is_stream_clean(
        self, request: InspectionRequest, replies: Sequence[A2AReply], pieces: Sequence[Sequence[TextPiece]]
    ) -> bool:
        """Return whether no policy finds anything on the response legs in a stream with these texts.

        False if a check fails. This records nothing.
        """
        ...

    async def observe_stream(self, request: InspectionRequest, replies: Sequence[A2AReply]) -> None:
        """Record what policies find on the response legs in a stream that the caller has got."""
        ...


class MessageHolder(Protocol):
    """Holds messages until a person decides."""

    async def hold(self, leg: Leg, request: InspectionRequest, evaluation: Evaluation) -> Json:
        """Store a hold. Return the response for the caller: a task to wait for.

        The findings refer to the texts of the message; a stream is one merged response. Raises A2AError if
        the message cannot be held.
        """
        ...

    async def hold_input_request(self, request: InspectionRequest) -> Json | None:
        """Hold a response, event or notification in which the agent asks for input, as `hold` does.

        Return None if the request for input goes to the caller.
        """
        ...

    async def list_approved(self, request: InspectionRequest) -> frozenset[str]:
        """Return the digests of the texts, files and matches that a person has approved in this task.

        Approved texts are not held again in `history` or on a later leg. Other findings still count.
        """
        ...

    async def report_observed(self, request: InspectionRequest, evaluation: Evaluation) -> None:
        """Report what policies found in a stream that was only observed. The caller has got it."""
        ...
