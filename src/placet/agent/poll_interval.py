"""The time between two polls: what Retry-After says, otherwise growing from short to long."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

FIRST_S, MAX_INTERVAL_S = 2.0, 30.0
GROWTH = 1.5
MAX_INTERVAL_AFTER_FAILURE_S = 60.0
MAX_RETRY_AFTER_S = 300.0
JITTER = 0.2


class PollInterval:
    """The waits of one case; `dice` returns random numbers in [0, 1), for jitter."""

    def __init__(
        self,
        *,
        interval_s: float | None = None,
        min_interval_s: float = 0.0,
        max_interval_s: float = MAX_INTERVAL_S,
        dice: Callable[[], float],
    ) -> None:
        """`interval_s` is what the user wants; the limits are what the service asks for."""
        self._interval_s = interval_s
        self._min_interval_s = min_interval_s
        self._max_interval_s = max_interval_s
        self._dice = dice
        self._wait_s = FIRST_S
        self._troubles = 0

    def after_response(self, headers: Mapping[str, str], now: datetime) -> float:
        """Return the seconds to wait after a response without a decision."""
        self._troubles = 0
        if self._interval_s is not None:
            return self._interval_s
        asked = parse_retry_after(headers, now)
        if asked is not None:
            return self._add_jitter(max(asked, self._min_interval_s))
        wait_s, self._wait_s = self._wait_s, min(self._wait_s * GROWTH, self._max_interval_s)
        return self._add_jitter(max(wait_s, self._min_interval_s))

    def after_failure(self, headers: Mapping[str, str], now: datetime) -> float:
        """Return the seconds to wait after a 429 or after a failed request."""
        self._troubles += 1
        asked = parse_retry_after(headers, now)
        backoff = min(FIRST_S * 2 ** min(self._troubles, 10), MAX_INTERVAL_AFTER_FAILURE_S)
        return self._add_jitter(max(asked or 0.0, backoff if asked is None else 0.0, self._interval_s or 0.0))

    def _add_jitter(self, seconds: float) -> float:
        return seconds * (1 + JITTER * self._dice())


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the Retry-After header in seconds, within limits; both of its forms (RFC 9110, 10.2.3)."""
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _parse_seconds(value.strip(), _parse_http_date(headers.get("date", "")) or now)
    return None if seconds is None else min(max(seconds, 0.5), MAX_RETRY_AFTER_S)


def compute_clock_lead(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return how far our clock is ahead of the service's Date header, or None without that header."""
    said = _parse_http_date(headers.get("date", ""))
    return max(now - said, timedelta(0)) if said is not None else None


def _parse_seconds(value: str, now: datetime) -> float | None:
    """Return the seconds from `now`, the service's own time; None for a time that has passed."""
    if value.isascii() and value.isdigit():
        return float(value[:9])
    moment = _parse_http_date(value)
    seconds = (moment - now).total_seconds() if moment is not None else 0.0
    return seconds if seconds > 0 else None


def _parse_http_date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
