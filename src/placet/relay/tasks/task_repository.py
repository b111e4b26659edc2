"""Whose task it is, and by which names: agents see one caller, the relay, and cannot tell callers apart.

The book is what keeps callers from each other's tasks and conversations, and where a task that the relay
named itself is joined to the agent's own. Names of tasks reach the disk a moment later: what a crash loses is
then unknown, and refused. A conversation is on disk before anybody goes on with it, because callers may name
new ones, and one that was lost would be as good as new.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Literal, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.errors import Unavailable
from placet.ports.change_feed import ChangeFeed
from placet.ports.row_validation import can_be_stored
from placet.ports.task_store import TaskKind, TaskRow, TaskStore
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import Json

NameKind = Literal["task", "context"]
TaskKey = tuple[str, str, TaskKind, str]
MAX_TASKS = 200_000
MAX_UNWRITTEN_BYTES = 64 * 2**20  # when the disk takes nothing for so long, no new name is given away
MAX_BATCH = 128  # bounds how long the event loop is kept from everything else
CACHE_BYTES = 32 * 2**20
OVERHEAD_BYTES = 500  # what a key and a row take beside the body, roughly
WRITE_DELAY_S = 0.025
RETRY_S = 1.0
BUSY = "The relay cannot keep the names of tasks right now; try again later."

log = logging.getLogger("placet.relay")


class TaskEnding(Struct, frozen=True, kw_only=True):
    """How a task ended of which the relay tells itself: with a message, with words on a failure, or whole."""

    dialect: Dialect
    message: Json | None = None
    failure: str | None = None
    task: Json | None = None
    """The whole task as the caller may see it, in `dialect` and in the caller's own names."""
    metadata: Json | None = None
    """Why the relay canceled it; such a task has nothing else."""


class Task(Struct, frozen=True, kw_only=True):
    """One task or conversation as its caller names it."""

    id: str
    owner: str
    upstream_id: str | None
    """The agent's own name for it; None while it has not said."""
    shown_as: str | None = None
    """What the caller was told it is called, where that is not the agent's name for it."""
    context_id: str | None = None
    ending: TaskEnding | None = None
    hold_id: str | None = None
    """The hold that has the task, whether or not the agent knows the task."""
    hold_metadata: Json | None = None
    """The `relay_reason` metadata that callers see while the task is held."""
    approved: tuple[str, ...] = ()
    """Digests of texts that a person has let pass in this task."""
    since: datetime | None = None
    """When the relay came to tell of it as it does; written by `row_from_task`."""
    until: datetime | None = None
    """When whoever waits for the agent's answer would have been heard of again, if somebody still did."""

    def is_abandoned(self, now: datetime) -> bool:
        """Whether nobody waits for the agent's answer any more: the server that did has stopped."""
        going_on = self.hold_id is None and self.ending is None and self.upstream_id is None
        return going_on and self.until is not None and now >= self.until


class TaskRepository(Protocol):
    """Stores tasks and contexts by tenant, agent and id."""

    async def find(self, tenant: str, agent: str, kind: NameKind, id: str) -> Task | None:
        """The entry of this id, if there is one."""
        ...

    async def write(
        self, tenant: str, agent: str, kind: NameKind, entry: Task, *, at_once: bool = False
    ) -> None:
        """Keep an entry, in the place of an earlier one of its id; `require_sync` returns when it is on disk.

        Raises A2AProblem for an id that cannot be kept, and while the disk takes nothing.
        """
        ...

    async def flush(self) -> None:
        """Return when all entries are on disk.

        Raises Unavailable while it takes nothing.
        """
        ...

    def adopt(self, rows: Iterable[TaskRow]) -> None:
        """Know rows (`row_from_task`) that were just written together with something else, such as a hold."""
        ...


_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode


def row_from_task(tenant: str, agent: str, kind: NameKind, entry: Task, at: datetime) -> TaskRow:
    """An entry as it is stored; raises A2AProblem for an id that no store takes."""
    if not can_be_stored(tenant, agent, entry.id):
        raise A2AError("params", "The name of a task or a conversation is too long, or is no text.")
    if entry.hold_id is not None or entry.ending is not None or entry.upstream_id is None:
        entry = replace(entry, since=at)
    body = _encode(entry)
    if not can_be_stored(body):
        raise A2AError("too_large", "The task is too large to be kept.")
    return TaskRow(tenant=tenant, agent=agent, kind=kind, id=entry.id, body=body, saved_at=at)


def task_from_row(row: TaskRow) -> Task:
    """The entry in a stored row."""
    return _decode_task(row.body)


class MemoryTaskRepository:
    """A `TaskRepository` for as long as the process lives; the oldest entries go when there are too many."""

    def __init__(self, *, most: int = MAX_TASKS) -> None:
        self._most = most
        self._entries: OrderedDict[TaskKey, Task] = OrderedDict()

    async def find(self, tenant: str, agent: str, kind: NameKind, id: str) -> Task | None:
        """See `TaskRepository`."""
        return self._entries.get((tenant, agent, kind, id))

    async def write(
        self, tenant: str, agent: str, kind: NameKind, entry: Task, *, at_once: bool = False
    ) -> None:
        """See `TaskRepository`."""
        self._entries[tenant, agent, kind, entry.id] = entry
        self._entries.move_to_end((tenant, agent, kind, entry.id))
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    async def flush(self) -> None:
        """See `TaskRepository`."""

    def adopt(self, rows: Iterable[TaskRow]) -> None:
        """See `TaskRepository`."""
        for row in rows:
            if row.kind in ("task", "context"):
                self._entries[row.tenant, row.agent, row.kind, row.id] = task_from_row(row)


