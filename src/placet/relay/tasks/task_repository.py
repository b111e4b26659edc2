"""Store the owner, the ids and the state of each task and context.

Agents see one caller, the relay, and cannot separate its callers. So the relay stores who owns each task and
context, and which id of the agent belongs to a task that the relay created.

Task rows are written a moment later. A task that a crash loses is not found afterwards. A context is on disk
before a message in it is forwarded: callers may name new contexts, so another caller could claim a lost one.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal, Protocol, TypedDict, Unpack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.errors import Unavailable
from placet.ports.change_feed import ChangeFeed
from placet.ports.row_validation import can_be_stored
from placet.ports.task_store import TaskRow
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json
from placet.relay.write_queue import CallWrites, RelayWriteStore, TaskKey, WriteQueue

IdKind = Literal["task", "context"]
CACHE_BYTES = 32 * 2**20
MAX_FORWARDED_DIGESTS = 500
OVERHEAD_BYTES = 500  # a key and a task of the cache without the body, roughly
BUSY = "The relay cannot store tasks at the moment. Try again later."


class TaskEnding(Struct, frozen=True, kw_only=True):
    """How a task ended that the relay answers for: a message, a failure, a whole task or a cancellation."""

    dialect: Dialect
    message: Json | None = None
    failure: str | None = None
    task: Json | None = None
    """The whole task as the caller may see it, in `dialect` and with the caller's ids."""
    metadata: Json | None = None
    """Metadata that says why the relay canceled the task."""


class Task(Struct, frozen=True, kw_only=True):
    """One task or context, by the id that its caller uses."""

    id: str
    owner: str
    upstream_id: str | None
    """The agent's id; None while the agent has not sent one."""
    caller_task_id: str | None = None
    """The id that the caller was given, if `id` is the agent's and the caller has another one."""
    context_id: str | None = None
    ending: TaskEnding | None = None
    hold_id: str | None = None
    """The hold that the task waits for, whether or not the agent knows the task."""
    hold_metadata: Json | None = None
    """The `relay_reason` metadata that callers see while the task is held."""
    approved: tuple[str, ...] = ()
    """Digests of texts that a person has approved in this task."""
    forwarded: tuple[str, ...] = ()
    """Digests (`digest_message`) of the messages that the relay forwarded to this task, the newest last."""
    since: datetime | None = None
    """Since when the relay answers for the task; set by `row_from_task`."""
    until: datetime | None = None
    """When the lease of the background call ends."""

    def with_forwarded(self, digest: str | None) -> "Task":
        """Return the task with the digest of another forwarded message; the same object if it is known."""
        if digest is None or digest in self.forwarded:
            return self
        return replace(self, forwarded=(*self.forwarded, digest)[-MAX_FORWARDED_DIGESTS:])

    def is_abandoned(self, now: datetime) -> bool:
        """Return whether the lease of the background call has ended, because its server has stopped."""
        is_running = self.hold_id is None and self.ending is None and self.upstream_id is None
        return is_running and self.until is not None and now >= self.until


class TaskWriteOptions(TypedDict, total=False):
    """How a task is written; see `TaskRepository.write`."""

    at_once: bool
    call: CallWrites | None


class TaskRepository(Protocol):
    """Stores tasks and contexts by tenant, agent and id."""

    async def find(self, tenant: str, agent: str, kind: IdKind, id: str) -> Task | None:
        """Return the task or context with this id, or None if it does not exist."""
        ...

    async def write(
        self, tenant: str, agent: str, kind: IdKind, task: Task, **options: Unpack[TaskWriteOptions]
    ) -> None:
        """Save a task in the place of an earlier one with its id. `find` returns it at once.

        The row is written a moment later; with `call`, in the transaction of the audit event of that call.
        With `at_once`, the method returns when the row is on disk. It does not wait for a row whose call has
        no event yet. Raises A2AError if the id cannot be stored, or if the store is unavailable.
        """
        ...

    async def flush(self) -> None:
        """Return when all queued rows are on disk. Raises Unavailable if the store is unavailable."""
        ...

    def adopt(self, rows: Iterable[TaskRow]) -> None:
        """Take over rows (`row_from_task`) that another transaction, such as a hold's, has just written."""
        ...


_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode


def row_from_task(tenant: str, agent: str, kind: IdKind, task: Task, at: datetime) -> TaskRow:
    """Return the row of a task or context. Raises A2AError if it cannot be stored."""
    if not can_be_stored(tenant, agent, task.id):
        raise A2AError("params", "The task id or context id is too long or not valid text.")
    if task.hold_id is not None or task.ending is not None or task.upstream_id is None:
        task = replace(task, since=at)
    body = _encode(task)
    if not can_be_stored(body):
        raise A2AError("too_large", "The task is too large to be stored.")
    return TaskRow(tenant=tenant, agent=agent, kind=kind, id=task.id, body=body, saved_at=at)


def task_from_row(row: TaskRow) -> Task:
    """Return the task or context of a row."""
    return _decode_task(row.body)


class WatchedTaskStore(RelayWriteStore, ChangeFeed, Protocol):
    """A store of task rows and audit events that reports the changes of other processes."""


class StoredTaskRepository:
    """A `TaskRepository` over a store, with a cache and deferred writes."""

    def __init__(
        self,
        store: WatchedTaskStore,
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
        """See `TaskRepository`."""
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
        self, tenant: str, agent: str, kind: IdKind, task: Task, **options: Unpack[TaskWriteOptions]
    ) -> None:
        """See `TaskRepository`."""
        row = row_from_task(tenant, agent, kind, task, self._now())
        try:
            queued = self._queue.save_task(row, options.get("call"))
            if queued and options.get("at_once"):
                await self._queue.flush(fail_fast=True)
        except Unavailable as outage:
            raise A2AError("busy", BUSY) from outage

    def adopt(self, rows: Iterable[TaskRow]) -> None:
        """See `TaskRepository`."""
        for row in rows:
            self._queue.adopt_task(row)

    async def flush(self) -> None:
        """See `TaskRepository`."""
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
        task = _decode_task(body)
        if task.ending is None and task.hold_id is None:
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
