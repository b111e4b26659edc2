import asyncio
import re
from datetime import UTC, datetime, timedelta

from placet.errors import ValidationFailed
from placet.ports.detector import Match, Scan, Scannable
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.registry import load_detectors
from placet.relay.policy.policy import Leg, create_policy, parse_policy_draft
from placet.relay.policy.policy_set import PolicySet


class Shouting:
    """Finds words in capitals."""

    type = "x-shouting"
    within = timedelta(seconds=1)

    def check(self, rule):
        """Refuse what could never be found."""
        if not isinstance(rule.options.get("letters", 4), int):
            raise ValidationFailed("letters is a number.", path="options.letters")

    def prepare(self, rules):
        """Make the rules ready, once."""
        return Shouts([re.compile(rf"\b[A-Z]{{{rule.options.get('letters', 4)},}}\b") for rule in rules])

    async def aclose(self):
        """Nothing is held."""


class Shouts:
    """Patterns that are ready."""

    def __init__(self, patterns):
        self.patterns = patterns

    async def scan(self, pieces, *, wanted=None):
        """Name every place of every wanted rule."""
        return Scan(
            matches=[
                Match(rule=number, piece=place, start=found.start(), end=found.end(), entity="SHOUT")
                for number, pattern in enumerate(self.patterns)
                if wanted is None or number in wanted
                for place, piece in enumerate(pieces)
                for found in pattern.finditer(piece.text)
            ]
        )


detectors = load_detectors(Shouting())
draft = parse_policy_draft(
    {
        "name": "Log shouting",
        "config": {
            "type": "x-shouting",
            "enabledLegs": {"requestFromSource": True},
            "action": "LOG",
            "options": {"letters": 3},
        },
    }
)
detectors.check(draft)


async def main():
    now = datetime.now(UTC)
    policy = create_policy(draft, policy_id="shouting", now=now)
    inspector = PolicyEvaluator(PolicySet.for_everyone([policy], now=now), detectors)
    pieces = [Scannable("message.parts[0].text", "do it NOW")]
    seen = await inspector.inspect(pieces, source="alice", sink="bank", leg=Leg.REQUEST_FROM_SOURCE, at=now)
    await detectors.aclose()
    return seen


seen = asyncio.run(main())
assert (seen.outcome, seen.findings[0].text) == ("LOG", "NOW")
