"""`from placet.hook import *` works with the plain installation."""

import subprocess
import sys

import placet.hook
from tests.waiting import PATIENCE_S

PROGRAM = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from placet.hook import *
print(*sorted(name for name in globals() if name.endswith("Saver")))
assert HumanInTheLoopHook and ReactAgent and requires_approval
assert not any(name.partition(".")[0] in {blocked!r} for name in sys.modules)
"""


def list_savers(*blocked: str) -> list[str]:
    program = PROGRAM.format(blocked=set(blocked))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


def test_a_star_import_needs_no_extra() -> None:
    extras = ("langgraph", "langchain", "langchain_core", "redis", "psycopg", "psycopg_pool", "apsw")
    assert list_savers(*extras) == ["FileSaver", "MemorySaver", "Saver"]


def test_a_star_import_brings_what_is_installed() -> None:
    assert list_savers("langgraph") == [
        "FileSaver", "MemorySaver", "PostgresSaver", "RedisSaver", "Saver", "SqliteSaver",
    ]  # fmt: skip


def test_all_names_are_listed() -> None:
    assert dir(placet.hook) == sorted(placet.hook._EXPORTS)
