"""An inspector over a handful of policies, for tests."""

from collections.abc import Iterable
from typing import Any

from placet.ports.detector import Detector, Scannable
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.policy import Leg, Policy
from placet.relay.policy.policy_set import PolicySet
from tests.relay.policies.samples import NOW

WAY: dict[str, Any] = {"source": "alice", "sink": "bank", "leg": Leg.REQUEST_TO_SINK, "at": NOW}


def build_evaluator(policies: Iterable[Policy], *detectors: Detector) -> PolicyEvaluator:
    return PolicyEvaluator(PolicySet.for_everyone(policies, now=NOW), DetectorRegistry(detectors))


async def evaluate_texts(found: PolicyEvaluator, *texts: str) -> Evaluation:
    pieces = [Scannable(f"message.parts[{place}].text", text) for place, text in enumerate(texts)]
    return await found.inspect(pieces, **WAY)
