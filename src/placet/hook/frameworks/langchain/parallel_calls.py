"""The marks of a turn's calls in LangGraph: those that it starts at once begin in one write."""

import threading
from collections.abc import Callable, Hashable, Mapping

from placet.errors import ThreadBusy
from placet.hook.call_leases import CallStart
from placet.hook.frameworks.call_batches import ThreadedCallBatches
from placet.hook.gate import ApprovalGate

MAX_PARALLEL_CALLS = 4
"""So many calls have a thread each, however few threads LangGraph has for them."""
MAX_TURNS = 10_000
"""More turns than are ever under way at once: a call of a forgotten one would find itself begun already."""
FindParallelCalls = Callable[[], Mapping[str, bool]]
"""The calls that are started at once, if that is sure: call -> whether it is repeatable."""


class ParallelCallStarts:
    """Marks calls at a gate: the first one that comes begins all that are started with it."""

    def __init__(self, gate: ApprovalGate) -> None:
        self._gate = gate
        self._queue = ThreadedCallBatches(gate)
        self._lock = threading.Lock()
        self._begun: dict[tuple[str, Hashable], dict[str, CallStart | ThreadBusy]] = {}

    def begin(
        self, key: str, call_id: str, *, repeatable: bool, owner: Hashable, together: FindParallelCalls
    ) -> CallStart:
        """As the gate's `begin`, for one of several who may work on the turn."""
        with self._lock:
            begun = self._begun.get((key, owner))
            if begun is None:
                begun = self._begin_all(key, call_id, owner, together())
            told = begun.pop(call_id, None)
        if told is None:
            return self._queue.begin(key, call_id, repeatable=repeatable, owner=owner)
        if isinstance(told, ThreadBusy):
            raise told
        return told

    def finish(self, key: str, call_id: str, result: str) -> None:
        """As the gate's `finish`."""
        self._queue.finish(key, call_id, result)

    def give_back(self, key: str, owner: Hashable) -> None:
        """A call broke off, and those that have not come yet may never come; if they do, each begins anew."""
        with self._lock:
            left = self._begun.get((key, owner), {})
            while left:
                call_id, told = left.popitem()
                if isinstance(told, CallStart) and told.run:
                    self._gate.undo_begin(key, call_id)

    def _begin_all(
        self, key: str, call_id: str, owner: Hashable, calls: Mapping[str, bool]
    ) -> dict[str, CallStart | ThreadBusy]:
        begun = self._gate.begin_all(key, calls, owner=owner) if call_id in calls else {}
        while len(self._begun) >= MAX_TURNS:
            del self._begun[next(iter(self._begun))]
        self._begun[key, owner] = begun
        return begun
