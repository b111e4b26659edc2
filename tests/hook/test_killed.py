"""kill -9 at every step of pause, decide and resume: no decision is lost, and no tool runs twice."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from placet.hook.result_texts import OUTCOME_UNKNOWN


def play(what: str, folder: Path) -> list[dict[str, Any]]:
    """What the script printed; its processes fork, so it is a program of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.hook.killed", what, str(folder)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_an_agent_killed_at_any_step_loses_no_decision_and_pays_nothing_twice(tmp_path: Path) -> None:
    points = play("everywhere", tmp_path)
    assert len(points) > 10, "every write and both sides of every call are points"
    for point in points:
        assert len(set(point["ran"])) == len(point["ran"]), f"paid twice: {point}"
        assert len(point["told"]) == 2, point
        for amount, told in zip(("1", "2"), point["told"], strict=True):
            assert told in (f"paid {amount}", OUTCOME_UNKNOWN), point
            assert told == OUTCOME_UNKNOWN or amount in point["ran"], (
                f"told of a payment that never was: {point}"
            )
    assert points[-1]["told"] == ["paid 1", "paid 2"], "undisturbed, both are paid"
    assert any(OUTCOME_UNKNOWN in point["told"] for point in points), "some died between running and telling"


def test_eight_processes_that_resume_one_thread_at_once_run_its_calls_once(tmp_path: Path) -> None:
    [outcome] = play("race", tmp_path)
    assert sorted(outcome["ran"]) == ["1", "2"]


def test_an_agent_killed_at_any_step_reports_every_approved_call(tmp_path: Path) -> None:
    points = play("receipts", tmp_path)
    assert len(points) > 10
    for point in points:
        assert len(set(point["ran"])) == len(point["ran"]), f"paid twice: {point}"
        first = dict(reversed(point["reported"]))
        assert first.keys() == {"c1", "c2"}, point
        for amount, told in zip(("1", "2"), point["told"], strict=True):
            outcome = first[f"c{amount}"]
            assert outcome in ("ran", "failed"), point
            assert outcome == "failed" or amount in point["ran"], f"reported, and never ran: {point}"
            assert told == OUTCOME_UNKNOWN or outcome == "ran", point
