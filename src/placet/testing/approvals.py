"""Parts of the contract suite for tool approval: scripted turns, recording tools and a harness."""

import importlib
import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from placet.errors import HookError
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, ToolCall, ToolConfig
from placet.hook.answer_validation import Feedback
from placet.hook.thread_resumption import ResumableAgent
from placet.testing.file_reviews import FileReviews
from placet.testing.steps import Disturbance, SteppingSaver, add_step
from placet.testing.waiting import WAIT_LIMIT_S, wait_until

Clock = Callable[[], datetime]
RUNS, HOLD, FLIPPED = "runs.jsonl", "hold", "flipped"
LAST_WORDS = "done"
CHILD_LIMIT_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """The tool calls of the model in each turn, and the policy that says which calls need a review.

    After the last turn the model replies `LAST_WORDS`. The number of the model's replies in the thread
    selects the turn, so that a new process continues where the last one stopped.
    """

    turns: tuple[tuple[ToolCall, ...], ...]
    policy: str = "usual"
    """A name in `POLICIES`."""
    has_cases: bool = False
    """Whether each stopped turn opens a case in the harness's `reviews`."""
    by_child: bool = False
    """Whether a child agent makes the calls; the agent itself calls it once, as its tool or helper."""

    def to_json(self) -> str:
        """Return the scene as JSON, for another process."""
        turns = [[call.to_dict() for call in turn] for turn in self.turns]
        return json.dumps({**asdict(self), "turns": turns})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the scene from the JSON of `to_json`."""
        fields = json.loads(text)
        turns = tuple(tuple(ToolCall(**call) for call in turn) for turn in fields.pop("turns"))
        return cls(turns=turns, **fields)


def ask_helper(**arguments: Any) -> Scene:
    """Return the scene of an agent that calls its child agent `helper`, with these arguments."""
    return Scene(turns=((ToolCall(id="h1", name="helper", arguments=arguments),),))


def usual(folder: Path) -> HumanInTheLoopHook:
    """Return a hook that reviews three tools. read_data runs without review."""
    return HumanInTheLoopHook(
        {
            "write_file": True,
            "execute_sql": "SQL needs approval",
            "send_email": ToolConfig(allowed_decisions=("approve", "edit", "reject", "respond")),
        }
    )


def asks_until_flipped(folder: Path) -> HumanInTheLoopHook:
    """Return a hook that reviews send_email until the file `FLIPPED` exists."""
    return HumanInTheLoopHook(
        {"send_email": ToolConfig(when=lambda call, state: not (folder / FLIPPED).exists())}
    )


def asks_for_a_minute(folder: Path) -> HumanInTheLoopHook:
    """Return a hook that reviews execute_sql, and rejects it after a minute."""
    return HumanInTheLoopHook({"execute_sql": ToolConfig(timeout=60)})


POLICIES: dict[str, Callable[[Path], HumanInTheLoopHook]] = {
    "usual": usual,
    "flips": asks_until_flipped,
    "minute": asks_for_a_minute,
}


class Toolbox:
    """Tools that append a line to a file for each run, so that runs in other processes are counted too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def functions(self) -> tuple[Callable[..., str], ...]:
        """Return the tools. A framework reads their names, signatures and docstrings."""

        def write_file(path: str, text: str) -> str:
            """Write a text to a file."""
            return self._ran("write_file", f"wrote {path}", path=path, text=text)

        def execute_sql(query: str) -> str:
            """Run a query."""
            return self._ran("execute_sql", f"rows of {query}", query=query)

        def send_email(to: str) -> str:
            """Send an email."""
            return self._ran("send_email", f"sent to {to}", to=to)

        def read_data() -> str:
            """Read the data."""
            return self._ran("read_data", "the data")

        return (write_file, execute_sql, send_email, read_data)

    def _ran(self, name: str, result: str, /, **arguments: Any) -> str:
        line = json.dumps([name, arguments]) + "\n"
        with (self._folder / RUNS).open("a", encoding="utf-8") as runs:
            runs.write(line)
        wait_until(lambda: not (self._folder / HOLD).exists())
        return result


