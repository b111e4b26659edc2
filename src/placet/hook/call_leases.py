"""Who may begin calls of a turn: one at a time works on it, in whatever process, until its lease is over."""

import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from placet.errors import ThreadBusy
from placet.hook.checkpoint import Checkpoint
from placet.hook.result_texts import OUTCOME_UNKNOWN

MAX_TURNS = 10_000
"""How many turns are remembered; of a forgotten one it is known again when its lease is over.

Only those are here that are worked on, or were left by one who never said so.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallStart:
    """Whether a call may run now; if not, `result` is what it has answered already."""

    run: bool
    result: str = ""


@dataclass(slots=True)
class TurnLease:
    """What somebody here has begun of a turn."""

    owner: Hashable
    calls: set[str] = field(default_factory=set)
    """CallStart here and not ended."""
    lost: set[str] = field(default_factory=set)
    """CallStart by one whose lease was over when the turn was taken up here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartPlan:
    """What becomes of calls that want to begin."""

    found: dict[str, CallStart | ThreadBusy]
    """Those that do not run: what they have answered, or that somebody is at the turn."""
    runs: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """Those that will never be known to have ended, and do not run again."""
    abandoned: frozenset[str] = frozenset()
    """All that another one had begun, who is dead."""

    def after(self, checkpoint: Checkpoint) -> Checkpoint:
        """The turn with these calls begun."""
        started = tuple(dict.fromkeys((*checkpoint.started, *self.runs)))
        results = {**checkpoint.results, **dict.fromkeys(self.lost, OUTCOME_UNKNOWN)}
        return checkpoint.next(started=started, results=results)

    def told(self) -> dict[str, CallStart | ThreadBusy]:
        """What each call is told once that is kept."""
        unknown = dict.fromkeys(self.lost, CallStart(run=False, result=OUTCOME_UNKNOWN))
        return {**self.found, **unknown, **dict.fromkeys(self.runs, CallStart(run=True))}


class CallLeases:
    """The turns that are worked on here.

    Whoever was refused a turn stays so for the time of a lease: otherwise two that begin its calls one by one
    could refuse each other, and nobody would go on.
    """

    def __init__(self, lease_for: timedelta, clock: Callable[[], datetime]) -> None:
        self._lease_for = lease_for
        self._clock = clock
        self._held: dict[str, TurnLease] = {}
        self._refused: dict[tuple[str, Hashable], datetime] = {}
        self._lock = threading.Lock()

    def of(self, key: str, owner: Hashable) -> TurnLease:
        """What this one has begun of the turn."""
        held = self._held.get(key)
        return held if held is not None and held.owner == owner else TurnLease(owner)

    def needs_lease(self, checkpoint: Checkpoint, calls: Collection[str], owner: Hashable) -> bool:
        """Whether it matters if the turn's lease is running."""
        begun, held = _unfinished_calls(checkpoint), self.of(checkpoint.thread_id, owner)
        return bool(begun) and not begun.isdisjoint({*calls, *(begun - held.calls - held.lost)})

    def beginning(
        self, checkpoint: Checkpoint, calls: Mapping[str, bool], owner: Hashable, *, leased: bool
    ) -> StartPlan:
        """What becomes of these calls: call -> whether it is repeatable."""
        key, results, begun = checkpoint.thread_id, checkpoint.results, _unfinished_calls(checkpoint)
        held = self.of(key, owner)
        others = begun - held.calls - held.lost
        refused = self._refuse(key, owner) if leased and others else self._is_refused(key, owner)
        found: dict[str, CallStart | ThreadBusy] = {}
        for call_id in calls:
            if call_id in results:
                found[call_id] = CallStart(run=False, result=results[call_id])
            elif refused or (leased and call_id in begun and call_id in held.calls):
                found[call_id] = ThreadBusy()
        rest = [call_id for call_id in calls if call_id not in found]
        lost = tuple(call_id for call_id in rest if call_id in begun and not calls[call_id])
        runs = tuple(call_id for call_id in rest if call_id not in lost)
        return StartPlan(found=found, runs=runs, lost=lost, abandoned=frozenset(others))

    def take(self, key: str, owner: Hashable, beginning: StartPlan) -> set[str]:
        """This one is about to begin these calls: the ones it has not begun already."""
        with self._lock:
            held = self._held.get(key)
            if held is None or held.owner != owner:
                _evict_oldest(self._held)
                held = self._held[key] = TurnLease(owner)
            new = set(beginning.runs) - held.calls
            held.calls |= new
            return new

    def took_over(self, key: str, abandoned: Collection[str]) -> None:
        """What another had begun, who is dead, is nobody's any more."""
        with self._lock:
            if (held := self._held.get(key)) is not None:
                held.lost |= set(abandoned)

    def not_begun(self, key: str, calls: Collection[str]) -> None:
        """Another was faster."""
        self._drop(key, calls, frozenset())

    def ended(self, key: str, calls: Collection[str]) -> None:
        """What became of these calls is known."""
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
        if owner is not None:  # one without a name may be another one the next time
            with self._lock:
                _evict_oldest(self._refused)
                self._refused[key, owner] = self._clock() + self._lease_for
        return True

    def _is_refused(self, key: str, owner: Hashable) -> bool:
        until = self._refused.get((key, owner))
        return until is not None and self._clock() < until


def _unfinished_calls(checkpoint: Checkpoint) -> set[str]:
    """The calls that may be running."""
    return {each for each in checkpoint.started if each not in checkpoint.results}


def _evict_oldest(kept: dict[Any, Any]) -> None:
    while len(kept) >= MAX_TURNS:
        del kept[next(iter(kept))]
