"""How long a gate keeps calls that nobody comes for any more."""

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
    """Forget all calls that were over before then; a call that waits, `by_case` if people decide it there."""
    for key in [key for stage in _STAGES for key in saver.list_threads(stage) if key.startswith(PREFIX)]:
        kept = saver.get(key)
        if kept is not None and _unneeded_since(kept, by_case) < before:
            saver.release(key)


def _unneeded_since(kept: SavedCheckpoint, by_case: bool) -> datetime:
    """Since when nobody needs it; if it waits for a person, since their time is over."""
    if kept.checkpoint.stage != "paused" or (by_case and kept.checkpoint.case is None):
        return max(kept.saved_at, kept.leased_until or kept.saved_at)
    case, asked = kept.checkpoint.case or {}, kept.checkpoint.interruption
    until = asked.expires_at if asked is not None else None
    with suppress(TypeError, ValueError):
        until = datetime.fromisoformat(case.get("expires_at", ""))
    return until if until is not None and until.tzinfo is not None else NEVER
