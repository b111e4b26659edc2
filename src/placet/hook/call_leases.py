"""Which caller may start calls of a turn: one at a time, in any process, until its lease expires."""

import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from placet.errors import ThreadBusy
from placet.hook.checkpoint import Checkpoint
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.hook.turn import claim_calls, find_refusal

MAX_TURNS = 10_000
"""How many turns are tracked; a forgotten turn is known again when its lease has expired.

Only turns in use are tracked, or turns whose owner stopped without reporting it.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallStart:
    """Whether a call may run now; if not, `result` is its earlier result."""

    run: bool
    result: str = ""


@dataclass(slots=True)
class TurnLease:
    """The calls of a turn that an owner in this process has started."""

    owner: Hashable
    calls: set[str] = field(default_factory=set)
    """Started here and not ended."""
    lost: set[str] = field(default_factory=set)
    """Started by an owner whose lease had expired when the turn was taken over here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartPlan:
    """What happens to calls that are about to start."""

    found: dict[str, CallStart | ThreadBusy]
    """The calls that do not run: their earlier result, or ThreadBusy."""
    runs: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """Calls whose end will never be known; they do not run again."""
    abandoned: frozenset[str] = frozenset()
    """All calls that a dead owner had started."""

    def apply(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return the checkpoint with these calls started."""
        return claim_calls(checkpoint.next(), self.runs, lost=self.lost)

    def outcomes(self) -> dict[str, CallStart | ThreadBusy]:
        """Return the result for each call once the plan is saved."""
        unknown = dict.fromkeys(self.lost, CallStart(run=False, result=OUTCOME_UNKNOWN))
        return {**self.found, **unknown, **dict.fromkeys(self.runs, CallStart(run=True))}


class CallLeases:
    """The turns that are in use in this process.

    An owner that was refused a turn stays refused for one lease duration. Otherwise two owners that start
    calls one by one could refuse each other, and neither would continue.
    """

    def __init__(self, lease_for: timedelta, clock: Callable[[], datetime]) -> None:
        self._lease_for = lease_for
        self._clock = clock
        self._held: dict[str, TurnLease] = {}
        self._refused: dict[tuple[str, Hashable], datetime] = {}
        self._lock = threading.Lock()

    def lease_of(self, key: str, owner: Hashable) -> TurnLease:
        """Return what this owner has started of the turn."""
        held = self._held.get(key)
        return held if held is not None and held.owner == owner else TurnLease(owner)

    def needs_lease_check(self, checkpoint: Checkpoint, calls: Collection[str], owner: Hashable) -> bool:
        """Return whether it matters if the turn's lease is still valid."""
        begun, held = _find_unfinished_calls(checkpoint), self.lease_of(checkpoint.thread_id, owner)
        return bool(begun) and not begun.isdisjoint({*calls, *(begun - held.calls - held.lost)})

    def plan(
        self, checkpoint: Checkpoint, calls: Mapping[str, bool], owner: Hashable, *, leased: bool
    ) -> StartPlan:
        """Return the plan for these calls: call id -> whether it is repeatable."""
        key, results, begun = checkpoint.thread_id, checkpoint.results, _find_unfinished_calls(checkpoint)
        held = self.lease_of(key, owner)
        others = begun - held.calls - held.lost
        refused = self._refuse(key, owner) if leased and others else self._is_refused(key, owner)
        found: dict[str, CallStart | ThreadBusy] = {}
        for call_id in calls:
            if call_id in results:
                found[call_id] = CallStart(run=False, result=results[call_id])
            elif (refused_with := find_refusal(checkpoint, call_id)) is not None:
                found[call_id] = CallStart(run=False, result=refused_with)
            elif refused or (leased and call_id in begun and call_id in held.calls):
                found[call_id] = ThreadBusy()
        rest = [call_id for call_id in calls if call_id not in found]
        lost = tuple(call_id for call_id in rest if call_id in begun and not calls[call_id])
        runs = tuple(call_id for call_id in rest if call_id not in lost)
        return StartPlan(found=found, runs=runs, lost=lost, abandoned=frozenset(others))

    def take(self, key: str, owner: Hashable, plan: StartPlan) -> set[str]:
        """Record that this owner is about to start these calls; return those it had not started."""
        with self._lock:
            held = self._held.get(key)
            if held is None or held.owner != owner:
                _evict_oldest(self._held)
                held = self._held[key] = TurnLease(owner)
            new = set(plan.runs) - held.calls
            held.calls.update(new)
            return new

    def take_over(self, key: str, abandoned: Collection[str]) -> None:
        """Record that the calls of a dead owner belong to no one any more."""
        with self._lock:
            if (held := self._held.get(key)) is not None:
                held.lost.update(abandoned)

    def undo(self, key: str, calls: Collection[str]) -> None:
        """Undo `take`, because another caller was faster."""
        self._drop(key, calls, frozenset())

    def end(self, key: str, calls: Collection[str]) -> None:
        """Record that the results of these calls are known."""
        self._drop(key, calls, calls)

    def _drop(self, key: str, calls: Collection[str], lost: Collection[str]) -> None:
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                held.calls.difference_update(calls)
                held.lost.difference_update(lost)
                if not held.calls and not held.lost:
                    del self._held[key]

    def _refuse(self, key: str, owner: Hashable) -> bool:
        if owner is not None:  # an anonymous owner may be a different one next time
            with self._lock:
                _evict_oldest(self._refused)
                self._refused[key, owner] = self._clock() + self._lease_for
        return True

    def _is_refused(self, key: str, owner: Hashable) -> bool:
        until = self._refused.get((key, owner))
        return until is not None and self._clock() < until


def _find_unfinished_calls(checkpoint: Checkpoint) -> set[str]:
    """Return the calls that may be running."""
    return {each for each in checkpoint.started if each not in checkpoint.results}


def _evict_oldest(entries: dict[Any, Any]) -> None:
    while len(entries) >= MAX_TURNS:
        del entries[next(iter(entries))]
