"""The seam between looking at messages and holding them."""

import hashlib
from typing import Protocol

from placet.relay.judging.inspection import Answered, Exchange, Refused
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.policy import Leg


class Holder(Protocol):
    """Takes messages over until a person has decided."""

    async def hold(self, leg: Leg, exchange: Exchange, evaluation: Evaluation) -> Answered | Refused:
        """Hold what a policy found, durably; the verdict is what the caller gets meanwhile.

        Findings count into the texts of the message itself, which for a stream is all of it as one answer.
        """
        ...

    async def approved(self, exchange: Exchange) -> frozenset[str]:
        """Digests (`text_digest`) of the texts that a person has let pass in this task (ruling 26).

        What is in it is not held again, in `history` or on a later leg; whatever else is found still counts.
        """
        ...


def text_digest(text: str) -> str:
    """What an approved text is remembered by."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_digest(content: str) -> str:
    """What an approved file that is no text is remembered by; no text has the same."""
    return text_digest(f"\x00file\x00{content}")
