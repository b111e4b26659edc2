"""How an approved call can end, as its agent reports it."""

from enum import StrEnum


class NotRunReason(StrEnum):
    """Why a stopped call did not do its work. Every adapter reports one of these, and no other."""

    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"
    """A message, or another call, took its place."""
    FAILED = "failed"
    """It was started, and it failed, or how it ended is not known."""
    NOT_CLAIMED = "not_claimed"
    """It was approved, and no process started it."""


class ExecutionOutcome(StrEnum):
    """What became of a call: it ran, or it did not do its work for one of the reasons of NotRunReason."""

    RAN = "ran"
    REJECTED = NotRunReason.REJECTED.value
    TIMED_OUT = NotRunReason.TIMED_OUT.value
    WITHDRAWN = NotRunReason.WITHDRAWN.value
    SUPERSEDED = NotRunReason.SUPERSEDED.value
    FAILED = NotRunReason.FAILED.value
    NOT_CLAIMED = NotRunReason.NOT_CLAIMED.value
