"""A process that changes records and resolves holds as fast as it can, against others that do the same."""

import asyncio
import os
import sys

from msgspec.structs import replace

from placet.errors import RelayConflict
from placet.ports.hold_store import HoldFilter
from placet.stores.sqlite import SqliteStore
from placet.testing.clock import DAYBREAK
from placet.testing.relay_samples import sample_audit, sample_task

STEPS = 25


async def increment_record(store: SqliteStore) -> int:
    """Change one record so often, looking again whenever somebody else was faster."""
    taken = 0
    while taken < STEPS:
        record = await store.get_record("acme", "policy", "shared")
        assert record is not None
        try:
            await store.save_record(replace(record, rev=record.rev + 1))
        except RelayConflict:
            continue
        taken += 1
    return taken


async def resolve(store: SqliteStore, name: str) -> int:
    """Resolve every hold, as if nobody else did."""
    holds, _ = await store.list_holds("acme", HoldFilter(), page=0, size=100, order="oldest")
    won = 0
    for hold in holds:
        decided = replace(hold, rev=2, status="APPROVED", resolved_at=DAYBREAK, body=name.encode())
        task = sample_task(id=hold.task_id, body=name.encode())
        event = sample_audit(id=f"{name} {hold.id}", correlation_id=hold.id)
        try:
            await store.update_hold(decided, tasks=[task], events=[event])
        except RelayConflict:
            continue
        won += 1
    return won


async def main(path: str, name: str) -> None:
    store = await SqliteStore.open(path)
    os.write(1, b"ready\n")
    sys.stdin.readline()
    climbed, won = await increment_record(store), await resolve(store, name)
    os.write(1, f"{climbed} {won}\n".encode())
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
