"""A stage for tool approval: scripted turns, tools that leave a trace, and a harness for each framework."""

import importlib
import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, ClassVar, Self

from placet.errors import HookError
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, ToolCall, ToolConfig
from placet.hook.answer_validation import Feedback

Clock = Callable[[], datetime]
RUNS, HOLD, FLIPPED = "runs.jsonl", "hold", "flipped"
LAST_WORDS = "done"
CHILD_LIMIT_S = 60.0
HOLD_LIMIT_S = 60.0
LOOK_AGAIN_S = 0.005


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What the model asks for, turn by turn, and which calls a person must see.

    After the last turn the model says `LAST_WORDS`. Which turn it is follows from how many replies of the
    model the thread holds, so that a new process goes on where the last one stopped.
    """

    turns: tuple[tuple[ToolCall, ...], ...]
    policy: str = "usual"
    """A name in `POLICIES`."""

    def to_json(self) -> str:
        """The scene as it travels to another process."""
        turns = [[call.to_dict() for call in turn] for turn in self.turns]
        return json.dumps({"turns": turns, "policy": self.policy})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        kept = json.loads(text)
        turns = tuple(tuple(ToolCall(**call) for call in turn) for turn in kept["turns"])
        return cls(turns=turns, policy=kept["policy"])


def usual(folder: Path) -> HumanInTheLoopHook:
    """Three tools are reviewed; read_data needs nobody."""
    return HumanInTheLoopHook(
        {
            "write_file": True,
            "execute_sql": "SQL needs approval",
            "send_email": ToolConfig(allowed_decisions=("approve", "edit", "reject", "respond")),
        }
    )


def asks_until_flipped(folder: Path) -> HumanInTheLoopHook:
    """send_email is reviewed until the condition changes its mind."""
    return HumanInTheLoopHook(
        {"send_email": ToolConfig(when=lambda call, state: not (folder / FLIPPED).exists())}
    )


def asks_for_a_minute(folder: Path) -> HumanInTheLoopHook:
    """execute_sql is reviewed within a minute, or rejected."""
    return HumanInTheLoopHook({"execute_sql": ToolConfig(timeout=60)})


POLICIES: dict[str, Callable[[Path], HumanInTheLoopHook]] = {
    "usual": usual,
    "flips": asks_until_flipped,
    "minute": asks_for_a_minute,
}


class Toolbox:
    """Tools that append one line to a file for each run, so that runs in other processes count too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def functions(self) -> tuple[Callable[..., str], ...]:
        """The tools themselves; name, signature and docstring are what a framework reads."""

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
    """What has run so far, in whatever process: tool and arguments."""
    path = folder / RUNS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(name, arguments) for name, arguments in map(json.loads, lines)]


def wait_until(holds: Callable[[], bool], limit_s: float = HOLD_LIMIT_S) -> None:
    """Wait for a condition; raises TimeoutError."""
    never = Event()
    for _ in range(int(limit_s / LOOK_AGAIN_S)):
        if holds():
            return
        never.wait(LOOK_AGAIN_S)
    raise TimeoutError


class Harness(ABC):
    """One framework with approval, as the contract drives it. A new one on the same folder is a restart.

    Everything durable lies in `folder`. A framework that is async wraps its calls in `asyncio.run`.
    """

    responds: ClassVar[bool] = True
    """Whether a person may answer in the tool's place."""
    renames: ClassVar[bool] = True
    """Whether an edit may lead to another tool."""

    def __init__(self, folder: Path, scene: Scene, *, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self.folder = folder
        self.scene = scene
        self.clock = clock
        self.hook = POLICIES[scene.policy](folder)
        self.tools = Toolbox(folder).functions

    @abstractmethod
    def start(self, thread_id: str) -> InterruptionMetadata | None:
        """Send a message to the thread: what waits for a person then, or None if the agent has finished."""

    @abstractmethod
    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        """Answer what waits: what waits then, or None. Raises a HookError for what cannot be."""

    @abstractmethod
    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        """Send a message to a new thread and stream: the interruptions that came by."""

    @abstractmethod
    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        """What the model was told about its calls, in the order it reads them: call id and text."""

    def close(self) -> None:
        """Give back what the harness holds."""
        return


def resume_elsewhere(
    harness: type[Harness], folder: Path, scene: Scene, thread_id: str, feedback: dict[str, Any] | None
) -> "subprocess.Popen[str]":
    """Resume a thread in a new process; `check_outcome` waits for it."""
    where = f"{harness.__module__}:{harness.__qualname__}"
    # Not as -m: the module would be there twice, and its scenes would not be the harness's scenes.
    start = f"import sys; from {__name__} import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", start, where, str(folder), scene.to_json(), thread_id]
    return subprocess.Popen(  # noqa: S603 - our own module
        [*command, json.dumps(feedback)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def outcome_of(process: "subprocess.Popen[str]") -> str:
    """How a resume elsewhere ended: "finished", "waiting", or the code of a HookError."""
    try:
        said, complaints = process.communicate(timeout=CHILD_LIMIT_S)
    finally:
        process.kill()
    if process.returncode:
        raise RuntimeError(complaints)
    return said.split()[-1]


def main(where: str, folder: str, scene: str, thread_id: str, feedback: str) -> None:
    """Resume one thread and print how that ended."""
    module, _, name = where.partition(":")
    made: Harness = getattr(importlib.import_module(module), name)(Path(folder), Scene.from_json(scene))
    try:
        print("finished" if made.resume(thread_id, json.loads(feedback)) is None else "waiting")  # noqa: T201
    except HookError as error:
        print(error.code)  # noqa: T201
    finally:
        made.close()
