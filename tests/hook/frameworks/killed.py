"""Kills a framework's process at every step it takes, and lets the next one go on; run as a script, to fork.

For each point prints one line of JSON: what was acknowledged, what ran, and what the model was told.
"""

import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from placet.errors import HookError, InvalidFeedback, ThreadBusy
from placet.hook import InterruptionMetadata
from placet.hook.feedback import CallDecision
from placet.testing.approvals import HOLD, Scene, runs_in, wait_until
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.tool_approval import MAIL, READ, SQL, WRITE
from tests.hook.frameworks.killable_agent import KillableHarness
from tests.hook.killable_process import FATE, RACERS, run_in_child, run_in_children

SCENE = Scene(turns=((WRITE, SQL, READ), (MAIL,)))
EDITED = {"query": "SELECT 1"}
FIRST_SAYS: dict[str, CallDecision] = {
    "c0": "approve",
    "c1": {"decision": "edit", "arguments": EDITED},
    "c2": "approve",
}
REASON = "the second life says no"
SECOND_SAYS: CallDecision = {"decision": "reject", "reason": REASON}
MAX_STEPS = 200
MAX_ROUNDS = 10
ACKNOWLEDGED, EMPTY = "acknowledged", "empty"
LIVES = {
    "langchain": "tests.hook.frameworks.langchain_harness:KillableLangChain",
    "pydantic-ai": "tests.hook.frameworks.pydantic_ai_harness:KillablePydanticAI",
    "openai-agents": "tests.hook.frameworks.openai_agents_harness:KillableOpenAIAgents",
    "mcp": "tests.hook.frameworks.mcp_harness:KillableMcp",
}


@contextlib.contextmanager
def life(kind: type[KillableHarness], folder: Path, number: int) -> Iterator[KillableHarness]:
    """A process's life; each begins an hour after the one before, so that what died is known to be dead."""
    now: datetime = DAYBREAK + number * timedelta(hours=1)
    mine = kind(folder, SCENE, clock=lambda: now)
    try:
        yield mine
    finally:
        mine.close()


def first(kind: type[KillableHarness], folder: Path, die_at: int | None = None) -> None:
    """Begins, and a person decides call by call, until it is over or killed."""
    FATE.die_at(die_at)
    with life(kind, folder, 0) as mine:
        assert mine.start("t") is not None
        for call_id, said in FIRST_SAYS.items():
            mine.resume("t", {call_id: said})
            with (folder / ACKNOWLEDGED).open("a") as acknowledged:
                acknowledged.write(f"{call_id}\n")


def second(kind: type[KillableHarness], folder: Path) -> None:
    """Goes on wherever the first one stopped; another person rejects whatever waits undecided."""
    with life(kind, folder, 1) as mine:
        for _ in range(MAX_ROUNDS):
            match mine.read_state("t"):
                case "new":
                    mine.start("t")
                case "over":
                    break
                case "cut off":
                    mine.resume("t", None)
                case InterruptionMetadata() as waiting:
                    answers: dict[str, CallDecision] = {call.id: SECOND_SAYS for call in waiting.undecided}
                    try:
                        mine.resume("t", answers or None)
                    except InvalidFeedback:  # what the framework shows is older than what was decided
                        mine.resume("t", None)
        else:
            raise TimeoutError
        before = runs_in(folder)
        for call_id, said in FIRST_SAYS.items():
            with contextlib.suppress(HookError):
                mine.resume("t", {call_id: said})
        assert runs_in(folder) == before, "an old answer, delivered again, ran something"
        (folder / "told").write_text(json.dumps(mine.read_tool_results("t")))


def outcome(folder: Path, killed: bool) -> dict[str, Any]:
    """What a point came to."""
    path = folder / ACKNOWLEDGED
    return {
        "point": folder.name,
        "killed": killed,
        "acknowledged": path.read_text().split() if path.exists() else [],
        "ran": runs_in(folder),
        "told": json.loads((folder / "told").read_text()),
    }


def copy_prepared_folder(root: Path, name: str) -> Path:
    """A place for a life to begin in, with empty databases: to make them anew each time takes longer."""
    return Path(shutil.copytree(root / EMPTY, root / name))


def kill_at_every_step(kind: type[KillableHarness], root: Path) -> None:
    for point in range(MAX_STEPS):
        folder = copy_prepared_folder(root, str(point))
        status = run_in_child(lambda folder=folder, point=point: first(kind, folder, point))  # type: ignore[misc]
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, f"the first life failed by itself: point {point}, status {status}"
        assert run_in_child(lambda folder=folder: second(kind, folder)) == 0, f"stuck after point {point}"  # type: ignore[misc]
        print(json.dumps(outcome(folder, killed)))
        if not killed:
            return
    raise AssertionError("the agent never finishes")


def race(kind: type[KillableHarness], root: Path) -> None:
    """Many processes answer one thread at once, and its calls run until the others have been refused."""
    folder = copy_prepared_folder(root, "race")

    def begin() -> None:
        with life(kind, folder, 0) as mine:
            mine.start("t")

    assert run_in_child(begin) == 0
    started, start = os.pipe()
    (folder / HOLD).touch()

    def answer() -> None:
        os.close(start)
        with life(kind, folder, 0) as mine:
            os.read(started, 1)
            try:
                mine.resume("t", {call_id: FIRST_SAYS[call_id] for call_id in ("c0", "c1")})
                (folder / f"went-on-{os.getpid()}").touch()
            except ThreadBusy:
                (folder / f"refused-{os.getpid()}").touch()

    def referee() -> None:
        os.close(start)
        wait_until(lambda: len(list(folder.glob("refused-*"))) == RACERS - 1 or _may_all_run(kind, folder))
        (folder / HOLD).unlink()

    assert run_in_children([answer] * RACERS, meanwhile=referee) == [0] * RACERS
    os.close(started)
    went_on = len(list(folder.glob("went-on-*")))
    assert run_in_child(lambda: second(kind, folder)) == 0, "stuck after the race"
    print(json.dumps({**outcome(folder, killed=False), "went_on": went_on}))


def _may_all_run(kind: type[KillableHarness], folder: Path) -> bool:
    """Calls that each have a thread of their own may be run by several processes, each of them by one."""
    return kind.calls_apart and {"write_file", "execute_sql"} <= {name for name, _ in runs_in(folder)}


def main(name: str, root: Path) -> None:
    module, _, kind = LIVES[name].partition(":")
    chosen: type[KillableHarness] = getattr(importlib.import_module(module), kind)
    (root / EMPTY).mkdir()
    with life(chosen, root / EMPTY, 0) as nobodys:
        assert nobodys.read_state("t") == "new"
    warm = copy_prepared_folder(root, "warm")
    for live in (first, second):  # what the framework makes once, every fork finds made
        live(chosen, warm)
    gc.disable()
    gc.freeze()  # to look at everything would copy everything into every fork
    kill_at_every_step(chosen, root)
    race(chosen, root)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
