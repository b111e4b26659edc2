"""The interface through which inspection holds messages."""

from typing import Protocol

from placet.relay.a2a.json_format import Json
from placet.relay.inspection.message_inspector import InspectionRequest
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.policy import Leg


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
