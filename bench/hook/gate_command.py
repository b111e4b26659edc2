"""What the command hook of `placet gate` costs for a call that the policy allows, start included."""

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import Cycle

CALLS = 9
PROGRAM = str(Path(sys.executable).with_name("placet"))
COMMAND = (PROGRAM, "gate", "run", "claude-code", "--event", "PreToolUse", "--config")
POLICY = '[[deny]]\ncommand = "rm *"\n[[allow]]\ncommand = ["git status", "git diff *"]\n'
SENT = {
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "git status && git diff"},
    "cwd": "/srv",
}


class WrongAnswer(Exception):
    """The hook did not allow the call."""


def measure(folder: Path, calls: int = CALLS) -> Cycle:
    """Median of several calls, after one that leaves its byte code; raises WrongAnswer."""
    policy = folder / "gate.toml"
    policy.write_text(POLICY)
    taken = [_call(policy) for _ in range(calls + 1)][1:]
    return Cycle(
        name="a call that placet gate allows",
        storage="",
        calls=1,
        wall_ms=statistics.median(wall for wall, _ in taken),
        cpu_ms=statistics.median(cpu for _, cpu in taken),
    )


def _call(policy: Path) -> tuple[float, float]:
    began, used = time.perf_counter(), _get_children_cpu_s()
    printed = subprocess.run(
        [*COMMAND, str(policy)], input=json.dumps(SENT).encode(), check=True, capture_output=True
    )
    took = (time.perf_counter() - began) * 1000, (_get_children_cpu_s() - used) * 1000
    if json.loads(printed.stdout)["hookSpecificOutput"]["permissionDecision"] != "allow":
        raise WrongAnswer(printed.stdout)
    return took


def _get_children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
