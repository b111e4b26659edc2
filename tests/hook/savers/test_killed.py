"""A process that is killed in the middle of a write loses nothing it acknowledged, and tears nothing."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hook.savers.putting_process import SAVERS, THREADS, build_checkpoint, open_saver

PUTTING_PROCESS = Path(__file__).with_name("putting_process.py")
KILLS = 8


def run_until_killed(kind: str, place: Path, lines: int) -> dict[str, int]:
    """The last checkpoint of each thread that a process acknowledged before it was killed."""
    command = [sys.executable, str(PUTTING_PROCESS), kind, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    whole = [line.strip().partition(":") for line in said if line.endswith("\n")]
    return {thread_id: int(rev) for thread_id, _, rev in whole}


@pytest.mark.parametrize("kind", SAVERS)
def test_a_killed_process_leaves_whole_checkpoints_and_every_acknowledged_one(
    kind: str, tmp_path: Path
) -> None:
    dice = random.Random(5)
    place = tmp_path / "threads"
    acknowledged: dict[str, int] = {}
    for _ in range(KILLS):
        acknowledged |= run_until_killed(kind, place, dice.randrange(1, 25))
        saver = open_saver(kind, place)
        for thread_id, rev in acknowledged.items():
            kept = saver.list_checkpoints(thread_id)
            # The one that was under way when the process died may have been kept too.
            assert kept[0].checkpoint.rev in (rev, rev + 1)
            assert [one.checkpoint for one in kept] == [
                build_checkpoint(thread_id, one.checkpoint.rev) for one in kept
            ]
            acknowledged[thread_id] = kept[0].checkpoint.rev
        saver.close()
    assert set(acknowledged) <= {f"thread {number}" for number in range(THREADS)}


def test_what_a_killed_process_left_behind_does_not_pile_up(tmp_path: Path) -> None:
    place = tmp_path / "threads"
    for lines in (1, 2, 3):
        run_until_killed("file", place, lines)
    leftovers = [path for path in place.iterdir() if path.suffix == ".new"]
    assert len(leftovers) <= THREADS
