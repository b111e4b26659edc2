"""kill -9 at every step of pause, decide and resume, in each framework: no decision lost, no tool run twice.

One script for each framework plays it in forks, with the framework's real package and SQLite files.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from placet.hook.result_texts import OUTCOME_UNKNOWN
from tests.hook.frameworks.killed import EDITED, LIVES, REASON
from tests.hook.killable_process import RACERS
from tests.hook.memory_folder import make_memory_folder

PATIENCE_S = 280
pytestmark = pytest.mark.timeout(PATIENCE_S + 20)
TOOLS = {"c0": "write_file", "c1": "execute_sql", "c2": "send_email", "c3": "read_data"}
RESULTS = {
    "c0": "wrote a.txt",
    "c1": "rows of SELECT 1",
    "c2": "sent to all@example.com",
    "c3": "the data",
}


@dataclass(frozen=True)
class KillResults:
    """What came of every kill, of a life that was not disturbed, and of a race."""

    name: str
    killed: list[dict[str, Any]]
    undisturbed: dict[str, Any]
    race: dict[str, Any]


@pytest.fixture(scope="module", params=LIVES)
def kill_results(request: pytest.FixtureRequest) -> KillResults:
    with make_memory_folder() as folder:
        return run_kills(request.param, folder)


def run_kills(name: str, folder: Path) -> KillResults:
    """What the script printed; its processes fork, so it is a program of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.hook.frameworks.killed", name, folder],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert ended.returncode == 0, ended.stderr
    *killed, undisturbed, race = map(json.loads, ended.stdout.splitlines())
    return KillResults(name=name, killed=killed, undisturbed=undisturbed, race=race)


def read_told_results(point: dict[str, Any]) -> dict[str, str]:
    """What the model was told about each call, in the order it reads them."""
    return dict(point["told"])


def is_rejected(text: str) -> bool:
    return REASON in text


def count_runs(point: dict[str, Any]) -> Counter[str]:
    return Counter(name for name, _ in point["ran"])


def test_every_write_and_both_sides_of_every_call_are_points(kill_results: KillResults) -> None:
    assert len(kill_results.killed) > 15
    assert all(point["killed"] for point in kill_results.killed)
    assert not kill_results.undisturbed["killed"]
    told = [read_told_results(point) for point in kill_results.killed]
    for call_id in ("c0", "c1", "c2"):
        texts = [each[call_id] for each in told]
        assert any(is_rejected(text) for text in texts), "some died before this was decided"
        assert any(text.endswith(RESULTS[call_id]) for text in texts), "some died after this had run"
    assert any(OUTCOME_UNKNOWN in each.values() for each in told), "some died while calls ran"


def test_a_decision_that_was_taken_survives_the_process(kill_results: KillResults) -> None:
    for point in kill_results.killed:
        for call_id in point["acknowledged"]:
            assert not is_rejected(read_told_results(point)[call_id]), (
                f"{call_id} was decided a second time: {point}"
            )


def test_no_tool_runs_twice(kill_results: KillResults) -> None:
    for point in (*kill_results.killed, kill_results.undisturbed, kill_results.race):
        twice = [name for name, times in count_runs(point).items() if times > 1]
        if kill_results.name == "mcp":  # a call that nobody need see is handed on as often as it is made
            twice = [name for name in twice if name != TOOLS["c3"]]
        assert twice == [], point


def test_what_runs_is_what_was_decided(kill_results: KillResults) -> None:
    for point in kill_results.killed:
        told = read_told_results(point)
        assert [arguments for name, arguments in point["ran"] if name == "execute_sql"] in ([], [EDITED]), (
            point
        )
        for call_id, tool in TOOLS.items():
            assert not (is_rejected(told[call_id]) and count_runs(point)[tool]), (
                f"{tool} ran and was rejected: {point}"
            )


def test_the_model_is_told_of_every_call_what_is_true_of_it(kill_results: KillResults) -> None:
    for point in kill_results.killed:
        assert list(read_told_results(point)) == ["c0", "c1", "c3", "c2"], point
        for call_id, text in point["told"]:
            if not is_rejected(text) and text != OUTCOME_UNKNOWN:
                assert text.endswith(RESULTS[call_id]), point
                assert count_runs(point)[TOOLS[call_id]], f"told of what never ran: {point}"


def test_undisturbed_everything_runs_and_is_told(kill_results: KillResults) -> None:
    told = read_told_results(kill_results.undisturbed)
    assert kill_results.undisturbed["acknowledged"] == ["c0", "c1", "c2"]
    assert set(count_runs(kill_results.undisturbed)) == set(TOOLS.values())
    assert all(told[call_id].endswith(result) for call_id, result in RESULTS.items())


def test_of_eight_processes_that_resume_a_thread_at_once_one_runs_its_calls(
    kill_results: KillResults,
) -> None:
    told = read_told_results(kill_results.race)
    assert count_runs(kill_results.race) == Counter(["write_file", "execute_sql", "read_data"])
    assert all(told[call_id].endswith(RESULTS[call_id]) for call_id in ("c0", "c1", "c3"))
    if kill_results.name == "mcp":  # each call is a thread of its own
        assert 1 <= kill_results.race["went_on"] <= RACERS
    else:
        assert kill_results.race["went_on"] == 1
