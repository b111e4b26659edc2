"""What the evaluator may ask of our own detectors, besides the port of every detector.

It checks the class and not the attributes: a plug-in may use these names for something else.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta

from placet.ports.detector import Scan, Scannable


class BuiltInDetector:
    """Base of our own detectors."""

    title: str = "The detector"
    """The name of the detector in messages."""
    max_wait: timedelta = timedelta()
    """How long a text may wait before its scan begins."""
    is_slow: bool = False
    """Whether a scan is slow or costs money. It reads folded texts, because it ignores hidden characters."""

    scans_readings: bool = True
    """Whether the alternate readings of the texts are scanned too."""

    @property
    def is_starting(self) -> bool:
        """Whether a policy needs the detector and it is not ready yet."""
        return False


class InlineRules(ABC):
    """Prepared rules that may be scanned without waiting."""

    @abstractmethod
    def scan_inline(self, pieces: Sequence[Scannable], wanted: frozenset[int] | None = None) -> Scan | None:
        """Return the scan of a short message that needs no thread; None for any other message."""

    @abstractmethod
    def is_clear(self, encoded: bytes) -> bool:
        """Whether no rule and nothing of `UNUSUAL_JSON` matches a message's JSON."""
