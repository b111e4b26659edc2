"""The interface to detectors, which find content in texts: patterns, analyzers, services, plug-ins.

A detector only says what it found and where. What follows from it is decided elsewhere.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from msgspec import Struct, field


class Scannable(Struct, frozen=True):
    """A text of a message, and its path in the message, such as `message.parts[0].text`."""

    path: str
    text: str


class Rule(Struct, frozen=True, kw_only=True):
    """What a policy looks for."""

    what: str = ""
    """The pattern, or the name of an entity type; empty for a plug-in that has only options."""
    threshold: float = 0.0
    """Lower scores are ignored."""
    options: Mapping[str, Any] = field(default_factory=dict)


class Match(Struct, frozen=True, kw_only=True):
    """A match of a rule: character offsets in the text of a piece."""

    rule: int
    piece: int
    start: int
    end: int
    entity: str
    score: float = 1.0
    hint: str = ""
    """For a near miss: why its score is below the threshold, and what would raise it."""


class Scan(Struct, frozen=True, kw_only=True):
    """The result of one scan. A rule in neither field was checked on every piece and did not match."""

    matches: Sequence[Match] = ()
    unchecked: Mapping[int, str] = field(default_factory=dict)
    """Rule -> why it could not be checked. The message is then held."""
    near_misses: Sequence[Match] = ()
    """What a rule almost found. Only dry runs show it."""


CLEAN = Scan()


class PreparedRules(Protocol):
    """Prepared rules, so that patterns are compiled only once."""

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        """Look for the wanted rules, or for all, in every piece.

        Every failure is reported in `unchecked`, or raised. After `DetectorBusy`, the message is not held:
        its sender is asked to try again.
        """
        ...


class Detector(Protocol):
    """Finds content in texts. A policy chooses it by its `type`."""

    type: str
    """The `type` in policies: `REGEX_DETECTION`, or `x-…` for a plug-in."""
    within: timedelta
    """The timeout of a scan. After it, the message is held."""

    def check(self, rule: Rule) -> None:
        """Raise `ValidationFailed` with the reason for a rule that cannot be checked."""
        ...

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        """Prepare the rules. Every scan reports an invalid rule as `unchecked`."""
        ...

    async def aclose(self) -> None:
        """Release threads, processes and connections."""
        ...
