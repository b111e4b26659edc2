"""Running the calls of a turn one after another in LangGraph, which starts them all at once."""

import threading
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from placet.errors import HookError

ARRIVAL_LIMIT_S = 30.0
"""How long a call waits for an earlier one that LangGraph has not started."""
MAX_TURNS = 10_000
NOT_STARTED = (
    "{} was not run: an earlier call of the turn did not reach the approval middleware."
    " Put the approval middleware first in the list."
)
TurnName = tuple[str, Hashable]
"""The gate's key of a turn, and the graph's run that works on it."""


@dataclass(slots=True)
class _OrderedTurn:
    """The calls of a turn in one run."""

    before: Mapping[str, Collection[str]]
    """Call id -> the calls that must end before it starts."""
    expected: set[str]
    """Calls that have not ended and that LangGraph starts in this run."""
    arrived: set[str] = field(default_factory=set)
    failures: list[BaseException] = field(default_factory=list)

    def find_open_calls(self, call_id: str) -> set[str]:
        return {each for each in self.before.get(call_id, ()) if each in self.expected}


class CallOrder:
    """Lets a call start when those before it have ended; parallel tools do not wait for each other."""

    def __init__(self, parallel: Collection[str]) -> None:
        self._parallel = frozenset(parallel)
        self._changed = threading.Condition()
        self._turns: dict[TurnName, _OrderedTurn] = {}

    def expect(self, turn: TurnName, calls: Sequence[Mapping[str, str]], ended: Collection[str]) -> None:
        """Register the calls of a turn, in call order, before LangGraph starts those that have not ended."""
        with self._changed:
            if turn in self._turns or len(calls) < 2:
                return
            while len(self._turns) >= MAX_TURNS:
                del self._turns[next(iter(self._turns))]
            expected = {call["id"] or "" for call in calls} - set(ended)
            self._turns[turn] = _OrderedTurn(self._find_predecessors(calls), expected)

    def is_known(self, turn: TurnName) -> bool:
        """Return whether the calls of this turn were registered."""
        return turn in self._turns

    def must_wait(self, turn: TurnName, call_id: str) -> bool:
        """Return whether a call before this one has not ended."""
        with self._changed:
            known = self._turns.get(turn)
            return known is not None and bool(known.failures or known.find_open_calls(call_id))

    def wait(self, turn: TurnName, call_id: str, name: str) -> None:
        """Return when the calls before this one have ended.

        Raises what an earlier call raised, and HookError if one never started.
        """
        with self._changed:
            known = self._turns.get(turn)
            if known is None:
                return
            known.arrived.add(call_id)
            self._changed.notify_all()
            while left := known.find_open_calls(call_id):
                _raise_failure(known)
                waits_for_arrival = not left <= known.arrived
                changed = self._changed.wait(ARRIVAL_LIMIT_S if waits_for_arrival else None)
                if waits_for_arrival and not changed:
                    raise HookError(NOT_STARTED.format(name))
            _raise_failure(known)

    @contextmanager
    def running(self, turn: TurnName, call_id: str) -> Iterator[None]:
        """Mark the end of a call for those that wait for it."""
        try:
            yield
        except BaseException as error:
            self._end(turn, call_id, error)
            raise
        self._end(turn, call_id, None)

    def _end(self, turn: TurnName, call_id: str, error: BaseException | None) -> None:
        with self._changed:
            known = self._turns.get(turn)
            if known is None:
                return
            if error is None:
                known.expected.discard(call_id)
            else:
                known.failures.append(error)
            known.arrived.add(call_id)
            if not known.expected or (known.failures and known.expected <= known.arrived):
                del self._turns[turn]
            self._changed.notify_all()

    def _find_predecessors(self, calls: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
        before: dict[str, list[str]] = {}
        barrier: list[str] = []  # all calls before the current group of parallel ones
        group: list[str] = []
        for call in calls:
            call_id, is_parallel = call["id"] or "", call["name"] in self._parallel
            if not is_parallel or not group:
                barrier, group = [*barrier, *group], []
            before[call_id] = barrier
            if is_parallel:
                group.append(call_id)
            else:
                barrier = [*barrier, call_id]
        return before


def _raise_failure(turn: _OrderedTurn) -> None:
    """Raise the error of an earlier call; if an inner agent waits, this call waits with it."""
    if turn.failures:
        error = turn.failures[0]
        raise GraphInterrupt(()) if isinstance(error, GraphBubbleUp) else error
