"""Deleting stored MCP calls that are no longer needed."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from placet.hook.checkpoint import Stage
from placet.hook.savers.saver import SavedCheckpoint, Saver

PREFIX = "mcp/"
RETAIN_FOR = timedelta(days=7)
PURGE_INTERVAL = timedelta(hours=12)
NEVER = datetime.max.replace(tzinfo=UTC)
_STAGES: tuple[Stage, ...] = ("paused", "running", "ready")


def purge_calls(saver: Saver, before: datetime, *, by_case: bool) -> None:
    """Delete calls that were over before this time; `by_case` says that waiting calls have a case."""
    for key in [key for stage in _STAGES for key in saver.list_threads(stage) if key.startswith(PREFIX)]:
        saved = saver.get(key)
        if saved is not None and find_unneeded_since(saved, by_case) < before:
            saver.release(key)


def find_unneeded_since(saved: SavedCheckpoint, by_case: bool) -> datetime:
    """Return since when the call is not needed; for a waiting call, when its time expires."""
    if saved.checkpoint.stage != "paused" or (by_case and saved.checkpoint.case is None):
        return max(saved.saved_at, saved.leased_until or saved.saved_at)
    case, asked = saved.checkpoint.case or {}, saved.checkpoint.interruption
    until = asked.expires_at if asked is not None else None
    with suppress(TypeError, ValueError):
        until = datetime.fromisoformat(case.get("expires_at", ""))
    return until if until is not None and until.tzinfo is not None else NEVER