class WatchedTaskStore(TaskStore, ChangeFeed, Protocol):
    """A task store that reports the changes of other processes."""


class StoredTaskRepository:
    """A `TaskRepository` over a store, with a cache and deferred writes."""

    def __init__(
        self, store: WatchedTaskStore, *, now: Callable[[], datetime], room: int = CACHE_BYTES
    ) -> None:
        self._store = store
        self._now = now
        self._known = _TaskCache(room)
        self._unwritten: dict[TaskKey, TaskRow] = {}
        self._unwritten_bytes = 0
        self._writing = asyncio.Lock()
        self._behind: asyncio.Task[None] | None = None
        store.add_change_listener(self._forget)

    async def find(self, tenant: str, agent: str, kind: NameKind, id: str) -> Task | None:
        """See `TaskRepository`."""
        key = (tenant, agent, kind, id)
        entry = self._get_cached(key)
        if entry is None:
            age = self._known.age
            row = (
                await self._store.get_task(tenant, agent, kind, id)
                if can_be_stored(tenant, agent, id)
                else None
            )
            entry = self._get_cached(key)  # somebody may have written it meanwhile
            if entry is None and row is not None:
                if age == self._known.age:
                    self._known.keep(key, row.body)
                entry = task_from_row(row)
        return entry

    async def write(
        self, tenant: str, agent: str, kind: NameKind, entry: Task, *, at_once: bool = False
    ) -> None:
        """See `TaskRepository`."""
        key = (tenant, agent, kind, entry.id)
        if self._unwritten_bytes >= MAX_UNWRITTEN_BYTES:
            raise A2AError("busy", BUSY)
        row = row_from_task(tenant, agent, kind, entry, self._now())
        self._queue_write(row)
        if at_once:
            try:
                await self._wait_until_written(key, row)
            except Unavailable as outage:
                raise A2AError("busy", BUSY) from outage

    def adopt(self, rows: Iterable[TaskRow]) -> None:
        """See `TaskRepository`. The rows are written again in case an older entry is still queued."""
        for row in rows:
            self._queue_write(row)

    async def flush(self) -> None:
        """See `TaskRepository`."""
        async with self._writing:
            while self._unwritten:
                await self._write_some()

    async def aclose(self) -> None:
        """Write what is left and stop."""
        if self._behind is not None:
            self._behind.cancel()
            with suppress(asyncio.CancelledError):
                await self._behind
        try:
            await self.flush()
        except Unavailable:
            log.error("task_names_lost count=%d reason=store_unavailable", len(self._unwritten))

    def _queue_write(self, row: TaskRow) -> None:
        key = _get_key(row)
        self._dequeue(key)
        self._unwritten[key] = row  # at the end: the order of names is the order on disk
        self._unwritten_bytes += _estimate_size(row.body)
        if self._behind is None or self._behind.done():
            self._behind = asyncio.create_task(self._write_behind())

    async def _wait_until_written(self, key: TaskKey, row: TaskRow) -> None:
        """Return when this is on disk, with whatever else waits."""
        async with self._writing:
            while self._unwritten.get(key) is row:
                await self._write_some()

    async def _write_behind(self) -> None:
        linger = WRITE_DELAY_S
        while self._unwritten:
            await asyncio.sleep(linger)
            try:
                await self.flush()
                linger = WRITE_DELAY_S
            except Exception:
                log.exception("task_names_write_failed")
                linger = RETRY_S

    async def _write_some(self) -> None:
        batch = [*islice(self._unwritten.items(), MAX_BATCH)]
        await self._store.save_tasks([row for _, row in batch])
        for key, row in batch:
            if self._unwritten.get(key) is row:
                self._dequeue(key)
                self._known.keep(key, row.body)

    def _dequeue(self, key: TaskKey) -> None:
        row = self._unwritten.pop(key, None)
        if row is not None:
            self._unwritten_bytes -= _estimate_size(row.body)

    def _get_cached(self, key: TaskKey) -> Task | None:
        unwritten = self._unwritten.get(key)
        return self._known.get(key) if unwritten is None else task_from_row(unwritten)

    def _forget(self, case_id: str | None) -> None:
        if case_id is None:  # another process wrote; it may have written any entry
            self._known.clear()


class _TaskCache:
    """Entries as the store has them, up to so many bytes; what nobody asked for longest goes first.

    They are kept as bytes until somebody asks. What is read then is kept in their place, if nobody who gets
    it could change it.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._bodies: OrderedDict[TaskKey, tuple[int, bytes | Task]] = OrderedDict()
        self.age = 0
        """Counts how often something was forgotten: what was read before is not worth keeping after."""

    def get(self, key: TaskKey) -> Task | None:
        known = self._bodies.get(key)
        if known is None:
            return None
        self._bodies.move_to_end(key)
        size, body = known
        if isinstance(body, Task):
            return body
        entry = _decode_task(body)
        if entry.ending is None and entry.hold_id is None:
            self._bodies[key] = (size, entry)
        return entry

    def keep(self, key: TaskKey, body: bytes) -> None:
        self._remove(key)
        size = _estimate_size(body)
        self._bodies[key] = (size, body)
        self._used += size
        while self._used > self._room:
            self._used -= self._bodies.popitem(last=False)[1][0]

    def clear(self) -> None:
        self.age += 1
        self._bodies.clear()
        self._used = 0

    def _remove(self, key: TaskKey) -> None:
        known = self._bodies.pop(key, None)
        if known is not None:
            self._used -= known[0]


def _estimate_size(body: bytes) -> int:
    return len(body) + OVERHEAD_BYTES


def _get_key(row: TaskRow) -> TaskKey:
    return (row.tenant, row.agent, row.kind, row.id)
