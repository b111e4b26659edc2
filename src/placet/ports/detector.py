"""The seam to whatever finds things in texts: patterns, analyzers, services, plug-ins.

A detector only says what it found and where. What follows from it is decided elsewhere.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from msgspec import Struct, field


class Scannable(Struct, frozen=True):
    """A text of a message, and where in the message it stands, such as `message.parts[0].text`."""

    path: str
    text: str


class Rule(Struct, frozen=True, kw_only=True):
    """What one policy looks for."""

    what: str = ""
    """The pattern, or the name of an entity type; empty for a plug-in that has only options."""
    threshold: float = 0.0
    """Whatever scores lower is no match."""
    options: Mapping[str, Any] = field(default_factory=dict)


class Match(Struct, frozen=True, kw_only=True):
    """A place where a rule fits: character offsets into the text of a piece."""

    rule: int
    piece: int
    start: int
    end: int
    entity: str
    score: float = 1.0


class Scan(Struct, frozen=True, kw_only=True):
    """What came of one scan. A rule that is in neither was checked on every piece, and found nothing."""

    matches: Sequence[Match] = ()
    unchecked: Mapping[int, str] = field(default_factory=dict)
    """Rule -> why it could not be checked; such a message is held, whatever else was found."""


CLEAN = Scan()


class PreparedRules(Protocol):
    """Rules made ready once, so that no message waits for a pattern to be compiled."""

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        """Look for the wanted rules, or for all, in every piece.

        Whatever goes wrong is told in `unchecked`, or raised; it is never left out.
        """
        ...


class Detector(Protocol):
    """One way to find things, chosen by a policy's `type`."""

    type: str
    """What policies call it: `REGEX_DETECTION`, or `x-…` for a plug-in."""
    within: timedelta
    """How long a scan may take; whoever asks stops waiting then, and holds the message."""

    def check(self, rule: Rule) -> None:
        """Raise `ValidationFailed` for a rule that could never be checked, and say why."""
        ...

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        """Make the rules ready. A rule that cannot be is reported `unchecked` by every scan."""
        ...

    async def aclose(self) -> None:
        """Let go of threads, processes and connections."""
        ...
