"""Programs of users under pyright; `make lint` runs mypy on them."""

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "user_programs"
TIMEOUT_S = 400
REFUSED = re.compile(r"# type: ignore\[[\w, -]+\]  # (?P<rules>\w[\w ]+)$")
SETTINGS = {"enableTypeIgnoreComments": False}
"""These comments are for mypy, which fails where one stands in a line without an error."""

Problems = dict[tuple[str, int], set[str]]
"""File name and line -> the rules that it breaks."""


def run_pyright(folder: Path) -> Problems:
    """Run it on a copy, so that it does not read the settings of this project."""
    shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
    (folder / "pyrightconfig.json").write_text(json.dumps(SETTINGS))
    run = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    found: Problems = defaultdict(set)
    for each in json.loads(run.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            place = Path(each["file"]).name, each["range"]["start"]["line"] + 1
            found[place].add(each.get("rule", "syntax"))
    return dict(found)


def read_expected() -> Problems:
    """Return the marked lines of the wrong programs, with the rules of which at least one is expected."""
    return {
        (path.name, number): set(marked["rules"].split())
        for path in (PROGRAMS / "refused").glob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (marked := REFUSED.search(line)) is not None
    }


@pytest.mark.timeout(TIMEOUT_S)
def test_right_programs_pass_and_wrong_ones_fail_where_they_are_wrong(tmp_path: Path) -> None:
    expected, found = read_expected(), run_pyright(tmp_path)
    assert len(expected) > 40
    assert sorted(found) == sorted(expected)
    assert [place for place, rules in expected.items() if not rules & found[place]] == []
