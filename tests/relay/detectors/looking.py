"""An inspector over a handful of policies, for tests."""

from collections.abc import Iterable
from typing import Any

from placet.ports.detector import Detector, Scannable
from placet.relay.detectors.inspector import Inspector
from placet.relay.detectors.registry import Detectors
from placet.relay.policies.book import PolicyBook
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.policy import Leg, Policy
from tests.relay.policies.samples import NOW

WAY: dict[str, Any] = {"source": "alice", "sink": "bank", "leg": Leg.REQUEST_TO_SINK, "at": NOW}


def inspector(policies: Iterable[Policy], *detectors: Detector) -> Inspector:
    return Inspector(PolicyBook.for_everyone(policies, now=NOW), Detectors(detectors))


async def look(found: Inspector, *texts: str) -> Evaluation:
    pieces = [Scannable(f"message.parts[{place}].text", text) for place, text in enumerate(texts)]
    return await found.inspect(pieces, **WAY)
