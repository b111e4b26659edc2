"""A process that moves threads on until it is killed, saying which checkpoints were acknowledged."""

import os
import sys
from datetime import timedelta
from pathlib import Path

from placet.hook.checkpoint import Checkpoint
from placet.hook.savers.file import FileSaver
from placet.hook.savers.saver import Saver
from placet.hook.savers.sqlite import SqliteSaver

THREADS = 3
SAVERS: dict[str, type[FileSaver] | type[SqliteSaver]] = {"file": FileSaver, "sqlite": SqliteSaver}


def open_saver(kind: str, place: Path) -> Saver:
    return SAVERS[kind](place)


def build_checkpoint(thread_id: str, rev: int) -> Checkpoint:
    """The whole of it follows from its number, so a torn one shows."""
    texts = tuple({"role": "user", "content": f"{rev} " * size} for size in (1, 2_000, rev % 7_000))
    return Checkpoint(thread_id=thread_id, rev=rev, stage="running", messages=texts)


def main(kind: str, place: Path) -> None:
    saver = open_saver(kind, place)
    revs = {}
    for number in range(THREADS):
        newest = saver.get(f"thread {number}")
        revs[f"thread {number}"] = newest.checkpoint.rev if newest else 0
    while True:
        for thread_id, rev in revs.items():
            revs[thread_id] = rev + 1
            saver.put(build_checkpoint(thread_id, rev + 1), lease_for=timedelta(hours=1))
            os.write(1, f"{thread_id}:{rev + 1}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