def runs_in(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the tool runs of all processes so far: tool and arguments."""
    path = folder / RUNS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(name, arguments) for name, arguments in map(json.loads, lines)]


class Harness(ABC):
    """Drives one framework for the contract suite. A new harness on the same folder acts as a restart.

    All stored data is in `folder`. Give the adapter the harness's `hook`, `saver`, `reviews` and `clock`,
    and the framework its `tools`. The harness of an async framework wraps its calls in `asyncio.run`.
    """

    responds: ClassVar[bool] = True
    """Whether a reviewer can respond in place of the tool."""
    renames: ClassVar[bool] = True
    """Whether an edit can change the tool."""
    children: ClassVar[Literal["wait", "are refused", "none"]] = "none"
    """What becomes of a child agent's call that needs a review; or the framework has no child agents."""
    decides_apart: ClassVar[bool] = False
    """Whether each call waits and runs for itself, and one that needs no review does not wait at all."""
    repeats_runs: ClassVar[bool] = False
    """Whether a new process makes the whole run again, also its calls that need no review."""
    knows_schemas: ClassVar[bool] = True
    """Whether the framework tells the adapter the schemas of its tools."""
    disturbances: ClassVar[Collection[Disturbance]] = ("kill", "fail")
    """What is tried at every step. A framework that itself repeats failed calls is only killed."""
    forks_after_use: ClassVar[bool] = True
    """Whether a process that has used the framework can still be forked."""
    is_async: ClassVar[bool] = False
    """Whether `threads` are resumed on an event loop."""
    resumes_anywhere: ClassVar[bool] = True
    """Whether `resume` continues a thread wherever its process ended; otherwise some need a new message."""

    def __init__(self, folder: Path, scene: Scene, *, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self.folder = folder
        self.scene = scene
        self.clock = clock
        self.hook = POLICIES[scene.policy](folder)
        self.tools = tuple(map(add_step, Toolbox(folder).functions))
        self.saver = SteppingSaver(folder / "approvals.db", clock=clock)
        self.reviews = FileReviews(folder) if scene.has_cases else None

    @abstractmethod
    def start(self, thread_id: str) -> InterruptionMetadata | None:
        """Send a message to the thread. Return the interruption, or None if the agent has finished."""

    @abstractmethod
    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        """Resume the thread with feedback. Return the next interruption, or None. Raises HookError."""

    @abstractmethod
    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        """Send a message to a new thread and stream the run. Return the interruptions."""

    @abstractmethod
    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        """Return the tool results that the model reads, in order: call id and text, or none."""

    def threads(self) -> ResumableAgent | None:
        """Return the threads for `resume_pending`; None if the agent waits, or makes its calls again."""
        return None

    def send_receipts(self) -> None:
        """Send what earlier processes could not report, and wait until everything is sent."""
        if (threads := self.threads()) is not None:
            threads.outbox.send_stored()
            threads.outbox.wait_until_sent(WAIT_LIMIT_S)

    def close(self) -> None:
        """Release the harness's resources."""
        self.saver.close()


def resume_elsewhere(
    harness: type[Harness], folder: Path, scene: Scene, thread_id: str, feedback: dict[str, Any] | None
) -> "subprocess.Popen[str]":
    """Resume a thread in a new process. `outcome_of` waits for it."""
    target = f"{harness.__module__}:{harness.__qualname__}"
    # With -m the module would be imported twice, and its Scene would be another class than the harness's.
    start = f"import sys; from {__name__} import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", start, target, str(folder), scene.to_json(), thread_id]
    return subprocess.Popen(  # noqa: S603 - our own module
        [*command, json.dumps(feedback)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def outcome_of(process: "subprocess.Popen[str]") -> str:
    """Return the outcome of a resume in another process: "finished", "waiting", or a HookError's code."""
    try:
        stdout, stderr = process.communicate(timeout=CHILD_LIMIT_S)
    finally:
        process.kill()
    if process.returncode:
        raise RuntimeError(stderr)
    return stdout.split()[-1]


def main(target: str, folder: str, scene: str, thread_id: str, feedback: str) -> None:
    """Resume one thread and print the outcome."""
    module, _, name = target.partition(":")
    harness: Harness = getattr(importlib.import_module(module), name)(Path(folder), Scene.from_json(scene))
    try:
        print("finished" if harness.resume(thread_id, json.loads(feedback)) is None else "waiting")  # noqa: T201
    except HookError as error:
        print(error.code)  # noqa: T201
    finally:
        harness.close()
