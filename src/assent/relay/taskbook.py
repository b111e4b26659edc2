"""Whose task it is, and by which names: agents see one caller, the relay, and cannot tell callers apart.

The book is what keeps callers from each other's tasks and conversations, and where a task that the relay
named itself is joined to the agent's own.
"""

from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from assent.ports.relay_store import TaskRow
from assent.relay.a2a.dialects import Dialect
from assent.relay.a2a.reading import Json

Kind = Literal["task", "context"]
Key = tuple[str, str, Kind, str]
MOST_ENTRIES = 200_000


class Ending(Struct, frozen=True, kw_only=True):
    """How a task ended of which the relay tells itself: with a message, with words on a failure, or whole."""

    dialect: Dialect
    message: Json | None = None
    failure: str | None = None
    task: Json | None = None
    """The whole task as the caller may see it, in `dialect` and in the caller's own names."""
    metadata: Json | None = None
    """Why the relay canceled it; such a task has nothing else."""


class Mask(Struct, frozen=True, kw_only=True):
    """What stands before a task while the relay has it: nobody else is asked of it or told of it."""

    hold_id: str
    metadata: Json
    """The `relay_reason` that callers see."""


class Entry(Struct, frozen=True, kw_only=True):
    """One task or conversation as its caller names it."""

    id: str
    owner: str
    upstream_id: str | None
    """The agent's own name for it; None while it has not said."""
    shown_as: str | None = None
    """What the caller was told it is called, where that is not the agent's name for it."""
    context_id: str | None = None
    ending: Ending | None = None
    mask: Mask | None = None
    """Set while a hold has the task, whether or not the agent knows it."""
    approved: tuple[str, ...] = ()
    """Digests of texts that a person has let pass in this task."""


class TaskBook(Protocol):
    """Remembers tasks and conversations by tenant, agent and id."""

    async def find(self, tenant: str, agent: str, kind: Kind, id: str) -> Entry | None:
        """The entry of this id, if there is one."""
        ...

    async def write(self, tenant: str, agent: str, kind: Kind, entry: Entry) -> None:
        """Keep an entry, in the place of an earlier one of its id."""
        ...

    def adopt(self, rows: Iterable[TaskRow]) -> None:
        """Know rows (`row_of`) that were just written together with something else, such as a hold."""
        ...


def row_of(tenant: str, agent: str, kind: Kind, entry: Entry, at: datetime) -> TaskRow:
    """An entry as it is stored."""
    return TaskRow(
        tenant=tenant, agent=agent, kind=kind, id=entry.id, body=msgspec.json.encode(entry), saved_at=at
    )


def entry_of(row: TaskRow) -> Entry:
    """The entry in a stored row."""
    return msgspec.json.decode(row.body, type=Entry)


class MemoryTaskBook:
    """A `TaskBook` for as long as the process lives; the oldest entries go when there are too many."""

    def __init__(self, *, most: int = MOST_ENTRIES) -> None:
        self._most = most
        self._entries: OrderedDict[Key, Entry] = OrderedDict()

    async def find(self, tenant: str, agent: str, kind: Kind, id: str) -> Entry | None:
        """See `TaskBook`."""
        return self._entries.get((tenant, agent, kind, id))

    async def write(self, tenant: str, agent: str, kind: Kind, entry: Entry) -> None:
        """See `TaskBook`."""
        self._entries[tenant, agent, kind, entry.id] = entry
        self._entries.move_to_end((tenant, agent, kind, entry.id))
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def adopt(self, rows: Iterable[TaskRow]) -> None:
        """See `TaskBook`."""
        for row in rows:
            if row.kind in ("task", "context"):
                self._entries[row.tenant, row.agent, row.kind, row.id] = entry_of(row)
