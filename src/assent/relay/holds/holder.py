"""The seam between looking at messages and holding them."""

import hashlib
from collections.abc import Sequence
from typing import Protocol

from assent.ports.detector import Scannable
from assent.relay.a2a.reply import A2AReply
from assent.relay.inspection import Answered, Exchange, Refused
from assent.relay.policies.evaluation import Evaluation
from assent.relay.policies.policy import Leg


class Holder(Protocol):
    """Takes messages over until a person has decided."""

    async def hold(
        self,
        leg: Leg,
        exchange: Exchange,
        evaluation: Evaluation,
        *,
        pieces: Sequence[Scannable] | None = None,
        replies: Sequence[A2AReply] = (),
    ) -> Answered | Refused:
        """Hold what a policy found, durably; the verdict is what the caller gets meanwhile.

        `pieces` are the texts that were looked at, if not the message's own one by one; findings count into
        them. `replies` are all events of a stream, where it is one.
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
