"""The interfaces for inspecting and holding messages."""

from collections.abc import Sequence
from typing import Protocol

from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.json_format import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.detectors.stream_plan import StreamPlan
from placet.relay.exchange import Exchange
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import Leg
from placet.relay.policy.verdict import PolicyVerdict
from placet.relay.tenants import Subscription


class MessageInspector(Protocol):
    """Inspects every message. An exception ends the exchange, so a failure never passes a message."""

    def has_policies(self, leg: Leg, subscription: Subscription) -> bool:
        """Whether a policy may apply to this leg. Other legs are not inspected."""
        ...

    def inspect_quickly(
        self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply
    ) -> PolicyVerdict | None:
        """Return the verdict if it needs no waiting, as for most messages; None also after any failure."""
        ...

    async def inspect(self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply) -> PolicyVerdict:
        """Return the verdict about a message: a call, a reply, or one event of a stream."""
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
        self, leg: Leg, exchange: Exchange, replies: Sequence[A2AReply]
    ) -> PolicyVerdict:
        """Return the verdict about all events of a stream. Events that are held are merged into one reply."""
        ...

    async def is_stream_clean(
        self, exchange: Exchange, replies: Sequence[A2AReply], pieces: Sequence[Sequence[TextPiece]]
    ) -> bool:
        """Return whether no policy finds anything on the response legs in a stream with these texts.

        False if a check fails. This records nothing.
        """
        ...

    async def observe_stream(self, exchange: Exchange, replies: Sequence[A2AReply]) -> None:
        """Record what policies find on the response legs in a stream that the caller has got."""
        ...


class MessageHolder(Protocol):
    """Holds messages until a person decides."""

    async def hold(
        self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> Json:
        """Store a hold. Return the response for the caller: a task to wait for.

        The findings refer to the texts of the message; a stream is one merged response. Raises A2AError if
        the message cannot be held.
        """
        ...

    async def hold_input_request(self, exchange: Exchange, reply: A2AReply) -> Json | None:
        """Hold a response, event or notification in which the agent asks for input, as `hold` does.

        Return None if the request for input goes to the caller.
        """
        ...

    async def list_approved(self, exchange: Exchange, message: A2ACall | A2AReply) -> frozenset[str]:
        """Return the digests of the texts, files and matches that a person has approved in this task.

        Approved texts are not held again in `history` or on a later leg. Other findings still count.
        """
        ...

    async def report_observed(
        self, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> None:
        """Report what policies found in a stream that was only observed. The caller has got it."""
        ...
