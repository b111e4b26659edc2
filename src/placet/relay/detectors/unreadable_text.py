"""The detector for text that cannot be read: nobody can write a pattern for it."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from placet.errors import ValidationFailed
from placet.ports.detector import Match, PreparedRules, Rule, Scan, Scannable
from placet.relay.a2a.unreadable_text import find_unreadable
from placet.relay.detectors.built_in import BuiltInDetector

DEFAULT_TIMEOUT = timedelta(seconds=5)
MAX_CHARACTERS = 1_000_000
"""Longer messages are not checked, and so held."""
INLINE_CHARACTERS = 4_096
TOO_LONG = f"it has more than {MAX_CHARACTERS} characters"


class UnreadableTextDetector(BuiltInDetector):
    """Detects text without a plain reading, for policies of type `UNREADABLE_TEXT_DETECTION`."""

    type = "UNREADABLE_TEXT_DETECTION"
    within = DEFAULT_TIMEOUT
    scans_readings = False

    def check(self, rule: Rule) -> None:
        """Raise `ValidationFailed` for a rule with a pattern, an entity or options."""
        if rule != Rule():
            raise ValidationFailed(f"{self.type} has no pattern, entity or options.", path="action")

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        """Return the rules, ready to scan."""
        return _PreparedRules(len(rules))

    async def aclose(self) -> None:
        """Nothing is held."""


class _PreparedRules:
    """A number of equal rules."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        """Return the unreadable parts of all texts, for each wanted rule."""
        rules = [rule for rule in range(self._count) if wanted is None or rule in wanted]
        length = sum(len(piece.text) for piece in pieces)
        if length > MAX_CHARACTERS:
            return Scan(unchecked=dict.fromkeys(rules, TOO_LONG))
        if not rules:
            return Scan()
        if length <= INLINE_CHARACTERS:
            matches = _find_matches(pieces)
        else:
            matches = await asyncio.to_thread(_find_matches, pieces)
        return Scan(
            matches=[
                Match(rule=rule, piece=piece, start=start, end=end, entity=kind)
                for rule in rules
                for piece, start, end, kind in matches
            ]
        )


def _find_matches(pieces: Sequence[Scannable]) -> list[tuple[int, int, int, str]]:
    return [(number, *part) for number, piece in enumerate(pieces) for part in find_unreadable(piece.text)]
