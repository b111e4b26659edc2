"""Starting calls of a turn in LangGraph: calls that it starts at once share one write."""

import threading
from collections.abc import Callable, Hashable, Mapping

from placet.errors import ThreadBusy
from placet.hook.call_leases import CallStart
from placet.hook.frameworks.call_batches import ThreadedCallBatches
from placet.hook.gate import Gate

MAX_PARALLEL_CALLS = 4
"""Up to this many calls have a thread each, however few threads LangGraph has."""
MAX_TURNS = 10_000
"""More turns than ever run at once: a call of a forgotten turn would be considered started."""
FindParallelCalls = Callable[[], Mapping[str, bool]]
"""Returns the calls that are certainly started at once: call id -> whether it is repeatable."""


class ParallelCallStarts:
    """Starts calls at a gate: the first call starts all that LangGraph runs with it."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._queue = ThreadedCallBatches(gate)
        self._lock = threading.Lock()
        self._begun: dict[tuple[str, Hashable], dict[str, CallStart | ThreadBusy]] = {}

    def begin(
        self, key: str, call_id: str, *, repeatable: bool, owner: Hashable, together: FindParallelCalls
    ) -> CallStart:
        """Like the gate's `begin`, for one of several owners that may work on the turn."""
        with self._lock:
            begun = self._begun.get((key, owner))
            if begun is None:
                begun = self._begin_all(key, call_id, owner, together())
            start = begun.pop(call_id, None)
        if start is None:
            return self._queue.begin(key, call_id, repeatable=repeatable, owner=owner)
        if isinstance(start, ThreadBusy):
            raise start
        return start

    def finish(self, key: str, call_id: str, result: str) -> None:
        """Like the gate's `finish`."""
        self._queue.finish(key, call_id, result)

    def undo_pending(self, key: str, owner: Hashable) -> None:
        """Undo the start of calls that have not arrived after one failed; each can start again."""
        with self._lock:
            left = self._begun.get((key, owner), {})
            while left:
                call_id, start = left.popitem()
                if isinstance(start, CallStart) and start.run:
                    self._gate.undo_begin(key, call_id)

    def _begin_all(
        self, key: str, call_id: str, owner: Hashable, calls: Mapping[str, bool]
    ) -> dict[str, CallStart | ThreadBusy]:
        begun = self._gate.begin_all(key, calls, owner=owner) if call_id in calls else {}
        while len(self._begun) >= MAX_TURNS:
            del self._begun[next(iter(self._begun))]
        self._begun[key, owner] = begun
        return begun
