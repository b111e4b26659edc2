"""Real processes that want the same thread at the same moment."""

import multiprocessing
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from placet.errors import CheckpointConflict, HookError
from placet.hook.checkpoint import Checkpoint
from placet.hook.savers.saver import Saver
from placet.testing.threads import words

PATIENCE_S = 60.0
CLAIMED = "claimed"
STEPS = 5

OpenSaver = Callable[..., Saver]
Task = Callable[[Saver, str], object]


def try_to_claim(saver: Saver, name: str) -> str:
    """Claim a new thread; what came of it, in a word."""
    try:
        saver.claim(words("claimed", name).next(stage="running"), lease_for=timedelta(hours=1))
    except HookError as error:
        return type(error).__name__
    return CLAIMED


def climb(saver: Saver, name: str, steps: int = STEPS) -> int:
    """Move one thread on `steps` times, looking again whenever somebody else was faster."""
    taken = 0
    while taken < steps:
        found = saver.get("thread")
        newest = found.checkpoint if found else Checkpoint(thread_id="thread")
        try:
            saver.put(newest.next(queued=(*newest.queued, name)))
        except CheckpointConflict:
            continue
        taken += 1
    return taken


def race(open_saver: OpenSaver, tasks: Sequence[Task], count: int) -> Sequence[Sequence[str]]:
    """What came of each task in `count` processes that began it at the same moment."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    starter = context.Process(target=_start, args=(open_saver, tasks, count, there))
    starter.start()
    there.close()
    try:
        assert here.poll(PATIENCE_S), "the race never ended"
        said: Sequence[tuple[int, str]] = here.recv()
    finally:
        starter.join(PATIENCE_S)
        here.close()
    return [[outcome for number, outcome in said if number == place] for place in range(len(tasks))]


def _start(open_saver: OpenSaver, tasks: Sequence[Task], count: int, report: Connection) -> None:
    """Fork the rivals from a process that has imported everything, and no more: it is quick, and clean."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    queue = context.SimpleQueue()
    rivals = [
        context.Process(target=_compete, args=(open_saver, tasks, str(number), barrier, queue.put))
        for number in range(count)
    ]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join(PATIENCE_S)
    said = []
    while not queue.empty():
        said.append(queue.get())
    report.send(said)


def _compete(
    open_saver: OpenSaver,
    tasks: Sequence[Task],
    name: str,
    barrier: Barrier,
    say: Callable[[tuple[int, str]], None],
) -> None:
    saver = open_saver()
    for place, task in enumerate(tasks):
        barrier.wait(PATIENCE_S)
        try:
            say((place, str(task(saver, name))))
        except Exception as error:
            say((place, repr(error)))
    saver.close()
