"""Limits on the size and the duration of a case. Each limit is a setting."""

from datetime import timedelta

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Limits on cases, their retention and their idempotency keys."""

    max_body_bytes: int = 1024 * 1024
    max_context_bytes: int = 256 * 1024
    max_context_depth: int = 32
    default_timeout_for: timedelta = timedelta(hours=24)
    max_timeout_for: timedelta = timedelta(days=7)
    keep_for: timedelta = timedelta(days=30)
    replay_for: timedelta = timedelta(days=7)
    rotation_for: timedelta = timedelta(hours=24)
