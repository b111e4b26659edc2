"""Evaluates policies of a file on a text, without a server. It needs the `relay` extra."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from placet.desk import clock
from placet.ports.detector import Scannable
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.presidio.detector import PresidioDetector
from placet.relay.detectors.registry import DetectorRegistry, load_detectors
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.policy import Leg, Policy
from placet.relay.policy.policy_set import AppliedPolicy, PolicySet

START_TIMEOUT = timedelta(seconds=120)
"""Long enough to load Presidio."""
PATH = "message.parts[0].text"


def evaluate_policies(policies: list[Policy], text: str, legs: list[Leg]) -> list[dict[str, Any]]:
    """Return a view of each leg; raise ValidationFailed for a policy that its detector does not accept."""
    return [_build_view(leg, found, text) for leg, found in asyncio.run(_evaluate(policies, text, legs))]


async def _evaluate(policies: list[Policy], text: str, legs: list[Leg]) -> list[tuple[Leg, Evaluation]]:
    detectors = load_detectors(instead=[PresidioDetector(within=START_TIMEOUT)])
    try:
        _check_configs(policies, detectors)
        now = clock.now()
        inspector = PolicyEvaluator(PolicySet.for_everyone(policies, now=now), detectors)
        pieces = [Scannable(PATH, text)]
        return [
            (leg, await inspector.inspect(pieces, source="caller", sink="agent", leg=leg, at=now))
            for leg in legs
        ]
    finally:
        await detectors.aclose()


def _check_configs(policies: list[Policy], detectors: DetectorRegistry) -> None:
    for index, one in enumerate(policies):
        detectors.check_config(one.config, f"policies[{index}].config")


def _build_view(leg: Leg, found: Evaluation, text: str) -> dict[str, Any]:
    """Return a view of one leg. Matches are shown, since the text is the user's own."""
    (piece,) = found.mask([Scannable(PATH, text)])
    return {
        "leg": leg,
        "outcome": found.outcome,
        "reason": found.reason,
        "decidedBy": found.decided_by.policy.name if found.decided_by else None,
        "matched": _list_names(found.matched),
        "clean": _list_names(found.clean),
        "unchecked": [{"policy": one.applied.policy.name, "reason": one.reason} for one in found.unchecked],
        "notReached": _list_names(found.not_reached),
        "findings": [_build_finding_view(msgspec.to_builtins(one)) for one in found.findings],
        "nearMisses": [_build_finding_view(msgspec.to_builtins(one)) for one in found.near_misses],
        "text": _make_encodable(piece.text),
    }


def _list_names(applied: tuple[AppliedPolicy, ...]) -> list[str]:
    return [one.policy.name for one in applied]


def _build_finding_view(finding: dict[str, Any]) -> dict[str, Any]:
    """Return the finding with a text that can be encoded."""
    return {**finding, "text": _make_encodable(finding["text"])}


def _make_encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
