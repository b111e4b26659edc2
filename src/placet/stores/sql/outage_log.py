"""Log and count of outages: of the time during which a store cannot be read or written."""

import logging
import time
from collections.abc import Callable

from placet.sqlite_outages import is_damage

LOG_EVERY_S = 60.0
DAMAGE_LASTS_S = 60.0
"""How long a report of damage counts, although other operations succeed: they read other pages."""

log = logging.getLogger("placet.store")


class OutageLog:
    """Logs the beginning and the end of outages, and counts what was refused meanwhile.

    Each type of error is logged at most once a minute, however often outages begin and end.
    """

    def __init__(self, operation: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.refused = 0
        self.is_failing = False
        self._operation = operation
        self._monotonic = monotonic
        self._began_at = 0.0
        self._refused_before = 0
        self._logged_at: dict[str, float] = {}
        self._must_log_recovery = False
        self._damaged_until = 0.0

    def report_failure(self, error: Exception, *, refused: int = 1) -> None:
        """Count refused operations, and log the error unless its type was logged within a minute."""
        now, name = self._monotonic(), type(error).__name__
        if not self.is_failing:
            self.is_failing, self._began_at, self._refused_before = True, now, self.refused
        self.refused += refused
        if is_damage(error):
            self._damaged_until = now + DAMAGE_LASTS_S
        if now - self._logged_at.get(name, -LOG_EVERY_S) >= LOG_EVERY_S:
            self._logged_at[name], self._must_log_recovery = now, True
            log.error(
                "storage_outage operation=%s refused=%d error=%s: %s",
                self._operation,
                self.refused - self._refused_before,
                name,
                error,
            )

    def report_success(self) -> None:
        """End the outage, and log that if its beginning was logged."""
        if not self.is_failing or self._monotonic() < self._damaged_until:
            return
        self.is_failing = False
        if self._must_log_recovery:
            self._must_log_recovery = False
            log.warning(
                "storage_recovered operation=%s after_s=%.1f refused=%d",
                self._operation,
                self._monotonic() - self._began_at,
                self.refused - self._refused_before,
            )
