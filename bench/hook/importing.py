"""What it costs to import the hook, in a fresh interpreter; and that nothing optional comes along."""

import json
import statistics
import subprocess
import sys

from bench.figures import Cycle

INTERPRETERS = 9
PROGRAM = """
import json, sys, time
began, used = time.perf_counter(), time.process_time()
from placet.hook import ReactAgent
took = (time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000
known = sys.stdlib_module_names | {"placet", "__main__"}
print(json.dumps([*took, sorted({name.partition(".")[0] for name in sys.modules} - known)]))
"""


class ForeignImport(Exception):
    """Importing the hook imported a package that is not there in every installation."""


def measure(interpreters: int = INTERPRETERS) -> Cycle:
    """Median of several interpreters, after one that leaves its byte code; raises ForeignImport."""
    taken = [_import() for _ in range(interpreters + 1)][1:]
    return Cycle(
        name="import of placet.hook.ReactAgent",
        storage="",
        calls=0,
        wall_ms=statistics.median(wall for wall, _ in taken),
        cpu_ms=statistics.median(cpu for _, cpu in taken),
    )


def _import() -> tuple[float, float]:
    printed = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    wall, cpu, foreign = json.loads(printed.stdout)
    # What installed packages load by themselves at start-up is not ours.
    if unexpected := [name for name in foreign if not name.startswith("_")]:
        raise ForeignImport(", ".join(unexpected))
    return wall, cpu
