"""A process that opens and answers cases until it is killed, saying which were acknowledged."""

import asyncio
import os
import sys

from placet.stores.sqlite import SqliteStore
from placet.testing.samples import new_id, sample_approval, sample_creation, sample_update

WRITERS = 16


def write_line(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def write(store: SqliteStore, run: str) -> None:
    while True:
        creation = sample_creation(id=f"{run}_{new_id('review')}")
        await store.create_case(creation)
        write_line(f"opened {creation.case.id}")
        await store.update_case(sample_update(creation.case, sample_approval()))
        write_line(f"answered {creation.case.id}")


async def main(path: str, run: str) -> None:
    store = await SqliteStore.open(path)
    await asyncio.gather(*(write(store, run) for _ in range(WRITERS)))


asyncio.run(main(sys.argv[1], sys.argv[2]))
