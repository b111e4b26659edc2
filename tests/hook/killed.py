"""Kills an agent's process at every step it takes, and lets the next one go on; run as a script, to fork.

For each point prints one line of JSON: what the person decided, what ran, and what the model was told.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from placet.errors import NothingToResume, ThreadBusy, ThreadPaused
from placet.hook import AgentResult, HumanInTheLoopHook, ReactAgent, SqliteSaver, resume_pending
from placet.hook.case_outcome import CaseOutcome
from placet.hook.checkpoint import Checkpoint
from placet.hook.interruption import InterruptionMetadata
from placet.testing.clock import DAYBREAK
from tests.hook.killable_process import (
    FATE,
    LIFE_LIMIT_S,
    RACERS,
    MortalSaver,
    make_mortal,
    run_in_child,
    run_in_children,
)

HOUR = timedelta(hours=1)
MAX_ROUNDS = 10


class MortalAfterWriteSaver(MortalSaver):
    """May die after a write too."""

    def write(self, checkpoint: Checkpoint, *args: Any, **named: Any) -> None:
        super().write(checkpoint, *args, **named)
        FATE.step()


class ApprovingReviews:
    """Cases that are approved at once; what became of the calls is written to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> dict[str, Any]:
        return {"case_id": interruption.id, "review_url": "", "expires_at": ""}

    def poll_case(self, case: Mapping[str, Any]) -> CaseOutcome:
        return CaseOutcome(status="decided", decisions={"c1": "approve", "c2": "approve"})

    def withdraw(self, case: Mapping[str, Any], reason: str) -> None:
        raise AssertionError("nothing is withdrawn")

    def report_calls(self, case: Mapping[str, Any], receipts: Sequence[Mapping[str, str]]) -> None:
        FATE.step()
        with (self.folder / "receipts").open("a") as reported:
            for receipt in receipts:
                reported.write(f"{receipt['call_id']} {receipt['outcome']}\n")
        FATE.step()


def agent(
    folder: Path, now: datetime, reviews: ApprovingReviews | None = None
) -> tuple[ReactAgent, MortalAfterWriteSaver]:
    saver = MortalAfterWriteSaver(folder / "threads.db", clock=lambda: now)

    def pay(amount: int) -> str:
        """Pay."""
        with (folder / "ran").open("a") as ran:
            ran.write(f"{amount}\n")
        FATE.step()
        return f"paid {amount}"

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if any(message["role"] == "tool" for message in messages):
            return {"content": "done"}
        calls = [{"id": f"c{amount}", "name": "pay", "arguments": {"amount": amount}} for amount in (1, 2)]
        return {"tool_calls": calls}

    hook = HumanInTheLoopHook({"pay": True})
    return ReactAgent(
        "payer", model, [make_mortal(pay)], [hook], saver, clock=lambda: now, reviews=reviews
    ), saver


def life(folder: Path, die_at: int | None, now: datetime) -> AgentResult:
    """One process's life: begin or go on, decide both calls, finish."""
    FATE.die_at(die_at)
    mine, saver = agent(folder, now)
    for _ in range(MAX_ROUNDS):
        with contextlib.suppress(ThreadPaused):
            if saver.get("t") is None:
                mine.invoke("pay both", thread_id="t")
            with contextlib.suppress(NothingToResume):
                mine.resume("t", {"c1": "approve"})
            outcome = mine.resume("t", {"c2": "approve"})
            if isinstance(outcome, AgentResult):
                return outcome
    raise TimeoutError


def life_with_reviews(folder: Path, die_at: int | None, now: datetime) -> None:
    """One process's life: begin or go on as the case says, finish, and report what became of the calls."""
    FATE.die_at(die_at)
    mine, saver = agent(folder, now, ApprovingReviews(folder))
    if saver.get("t") is None:
        mine.invoke("pay both", thread_id="t")
    for _ in range(MAX_ROUNDS):
        resume_pending(mine)
        mine.outbox.wait_until_sent(LIFE_LIMIT_S)
        newest = saver.get("t")
        if newest is not None and newest.checkpoint.stage == "ready" and not saver.list_threads("running"):
            return
    raise TimeoutError


def tell(folder: Path, point: int) -> None:
    """Print what one killing came to, after another process went on."""
    told: list[str] = []
    kept = SqliteSaver(folder / "threads.db")
    newest = kept.get("t")
    if newest is not None:
        told = [one["content"] for one in newest.checkpoint.messages if one["role"] == "tool"]
    kept.close()
    ran = (folder / "ran").read_text().split() if (folder / "ran").exists() else []
    reported = [line.split() for line in _read_lines(folder / "receipts")]
    print(json.dumps({"point": point, "ran": ran, "told": told, "reported": reported}))


def _read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def kill_at_every_step(root: Path, life: Callable[..., object]) -> None:
    for point in range(100):
        folder = root / f"point-{point}"
        folder.mkdir()
        first = run_in_child(lambda folder=folder, point=point: life(folder, point, DAYBREAK))  # type: ignore[misc]
        # An hour later, what the first one held is known to be nobody's.
        second = run_in_child(lambda folder=folder: life(folder, None, DAYBREAK + HOUR))  # type: ignore[misc]
        assert second == 0, f"nobody could go on after point {point}"
        tell(folder, point)
        if first == 0:
            return
    raise AssertionError("the agent never finishes")


def race(root: Path) -> None:
    """Many processes answer one thread at once."""
    assert run_in_child(lambda: agent(root, DAYBREAK)[0].invoke("pay both", thread_id="t")) == 0

    def answer() -> None:
        with contextlib.suppress(ThreadBusy):
            agent(root, DAYBREAK)[0].resume("t", {"c1": "approve", "c2": "approve"})

    assert run_in_children([answer] * RACERS) == [0] * RACERS
    tell(root, 0)


PLAYS: Mapping[str, Callable[[Path], None]] = {
    "everywhere": partial(kill_at_every_step, life=life),
    "receipts": partial(kill_at_every_step, life=life_with_reviews),
    "race": race,
}

if __name__ == "__main__":
    PLAYS[sys.argv[1]](Path(sys.argv[2]))
