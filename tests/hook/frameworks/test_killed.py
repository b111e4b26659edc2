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
from tests.hook.frameworks.killed import EDITED, LIVES, SECOND_SAYS
from tests.hook.mortal import RACERS
from tests.hook.places import quick_folder

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
class Played:
    """What came of every kill, of a life that was not disturbed, and of a race."""

    name: str
    killed: list[dict[str, Any]]
    undisturbed: dict[str, Any]
    race: dict[str, Any]


@pytest.fixture(scope="module", params=LIVES)
def played(request: pytest.FixtureRequest) -> Played:
    with quick_folder() as folder:
        return play(request.param, folder)


def play(name: str, folder: Path) -> Played:
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
    return Played(name=name, killed=killed, undisturbed=undisturbed, race=race)


def told_of(point: dict[str, Any]) -> dict[str, str]:
    """What the model was told about each call, in the order it reads them."""
    return dict(point["told"])


def is_rejected(text: str) -> bool:
    return SECOND_SAYS["reason"] in text


def ran(point: dict[str, Any]) -> Counter[str]:
    return Counter(name for name, _ in point["ran"])


def test_every_write_and_both_sides_of_every_call_are_points(played: Played) -> None:
    assert len(played.killed) > 15
    assert all(point["killed"] for point in played.killed)
    assert not played.undisturbed["killed"]
    told = [told_of(point) for point in played.killed]
    for call_id in ("c0", "c1", "c2"):
        texts = [each[call_id] for each in told]
        assert any(is_rejected(text) for text in texts), "some died before this was decided"
        assert any(text.endswith(RESULTS[call_id]) for text in texts), "some died after this had run"
    assert any(OUTCOME_UNKNOWN in each.values() for each in told), "some died while calls ran"


def test_a_decision_that_was_taken_survives_the_process(played: Played) -> None:
    for point in played.killed:
        for call_id in point["acknowledged"]:
            assert not is_rejected(told_of(point)[call_id]), f"{call_id} was decided a second time: {point}"


def test_no_tool_runs_twice(played: Played) -> None:
    for point in (*played.killed, played.undisturbed, played.race):
        twice = [name for name, times in ran(point).items() if times > 1]
        if played.name == "mcp":  # a call that nobody need see is handed on as often as it is made
            twice = [name for name in twice if name != TOOLS["c3"]]
        assert twice == [], point


def test_what_runs_is_what_was_decided(played: Played) -> None:
    for point in played.killed:
        told = told_of(point)
        assert [arguments for name, arguments in point["ran"] if name == "execute_sql"] in ([], [EDITED]), (
            point
        )
        for call_id, tool in TOOLS.items():
            assert not (is_rejected(told[call_id]) and ran(point)[tool]), (
                f"{tool} ran and was rejected: {point}"
            )


def test_the_model_is_told_of_every_call_what_is_true_of_it(played: Played) -> None:
    for point in played.killed:
        assert list(told_of(point)) == ["c0", "c1", "c3", "c2"], point
        for call_id, text in point["told"]:
            if not is_rejected(text) and text != OUTCOME_UNKNOWN:
                assert text.endswith(RESULTS[call_id]), point
                assert ran(point)[TOOLS[call_id]], f"told of what never ran: {point}"


def test_undisturbed_everything_runs_and_is_told(played: Played) -> None:
    told = told_of(played.undisturbed)
    assert played.undisturbed["acknowledged"] == ["c0", "c1", "c2"]
    assert set(ran(played.undisturbed)) == set(TOOLS.values())
    assert all(told[call_id].endswith(result) for call_id, result in RESULTS.items())


def test_of_eight_processes_that_resume_a_thread_at_once_one_runs_its_calls(played: Played) -> None:
    told = told_of(played.race)
    assert ran(played.race) == Counter(["write_file", "execute_sql", "read_data"])
    assert all(told[call_id].endswith(RESULTS[call_id]) for call_id in ("c0", "c1", "c3"))
    if played.name == "mcp":  # each call is a thread of its own
        assert 1 <= played.race["went_on"] <= RACERS
    else:
        assert played.race["went_on"] == 1
