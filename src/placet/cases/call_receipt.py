"""Execution receipts: an agent reports what became of the calls that a case was about."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.cases.execution_outcomes import ExecutionOutcome
from placet.protocol.timestamp import Timestamp

MAX_RECEIPTS = 200
"""As many as a case can have calls."""


class CallReceipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one call, and when, as the agent says."""

    call_id: Annotated[str, Meta(min_length=1, max_length=200)]
    outcome: ExecutionOutcome
    at: Timestamp | None = None


class CallExecution(Struct, frozen=True, kw_only=True):
    """A call of a decided case, and what became of it; without an outcome it was approved and has not run."""

    name: str
    outcome: ExecutionOutcome | None = None
    at: datetime | None = None


def select_new_receipts(
    known: Iterable[CallReceipt], reported: Iterable[CallReceipt], *, earliest: datetime, now: datetime
) -> tuple[CallReceipt, ...]:
    """Return the first receipt of each call that has none yet, with a time between `earliest` and now."""
    seen = {receipt.call_id for receipt in known}
    new: dict[str, CallReceipt] = {}
    for receipt in reported:
        if receipt.call_id not in seen and receipt.call_id not in new:
            at = max(earliest, min(receipt.at or now, now))
            new[receipt.call_id] = replace(receipt, at=at)
    return tuple(new.values())


_PRECEDENCE: Sequence[ExecutionOutcome | None] = [
    None,
    ExecutionOutcome.FAILED,
    *(one for one in ExecutionOutcome if one not in (ExecutionOutcome.FAILED, ExecutionOutcome.RAN)),
    ExecutionOutcome.RAN,
]


def find_most_notable(executions: Sequence[CallExecution]) -> CallExecution | None:
    """Return the execution to show for all: one that has not run yet, then a failure, then the rest."""
    return min(executions, key=lambda one: _PRECEDENCE.index(one.outcome), default=None)
