"""Limits on the size and the duration of a case, and the quotas of a principal. Most are settings."""

from datetime import timedelta

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Limits on cases, their retention and their idempotency keys. A quota of 0 is no quota."""

    max_body_bytes: int = 1024 * 1024
    max_context_bytes: int = 256 * 1024
    max_context_depth: int = 32
    default_timeout_for: timedelta = timedelta(hours=24)
    max_timeout_for: timedelta = timedelta(days=7)
    keep_for: timedelta = timedelta(days=30)
    replay_for: timedelta = timedelta(days=7)
    rotation_for: timedelta = timedelta(hours=24)
    max_open_cases: int = 100_000
    max_stored_bytes: int = 2 * 1024**3
    max_cases_per_minute: int = 60_000
    max_case_bytes_per_minute: int = 128 * 1024**2
    max_streams: int = 10_000
