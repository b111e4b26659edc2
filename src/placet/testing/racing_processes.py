"""Run tasks on one saver in several real processes at the same moment."""

import multiprocessing
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from placet.errors import CheckpointConflict, HookError
from placet.hook.checkpoint import Checkpoint
from placet.hook.savers.saver import Saver
from placet.testing.threads import create_thread

TIMEOUT_S = 60.0
CLAIMED = "claimed"
STEPS = 5

OpenSaver = Callable[..., Saver]
SaverTask = Callable[[Saver, str], object]


def try_to_claim(saver: Saver, name: str) -> str:
    """Claim a new thread. Return `CLAIMED` or the name of the error."""
    try:
        saver.claim(create_thread("claimed", name).next(stage="running"), lease_for=timedelta(hours=1))
    except HookError as error:
        return type(error).__name__
    return CLAIMED


def append_steps(saver: Saver, name: str, steps: int = STEPS) -> int:
    """Update one thread `steps` times; read it again after each conflict. Return the number of updates."""
    done = 0
    while done < steps:
        found = saver.get("thread")
        newest = found.checkpoint if found else Checkpoint(thread_id="thread")
        try:
            saver.put(newest.next(queued=(*newest.queued, name)))
        except CheckpointConflict:
            continue
        done += 1
    return done


def race(open_saver: OpenSaver, tasks: Sequence[SaverTask], count: int) -> Sequence[Sequence[str]]:
    """Run each task in `count` processes at the same moment. Return the outcomes of each task."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    starter = context.Process(target=_start, args=(open_saver, tasks, count, sender))
    starter.start()
    sender.close()
    try:
        assert receiver.poll(TIMEOUT_S), f"the processes did not end within {TIMEOUT_S:g} seconds"
        outcomes: Sequence[tuple[int, str]] = receiver.recv()
    finally:
        starter.join(TIMEOUT_S)
        receiver.close()
    return [[outcome for number, outcome in outcomes if number == index] for index in range(len(tasks))]


def _start(open_saver: OpenSaver, tasks: Sequence[SaverTask], count: int, report: Connection) -> None:
    """Fork the processes from one that has only imported the modules, which is fast and has no threads."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    queue = context.SimpleQueue()
    processes = [
        context.Process(target=_run_tasks, args=(open_saver, tasks, str(number), barrier, queue.put))
        for number in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(TIMEOUT_S)
    outcomes = []
    while not queue.empty():
        outcomes.append(queue.get())
    report.send(outcomes)


def _run_tasks(
    open_saver: OpenSaver,
    tasks: Sequence[SaverTask],
    name: str,
    barrier: Barrier,
    report: Callable[[tuple[int, str]], None],
) -> None:
    saver = open_saver()
    for index, task in enumerate(tasks):
        barrier.wait(TIMEOUT_S)
        try:
            report((index, str(task(saver, name))))
        except Exception as error:
            report((index, repr(error)))
    saver.close()
