"""kill -9 at every step of pause, decide and resume, in a process that is forked for each step."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from placet.errors import AlreadyDecided, HookError
from placet.hook.feedback import CallDecision
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.testing.approvals import Harness, Scene, runs_in
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.tool_approval import MAIL, SQL, WRITE
from tests.hook.killable_process import FATE, run_in_child

SCENE = Scene(turns=((WRITE, SQL), (MAIL,)))
FIRST_SAYS: dict[str, CallDecision] = {
    "c0": "approve",
    "c1": {"decision": "edit", "arguments": {"query": "SELECT 1"}},
}
NO: CallDecision = {"decision": "reject", "reason": "the second life says no"}
MAX_STEPS = 60
MAX_ROUNDS = 5


def kill_at_every_step(make: Callable[..., Harness], root: Path) -> list[dict[str, Any]]:
    """Kill one process at each step and let a second one continue; check each outcome and return it.

    `make(folder, scene, clock=…)` returns a harness whose saver and tools are mortal.
    """
    outcomes = []
    for point in range(MAX_STEPS):
        folder = root / str(point)
        folder.mkdir()
        status = run_in_child(lambda folder=folder, point=point: _first(make, folder, point))  # type: ignore[misc]
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, f"the first process failed by itself at step {point}"
        assert run_in_child(lambda folder=folder: _second(make, folder)) == 0, f"step {point}"  # type: ignore[misc]
        outcomes.append(_check(folder))
        if not killed:
            assert point >= 10
            return outcomes
    raise AssertionError("the agent never finishes")


def _first(make: Callable[..., Harness], folder: Path, die_at: int) -> None:
    harness = make(folder, SCENE, clock=lambda: DAYBREAK)
    FATE.die_at(die_at)
    harness.start("t")
    for call_id, said in FIRST_SAYS.items():
        harness.resume("t", {call_id: said})
        with (folder / "acknowledged").open("a") as acknowledged:
            acknowledged.write(f"{call_id}\n")


def _second(make: Callable[..., Harness], folder: Path) -> None:
    """Continue an hour later, and reject all that is undecided."""
    harness = make(folder, SCENE, clock=lambda: DAYBREAK + timedelta(hours=1))
    rejected: list[str] = []
    lost = False
    for _ in range(MAX_ROUNDS):
        try:
            stopped = harness.resume("t", None)
            if stopped is None:
                break
            ids = [call.id for call in stopped.undecided]
            harness.resume("t", dict.fromkeys(ids, NO))
            rejected += ids
        except AlreadyDecided:
            continue
        except HookError:  # it died before anything was stopped
            lost = True
            break
    for call_id, said in FIRST_SAYS.items():
        with suppress(HookError):
            harness.resume("t", {call_id: said})
    told = dict(harness.read_tool_results("t"))
    (folder / "second").write_text(json.dumps({"rejected": rejected, "lost": lost, "told": told}))
    harness.close()


def _check(folder: Path) -> dict[str, Any]:
    second = json.loads((folder / "second").read_text())
    path = folder / "acknowledged"
    acknowledged = path.read_text().split() if path.exists() else []
    runs = runs_in(folder)
    times = Counter(name for name, _ in runs)
    assert all(count == 1 for count in times.values()), runs
    names = {"c0": "write_file", "c1": "execute_sql", "c2": "send_email"}
    for call_id in second["rejected"]:
        assert call_id not in acknowledged, "a stored decision was asked for again"
        assert names[call_id] not in times, "a rejected call ran"
    assert times["send_email"] == 0, "the second turn was never approved"
    assert ("execute_sql", SQL.arguments) not in runs, "an edited call ran as it was asked"
    if second["lost"]:
        assert runs == []
        assert acknowledged == []
    for call_id, text in second["told"].items():
        if call_id in FIRST_SAYS and call_id not in second["rejected"] and text != OUTCOME_UNKNOWN:
            assert names[call_id] in times or "waits" in text, f"told of a call that never ran: {text}"
    return {"acknowledged": acknowledged, "runs": runs, **second}
