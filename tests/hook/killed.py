"""Kills an agent's process at every step it takes, and lets the next one go on; run as a script, to fork.

For each point prints one line of JSON: what the person decided, what ran, and what the model was told.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from assent.errors import NothingToResume, ThreadBusy, ThreadPaused
from assent.hook import AgentResult, HumanInTheLoopHook, ReactAgent, SqliteSaver
from assent.hook.checkpoint import Checkpoint

LEASE = timedelta(milliseconds=30)
PATIENCE_S = 20.0
RACERS = 8


class Mortal(SqliteSaver):
    """Dies before or after the write that it was told."""

    def __init__(self, path: Path, die_at: int | None) -> None:
        super().__init__(path)
        self._steps_left = die_at

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        self.step()
        super().put(checkpoint, lease_for=lease_for)
        self.step()

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        self.step()
        super().claim(checkpoint, lease_for=lease_for)
        self.step()

    def step(self) -> None:
        if self._steps_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._steps_left is not None:
            self._steps_left -= 1


def agent(
    folder: Path, die_at: int | None = None, *, lease_for: timedelta = LEASE
) -> tuple[ReactAgent, Mortal]:
    saver = Mortal(folder / "threads.db", die_at)

    def pay(amount: int) -> str:
        """Pay."""
        saver.step()
        with (folder / "ran").open("a") as ran:
            ran.write(f"{amount}\n")
        saver.step()
        return f"paid {amount}"

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if any(message["role"] == "tool" for message in messages):
            return {"content": "done"}
        calls = [{"id": f"c{amount}", "name": "pay", "arguments": {"amount": amount}} for amount in (1, 2)]
        return {"tool_calls": calls}

    hook = HumanInTheLoopHook({"pay": True})
    return ReactAgent("payer", model, [pay], [hook], saver, lease_for=lease_for), saver


def life(folder: Path, die_at: int | None) -> AgentResult:
    """One process's life: begin or go on, decide both calls, finish."""
    mine, saver = agent(folder, die_at)
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE_S:
        with contextlib.suppress(ThreadBusy, ThreadPaused):
            if saver.get("t") is None:
                mine.invoke("pay both", thread_id="t")
            with contextlib.suppress(NothingToResume):
                mine.resume("t", {"c1": "approve"})
            outcome = mine.resume("t", {"c2": "approve"})
            if isinstance(outcome, AgentResult):
                return outcome
    raise TimeoutError


def in_a_child(work: Callable[[], object]) -> int:
    """The wait status of a forked process that does the work."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def tell(folder: Path, point: int) -> None:
    """Print what one killing came to, after another process went on."""
    told: list[str] = []
    kept = SqliteSaver(folder / "threads.db")
    newest = kept.get("t")
    if newest is not None:
        told = [one["content"] for one in newest.checkpoint.messages if one["role"] == "tool"]
    kept.close()
    ran = (folder / "ran").read_text().split() if (folder / "ran").exists() else []
    print(json.dumps({"point": point, "ran": ran, "told": told}))


def kill_everywhere(root: Path) -> None:
    for point in range(100):
        folder = root / f"point-{point}"
        folder.mkdir()
        first = in_a_child(lambda folder=folder, point=point: life(folder, point))  # type: ignore[misc]
        second = in_a_child(lambda folder=folder: life(folder, None))  # type: ignore[misc]
        assert second == 0, f"nobody could go on after point {point}"
        tell(folder, point)
        if first == 0:
            return
    raise AssertionError("the agent never finishes")


def race(root: Path) -> None:
    """Many processes answer one thread at once."""
    first = in_a_child(lambda: agent(root)[0].invoke("pay both", thread_id="t"))
    assert first == 0
    children = []
    for _ in range(RACERS):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with contextlib.suppress(ThreadBusy):
                    agent(root, lease_for=timedelta(minutes=1))[0].resume(
                        "t", {"c1": "approve", "c2": "approve"}
                    )
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * RACERS
    tell(root, 0)


if __name__ == "__main__":
    {"everywhere": kill_everywhere, "race": race}[sys.argv[1]](Path(sys.argv[2]))
