"""The wheel, installed alone and with each extra into a clean environment, and used there."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from placet.cli.main import COMMANDS
from placet.extras import NEEDED_BY, PACKAGES
from scripts.compat import CORE, OWN_ENVIRONMENT, TRIALS

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
UV = Path(sys.executable).with_name("uv")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = sorted(PYPROJECT["project"]["optional-dependencies"])
pytestmark = pytest.mark.timeout(300)
MOST_DISTRIBUTIONS = 16
MOST_BYTES = 45_000_000
WITHIN_S = 280  # a framework is compiled when it is first imported
SERVER_DISTRIBUTIONS = {"aiohttp", "babel", "jinja2", "starlette", "uvicorn"}
SMALL = {"langchain", "mcp", "postgres", "pydantic-ai", "redis", "sqlite"}
"""Extras of an agent process: they do not bring the server along."""

SHOW_HELP = """
import sys
from placet.cli import main
for command in sys.argv[1:]:
    sys.argv = ["placet", command, "--help"]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, command
"""

Install = Callable[[str | None], "Environment"]


class Environment:
    """A virtual environment that holds the wheel and one extra, at the locked versions."""

    def __init__(self, folder: Path, wheel: Path, extra: str | None) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        run(UV, "venv", "--quiet", "--python", sys.executable, folder)
        wanted = f"placet{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"
        lock = ROOT / "requirements" / "test.txt"
        run(UV, "pip", "install", "--quiet", "--python", self.python, "--constraint", lock, wanted)

    def python_prints(self, *arguments: object) -> str:
        """Run Python isolated from this checkout; return what it prints, and fail if it fails."""
        return run(self.python, "-I", *arguments, cwd=self.folder)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command."""
        return subprocess.run(
            [str(self.folder / "bin" / "placet"), *arguments],
            cwd=self.folder,
            env=clean_environ(),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

    @property
    def packages(self) -> Path:
        (found,) = (self.folder / "lib").glob("python*/site-packages")
        return found

    def distributions(self) -> set[str]:
        names = (path.name.partition("-")[0] for path in self.packages.glob("*.dist-info"))
        return {name.lower().replace("_", "-") for name in names}

    def size(self) -> int:
        """Return the bytes of the installed files, without compiled byte code."""
        files = (path for path in self.packages.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return sum(path.stat().st_size for path in files)


def clean_environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLACET_", "PYTHON"))}
    return {name: value for name, value in kept.items() if name not in ("VIRTUAL_ENV", "UV_PYTHON")}


def run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = (UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable)
    run(*build, "--out-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    folder = tmp_path_factory.mktemp("environments")

    @cache
    def install(extra: str | None) -> Environment:
        return Environment(folder / (extra or "core"), wheel, extra)

    yield install
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def core(environment: Install) -> Environment:
    return environment(None)


def test_a_plain_installation_is_small_and_has_no_part_of_the_server(core: Environment) -> None:
    found = core.distributions() - {"placet"}
    assert len(found) <= MOST_DISTRIBUTIONS, sorted(found)
    assert not found & SERVER_DISTRIBUTIONS
    assert core.size() <= MOST_BYTES


def test_a_plain_installation_runs_an_agent_with_a_tool_that_waits(core: Environment, tmp_path: Path) -> None:
    core.python_prints(PROGRAMS / "use_core.py", tmp_path)


def test_a_plain_installation_has_the_commands_of_an_agent(core: Environment) -> None:
    assert core.command("--version").returncode == 0
    overview = core.command("--help")
    assert (overview.returncode, overview.stderr) == (0, "")
    assert "serve" in overview.stdout
    core.python_prints(
        "-c", SHOW_HELP, "ask", "request", "wait", "pending", "verify", "mcp", "mcp-gate", "settings"
    )
    assert core.command("pending", "list", "--json").stdout.strip() == "[]"
    assert core.command("skill", "agent").returncode == 0


@pytest.mark.parametrize("call", ["relay agent list", "relay approval list", "policy list", "audit list"])
def test_a_plain_installation_calls_the_relay_of_a_server(core: Environment, call: str) -> None:
    done = core.command(*call.split(), "--server", "http://127.0.0.1:1", "--key", "k")
    assert done.stderr.startswith("placet: The server at http://127.0.0.1:1 cannot be reached")


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ("serve", "server"),
        ("demo", "server"),
        ("migrate", "server"),
        ("relay agent list", "relay"),
        ("policy list", "relay"),
        ("policy test policies.toml --text x", "relay"),
        ("audit list", "relay"),
        ("mcp", "mcp"),
        ("mcp-gate -- x", "mcp"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(core: Environment, call: str, extra: str) -> None:
    done = core.command(*call.split())
    name = call.split(maxsplit=1)[0]
    assert done.stderr == f'placet {name} needs the extra "{extra}": pip install "placet[{extra}]"\n'
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_works_or_names_its_extra_in_one_line(core: Environment, name: str) -> None:
    done = core.command(name, "--help")
    line = rf'placet {name} needs the extra "([\w-]+)": pip install "placet\[\1\]"\n'
    if done.returncode:
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(line, done.stderr)
    else:
        assert done.stdout.startswith(f"Usage: placet {name} ")


def test_each_module_imports_or_names_its_extra(core: Environment) -> None:
    found: dict[str, Any] = json.loads(core.python_prints(PROGRAMS / "import_everything.py"))
    assert found["failed"] == {}
    assert {module for module in NEEDED_BY if "*" not in module} <= set(found["needed"])


def test_a_public_name_names_the_extra_that_it_needs(core: Environment) -> None:
    refused: dict[str, str] = json.loads(
        core.python_prints("-W", "error", PROGRAMS / "import_public_names.py")
    )
    assert refused["placet.Placet"] == 'placet.embed needs the extra "server": pip install "placet[server]"'
    lines = re.compile(r'placet[\w.]* needs the extra "([\w-]+)": pip install "placet\[\1\]"')
    assert {name: line for name, line in refused.items() if not lines.fullmatch(line)} == {}


@pytest.mark.parametrize("extra", [extra for extra in EXTRAS if extra not in OWN_ENVIRONMENT])
def test_an_extra_provides_the_modules_that_need_it(environment: Install, extra: str) -> None:
    modules = [module for module, needed in NEEDED_BY.items() if needed == extra and "*" not in module]
    imports = "".join(f"import {module}\n" for module in modules)
    check = f"from placet.extras import is_available\nassert is_available({extra!r})"
    environment(extra).python_prints("-c", imports + check)
    if extra in SMALL:
        assert not environment(extra).distributions() & {"aiohttp", "babel", "jinja2"}


def test_the_server_extra_serves_the_demo(environment: Install) -> None:
    installed = environment("server")
    process = subprocess.Popen(
        [str(installed.folder / "bin" / "placet"), "demo", "--port", "0"],
        cwd=installed.folder,
        env={**clean_environ(), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in process.stdout)
        url = next(filter(None, lines))[0]
        program = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=20).status)"
        assert installed.python_prints("-c", program, url).strip() == "200"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WITHIN_S)


def test_the_table_and_the_metadata_list_the_same_extras() -> None:
    assert sorted(PACKAGES) == EXTRAS
    assert set(NEEDED_BY.values()) <= set(EXTRAS)


def test_every_extra_is_in_the_lock_or_has_an_environment_of_its_own() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    found = re.search(r"LOCKED_EXTRAS := (.+)", makefile)
    assert found is not None
    assert sorted([*found[1].split(), *OWN_ENVIRONMENT]) == EXTRAS


def test_the_bounds_of_each_extra_and_of_a_plain_installation_are_tried() -> None:
    assert TRIALS.keys() == {CORE, *EXTRAS}
    for trial in TRIALS.values():
        assert [pattern for pattern in trial.tests if not any(ROOT.glob(pattern))] == []
