"""Programs of users under mypy and pyright: right ones pass, and wrong ones fail at the wrong line."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "user_programs"
CACHE = Path(__file__).parent.parent.parent / ".mypy_cache" / "user_programs"
"""Kept apart from the cache of `make lint`, which may run at the same time."""
TIMEOUT_S = 400
REFUSED = re.compile(r"# refused: (?P<mypy>[\w -]+), (?P<pyright>[\w ]+)$")
MYPY = ["-m", "mypy", "--config-file", "", "--strict", "--output", "json", "--cache-dir", str(CACHE)]
PYRIGHT = ["-m", "pyright", "--outputjson", "--pythonpath", sys.executable]

Problems = dict[tuple[str, int], set[str]]
"""File name and line -> the codes of its errors."""


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Problems]:
    """Run both checkers, once, over all programs."""
    files = [str(path) for path in sorted(PROGRAMS.glob("*/*.py"))]
    elsewhere = tmp_path_factory.mktemp("types")  # so that neither reads the settings of this project
    started = {
        name: subprocess.Popen(
            [sys.executable, *arguments, *files], cwd=elsewhere, stdout=subprocess.PIPE, text=True
        )
        for name, arguments in (("mypy", MYPY), ("pyright", PYRIGHT))
    }
    said = {name: process.communicate(timeout=TIMEOUT_S)[0] for name, process in started.items()}
    return {"mypy": read_mypy(said["mypy"]), "pyright": read_pyright(said["pyright"])}


def read_mypy(said: str) -> Problems:
    lines = map(json.loads, said.splitlines())
    return collect(
        (each["file"], each["line"], each["code"]) for each in lines if each["severity"] == "error"
    )


def read_pyright(said: str) -> Problems:
    found = json.loads(said)["generalDiagnostics"]
    return collect(
        (each["file"], each["range"]["start"]["line"] + 1, each.get("rule", "syntax"))
        for each in found
        if each["severity"] == "error"
    )


def collect(found: Iterable[tuple[str, int, str]]) -> Problems:
    read: Problems = defaultdict(set)
    for file, line, code in found:
        read[Path(file).name, line].add(code)
    return dict(read)


def read_expected(checker: str) -> Problems:
    """Return the marked lines of the wrong programs, with the codes of which at least one is expected."""
    return {
        (path.name, number): set(marked[checker].split())
        for path in (PROGRAMS / "refused").glob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (marked := REFUSED.search(line)) is not None
    }


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_right_programs_pass_and_wrong_ones_fail_where_they_are_wrong(
    checker: str, problems: dict[str, Problems]
) -> None:
    expected, found = read_expected(checker), problems[checker]
    assert len(expected) > 40
    assert sorted(found) == sorted(expected)
    assert [place for place, codes in expected.items() if not codes & found[place]] == []
