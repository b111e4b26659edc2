"""Store tasks and contexts, with a cache and deferred writes.

Agents see one caller, the relay, and cannot separate its callers. So the relay stores who owns each task and
context, and which id of the agent belongs to a task that the relay created.

Task rows are written a moment later. A task that a crash loses is not found afterwards. A context is on disk
before a message in it is forwarded: callers may name new contexts, so another caller could claim a lost one.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime

from placet.errors import Unavailable
from placet.ports.relay_store import RelayStore
from placet.ports.row_validation import can_be_stored
from placet.ports.task_store import TaskKey, TaskRow
from placet.relay.a2a.errors import A2AError
from placet.relay.exchange import CallWrites
from placet.relay.task import IdKind, Task, decode_task, row_from_task, task_from_row
from placet.relay.write_queue import WriteQueue

CACHE_BYTES = 32 * 2**20
OVERHEAD_BYTES = 500  # a key and a task of the cache without the body, roughly
BUSY = "The relay cannot store tasks at the moment. Try again later."


class TaskRepository:
    """Stores tasks and contexts by tenant, agent and id."""

    def __init__(
        self,
        store: RelayStore,
        *,
        now: Callable[[], datetime],
        queue: WriteQueue,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._store = store
        self._now = now
        self._cache = _TaskCache(cache_bytes)
        self._queue = queue
        self._queue.add_saved_listener(lambda key, row: self._cache.put(key, row.body))
        store.add_change_listener(self._clear_cache)

    async def find(self, tenant: str, agent: str, kind: IdKind, id: str) -> Task | None:
        """Return the task or context with this id, or None if it does not exist."""
        key = (tenant, agent, kind, id)
        task = self._get_cached(key)
        if task is None:
            generation = self._cache.generation
            row = (
                await self._store.get_task(tenant, agent, kind, id)
                if can_be_stored(tenant, agent, id)
                else None
            )
            task = self._get_cached(key)  # it may have been written during the read
            if task is None and row is not None:
                if generation == self._cache.generation:
                    self._cache.put(key, row.body)
                task = task_from_row(row)
        return task

    async def write(
        self,
        tenant: str,
        agent: str,
        kind: IdKind,
        task: Task,
        *,
        at_once: bool = False,
        call: CallWrites | None = None,
    ) -> None:
        """Save a task in the place of an earlier one with its id. `find` returns it at once.

        The row is written a moment later; with `call`, in the transaction of the audit event of that call.
        With `at_once`, the method returns when the row is on disk. It does not wait for a row whose call has
        no event yet. Raises A2AError if the id cannot be stored, or if the store is unavailable.
        """
        row = row_from_task(tenant, agent, kind, task, self._now())
        try:
            queued = self._queue.save_task(row, call)
            if queued and at_once:
                await self._queue.flush(fail_fast=True)
        except Unavailable as outage:
            raise A2AError("busy", BUSY) from outage

    def adopt(self, rows: Iterable[TaskRow]) -> None:
        """Take over rows (`row_from_task`) that another transaction, such as a hold's, has just written."""
        for row in rows:
            self._queue.adopt_task(row)

    async def flush(self) -> None:
        """Return when all queued rows are on disk. Raises Unavailable if the store is unavailable."""
        await self._queue.flush(fail_fast=True)

    async def aclose(self) -> None:
        """Write what is queued, and close the queue."""
        await self._queue.aclose()

    def _get_cached(self, key: TaskKey) -> Task | None:
        unwritten = self._queue.get_unwritten(key)
        return self._cache.get(key) if unwritten is None else task_from_row(unwritten)

    def _clear_cache(self, case_id: str | None) -> None:
        if case_id is None:  # another process wrote, and may have changed any task
            self._cache.clear()


class _TaskCache:
    """Stored tasks up to a number of bytes. The least recently used ones are removed first.

    A body is decoded when it is read first. The decoded task replaces the body if it has no mutable parts.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._bodies: OrderedDict[TaskKey, tuple[int, bytes | Task]] = OrderedDict()
        self.generation = 0
        """How often the cache was cleared. A row that was read before a clear is not put into the cache."""

    def get(self, key: TaskKey) -> Task | None:
        cached = self._bodies.get(key)
        if cached is None:
            return None
        self._bodies.move_to_end(key)
        size, body = cached
        if isinstance(body, Task):
            return body
        task = decode_task(body)
        if not task.is_kept_by_relay:
            self._bodies[key] = (size, task)
        return task

    def put(self, key: TaskKey, body: bytes) -> None:
        self._remove(key)
        size = _estimate_size(body)
        self._bodies[key] = (size, body)
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._bytes -= self._bodies.popitem(last=False)[1][0]

    def clear(self) -> None:
        self.generation += 1
        self._bodies.clear()
        self._bytes = 0

    def _remove(self, key: TaskKey) -> None:
        cached = self._bodies.pop(key, None)
        if cached is not None:
            self._bytes -= cached[0]


def _estimate_size(body: bytes) -> int:
    return len(body) + OVERHEAD_BYTES
