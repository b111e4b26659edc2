"""Kills or fails an agent's process at every step, lets another one continue, and says what came of it.

`disturb(harness, folder)` runs this in a new process, because it forks.
"""

import gc
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from placet.errors import AlreadyDecided, HookError, InvalidFeedback
from placet.hook import InterruptionMetadata, ToolCall
from placet.hook.feedback import CallDecision
from placet.testing.approvals import HOLD, Harness, Scene, runs_in
from placet.testing.clock import DAYBREAK
from placet.testing.file_reviews import FileReviews, Receipts
from placet.testing.steps import STEPS, Disturbance
from placet.testing.waiting import wait_until

CALLS = (
    ToolCall(id="c0", name="write_file", arguments={"path": "a.txt", "text": "hello"}),
    ToolCall(id="c1", name="execute_sql", arguments={"query": "DELETE FROM records"}),
    ToolCall(id="c3", name="read_data", arguments={}),
    ToolCall(id="c2", name="send_email", arguments={"to": "all@example.com"}),
)
SCENE = Scene(turns=(CALLS[:3], CALLS[3:]), has_cases=True)
EDITED = {"query": "SELECT 1"}
ANSWERS: dict[str, CallDecision] = {
    "c0": "approve",
    "c1": {"decision": "edit", "arguments": EDITED},
}
"""What the first process is told in code."""
CASE_DECISIONS: dict[str, CallDecision] = {"send_email": "approve"}
"""What is decided in the case of the second turn."""
REASON = "the second process says no"
REFUSAL: CallDecision = {"decision": "reject", "reason": REASON}
RACERS = 8
MAX_STEPS = 200
MAX_ROUNDS = 10
PROCESS_LIMIT_S = 120
LIMIT_S = 580
ACKNOWLEDGED, EMPTY = "acknowledged", "empty"


@dataclass(frozen=True, kw_only=True)
class DisturbedRun:
    """What came of one disturbed run, after another process had continued it."""

    point: str
    is_disturbed: bool
    acknowledged: list[str]
    """The calls whose decision was stored before the process ended."""
    rejected: list[str]
    """The calls that the second process found undecided."""
    is_lost: bool
    """Whether the second process found nothing that was stopped."""
    ran: list[tuple[str, dict[str, Any]]]
    told: list[tuple[str, str]]
    """What the model read: call and result."""
    receipts: Receipts
    continued: int = 0
    """How many of the racing processes continued the thread."""

    def count_runs(self) -> Counter[str]:
        """Return how often each tool ran."""
        return Counter(name for name, _ in self.ran)


@dataclass(frozen=True, kw_only=True)
class DisturbedRuns:
    """What came of every kill, of every failed write, of an undisturbed run, and of a race."""

    killed: list[DisturbedRun]
    failed: list[DisturbedRun]
    undisturbed: DisturbedRun
    race: DisturbedRun


def disturb(harness: type[Harness], folder: Path) -> DisturbedRuns:
    """Kill and fail the harness at every step; return what came of it."""
    target = f"{harness.__module__}:{harness.__qualname__}"
    start = f"import sys; from {__name__} import main; main(*sys.argv[1:])"
    ended = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-c", start, target, str(folder)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    found: dict[str, list[DisturbedRun]] = {"kill": [], "fail": [], "race": []}
    for line in ended.stdout.splitlines():
        if line.startswith("{"):
            one = DisturbedRun(**json.loads(line))
            found[one.point.partition("-")[0]].append(one)
    *killed, undisturbed = found["kill"]
    return DisturbedRuns(
        killed=killed, failed=found["fail"][:-1], undisturbed=undisturbed, race=found["race"][0]
    )


def main(target: str, place: str) -> None:
    """Disturb a harness at every step, and print each outcome as JSON."""
    module, _, name = target.partition(":")
    kind: type[Harness] = getattr(importlib.import_module(module), name)
    root = Path(place)
    (root / EMPTY).mkdir()
    if kind.forks_after_use:
        _prepare(kind, root)
    _disturb_each_step(kind, root, "kill", _run_forked)
    _race(kind, root)
    if "fail" in kind.disturbances:
        _disturb_each_step(kind, root, "fail", _run_here)


def _prepare(kind: type[Harness], root: Path) -> None:
    """Create once what the harness would otherwise create in every fork."""
    with _process(kind, root / EMPTY, 0) as harness, suppress(HookError):
        harness.resume("t", None)
    warm = _copy_empty_folder(root, "warm")
    for work in (_begin, _continue):
        work(kind, warm)
    gc.disable()
    gc.freeze()  # a collection would copy everything into every fork


@contextmanager
def _process(kind: type[Harness], folder: Path, number: int) -> Iterator[Harness]:
    """Yield the harness of a process, which begins when the leases of the one before have ended."""
    now = DAYBREAK + number * timedelta(hours=1)
    harness = kind(folder, SCENE, clock=lambda: now)
    try:
        yield harness
    finally:
        harness.close()


def _begin(kind: type[Harness], folder: Path) -> None:
    """Begin a thread, and decide its calls one by one."""
    with _process(kind, folder, 0) as harness:
        try:
            harness.start("t")
            for call_id, said in ANSWERS.items():
                harness.resume("t", {call_id: said})
                _acknowledge(folder, call_id)
            assert harness.reviews is not None
            harness.reviews.decide(CASE_DECISIONS)
            _acknowledge(folder, "c2")
            harness.resume("t", None)
        finally:
            harness.send_receipts()


