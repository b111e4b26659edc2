"""When a case is due next: for a reminder, a warning, its expiry, or the end of its retention."""

from datetime import datetime, timedelta

from placet.cases.case import Case
from placet.cases.commands import Command, Erase, Expire, Remind, WarnOfExpiry

SYSTEM = "system"


def get_due_at(case: Case, *, keep_for: timedelta) -> datetime | None:
    """Return when the sweep must process this case next, or None for never."""
    if case.live:
        return min((*case.reminders, case.warn_at or case.expires_at, case.expires_at))
    if case.erased_at is not None or case.closed_at is None:
        return None
    return case.closed_at + keep_for


def get_due_command(case: Case, now: datetime, *, keep_for: timedelta) -> Command | None:
    """Return the command that is due for this case now, or None."""
    moment = get_due_at(case, keep_for=keep_for)
    if moment is None or now < moment:
        return None
    if not case.live:
        return Erase(actor=SYSTEM)
    if now >= case.expires_at:
        return Expire(actor=SYSTEM)
    if case.warn_at is not None and now >= case.warn_at:
        return WarnOfExpiry(actor=SYSTEM)
    passed = [at for at in case.reminders if at <= now]
    return Remind(actor=SYSTEM, reminder_at=max(passed))
