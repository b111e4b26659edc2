"""The interface between inspecting messages and holding them."""

import hashlib
from typing import Protocol

from placet.relay.inspection.message_inspector import AnswerVerdict, InspectionRequest, RefuseVerdict
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.policy import Leg


class MessageHolder(Protocol):
    """Holds messages until a person has decided."""

    async def hold(
        self, leg: Leg, request: InspectionRequest, evaluation: Evaluation
    ) -> AnswerVerdict | RefuseVerdict:
        """Hold what a policy found, durably; the verdict is what the caller gets meanwhile.

        Findings count into the texts of the message itself, which for a stream is all of it as one answer.
        """
        ...

    async def list_approved(self, request: InspectionRequest) -> frozenset[str]:
        """Digests (`digest_text`) of the texts that a person has let pass in this task (ruling 26).

        What is in it is not held again, in `history` or on a later leg; whatever else is found still counts.
        """
        ...


def digest_text(text: str) -> str:
    """What an approved text is remembered by."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_file(content: str) -> str:
    """What an approved file that is no text is remembered by; no text has the same."""
    return digest_text(f"\x00file\x00{content}")