def _acknowledge(folder: Path, call_id: str) -> None:
    with (folder / ACKNOWLEDGED).open("a") as acknowledged:
        acknowledged.write(f"{call_id}\n")


def _continue(kind: type[Harness], folder: Path) -> None:
    """Continue wherever the first process stopped, and reject all that is undecided."""
    rejected: list[str] = []
    is_lost = False
    with _process(kind, folder, 1) as harness:
        for _ in range(MAX_ROUNDS):
            try:
                stopped = harness.resume("t", None)
            except AlreadyDecided:
                continue
            except HookError:
                if is_lost or _is_over(harness):
                    break
                is_lost = True
                with suppress(HookError):
                    harness.start("t")
                continue
            if stopped is None:
                break
            rejected += _reject(harness, stopped)
        else:
            raise TimeoutError
        before = runs_in(folder)
        for call_id, said in ANSWERS.items():
            with suppress(HookError):
                harness.resume("t", {call_id: said})
        assert runs_in(folder) == before, "an old answer, delivered again, ran something"
        harness.send_receipts()
        told = list(harness.read_tool_results("t"))
    (folder / "end").write_text(json.dumps({"rejected": rejected, "is_lost": is_lost, "told": told}))


def _is_over(harness: Harness) -> bool:
    return CALLS[-1].id in dict(harness.read_tool_results("t"))


def _reject(harness: Harness, stopped: InterruptionMetadata) -> list[str]:
    ids = [call.id for call in stopped.undecided]
    try:
        harness.resume("t", dict.fromkeys(ids, REFUSAL) or None)
    except InvalidFeedback:  # what the framework shows is older than what was decided
        return []
    return ids


def _disturb_each_step(
    kind: type[Harness], root: Path, by: Disturbance, run: Callable[[Callable[[], None]], bool]
) -> None:
    for number in range(MAX_STEPS):
        folder = _copy_empty_folder(root, f"{by}-{number}")

        def begin(folder: Path = folder, number: int = number) -> None:
            STEPS.disturb(number, by)
            _begin(kind, folder)

        def proceed(folder: Path = folder) -> None:
            STEPS.disturb(None)
            _continue(kind, folder)

        is_disturbed = run(begin)
        assert not run(proceed), f"stuck after {folder.name}"
        _print_outcome(folder, is_disturbed=is_disturbed)
        if not is_disturbed:
            return
    raise AssertionError("the agent never finishes")


def _run_forked(work: Callable[[], None]) -> bool:
    """Return whether the work was killed; it must not fail by itself."""
    [status] = _wait_for_children([work])
    is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert is_killed or status == 0, f"a process failed by itself: {status}"
    return is_killed


def _run_here(work: Callable[[], None]) -> bool:
    """Return whether a write failed in the work; another error is raised."""
    try:
        work()
    except Exception:
        if not STEPS.is_disturbed:
            raise
    return STEPS.is_disturbed


def _wait_for_children(
    works: Sequence[Callable[[], object]], meanwhile: Callable[[], object] = lambda: None
) -> list[int]:
    """Return the wait statuses of forked processes that do the works, one each."""
    children = [_fork(work) for work in works]
    meanwhile()
    return [os.waitpid(child, 0)[1] for child in children]


def _fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(PROCESS_LIMIT_S)
            work()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    return child


def _race(kind: type[Harness], root: Path) -> None:
    """Let many processes answer one thread at once; its calls run until the others have been refused."""
    folder = _copy_empty_folder(root, "race")

    def start() -> None:
        with _process(kind, folder, 0) as harness:
            harness.start("t")

    assert not _run_forked(start)
    ready, go = os.pipe()
    (folder / HOLD).touch()

    def answer() -> None:
        os.close(go)
        with _process(kind, folder, 0) as harness:
            os.read(ready, 1)
            try:
                harness.resume("t", ANSWERS)
                (folder / f"continued-{os.getpid()}").touch()
            except HookError:
                (folder / f"refused-{os.getpid()}").touch()

    def release() -> None:
        os.close(go)
        wait_until(lambda: _count(folder, "refused") == RACERS - 1 or _may_all_run(kind, folder))
        (folder / HOLD).unlink()

    assert _wait_for_children([answer] * RACERS, meanwhile=release) == [0] * RACERS
    os.close(ready)
    continued = _count(folder, "continued")
    assert not _run_forked(lambda: _continue(kind, folder))
    _print_outcome(folder, is_disturbed=False, continued=continued)


def _count(folder: Path, kind: str) -> int:
    return len(list(folder.glob(f"{kind}-*")))


def _may_all_run(kind: type[Harness], folder: Path) -> bool:
    """Return whether several processes may each run one of the calls."""
    return kind.decides_apart and {"write_file", "execute_sql"} <= {name for name, _ in runs_in(folder)}


def _copy_empty_folder(root: Path, name: str) -> Path:
    """Return a folder with empty databases: creating them for each run takes longer."""
    return Path(shutil.copytree(root / EMPTY, root / name))


def _print_outcome(folder: Path, *, is_disturbed: bool, continued: int = 0) -> None:
    path = folder / ACKNOWLEDGED
    outcome = DisturbedRun(
        point=folder.name,
        is_disturbed=is_disturbed,
        acknowledged=path.read_text().split() if path.exists() else [],
        ran=runs_in(folder),
        receipts=FileReviews(folder).read_receipts(),
        continued=continued,
        **json.loads((folder / "end").read_text()),
    )
    print(json.dumps(asdict(outcome)), flush=True)  # noqa: T201
