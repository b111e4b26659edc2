"""The seam between looking at messages and holding them."""

from typing import Protocol

from assent.relay.inspection import Exchange, Verdict
from assent.relay.policies.evaluation import Evaluation
from assent.relay.policies.policy import Leg


class Holder(Protocol):
    """Takes messages over until a person has decided."""

    async def hold(self, leg: Leg, exchange: Exchange, evaluation: Evaluation) -> Verdict:
        """Hold what a policy found, durably; the verdict is what the caller gets meanwhile."""
        ...

    def approved(self, exchange: Exchange, digest: str) -> bool:
        """Whether a person has let this very text of this task pass before (ruling 26)."""
        ...
