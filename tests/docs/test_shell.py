"""The commands of the README and the tutorial, run one after the other as a reader would."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.stage import find_free_port
from tests.docs.markdown import ROOT, blocks

TUTORIAL = ROOT / "docs" / "tutorial.md"
README = ROOT / "README.md"
STRICT = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
PATIENCE_S = 90

# What a reader of the README does with eyes and hands.
ONCE_READY = "curl -fsS --retry 30 --retry-delay 1 --retry-all-errors http://127.0.0.1:8400/readyz\n"
PRESS_CONFIRM = """
LINK=$(python3 -c 'import json; print(json.load(open("case.json"))["hitl"]["review_url"])')
curl -fsS -o /dev/null "${LINK/\\?//respond?}" -d '{"action": "confirm"}' -H "Content-Type: application/json"
"""


def run(script: str, folder: Path) -> str:
    """Run the script in the folder, with a server on a free port; returns what it printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{inherited['PATH']}"
    outcome = subprocess.run(
        ["bash", "-c", STRICT + script.replace("8400", "$PLACET_PORT")],
        check=False,
        cwd=folder,
        env={**inherited, "PATH": path, "PLACET_PORT": str(find_free_port())},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert outcome.returncode == 0, f"{outcome.stdout}\n{outcome.stderr}"
    return outcome.stdout


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a reader sees who follows the whole tutorial."""
    folder = tmp_path_factory.mktemp("tutorial")
    (receiver,) = blocks(TUTORIAL, "python")
    port = str(find_free_port())
    (folder / "receiver.py").write_text(receiver.replace("8401", port))
    return run("\n".join(blocks(TUTORIAL, "bash")).replace("8401", port), folder)


@pytest.mark.parametrize(
    "seen",
    [
        '{"status":"ready"}',
        "/review/review_",
        '"status":"pending"',
        "304\n",
        "completed\napprove\n",
        '"error":"duplicate_submission"',
        "event: review.completed\n",
        "genuine: review.completed select\n",
        "Valid: approve on review_",
        "It is not what was decided.",
        "review.created",
    ],
)
def test_the_tutorial_shows_what_it_promises(tutorial: str, seen: str):
    assert seen in tutorial


def test_the_first_decision_of_the_readme_can_be_made(tmp_path):
    serve, ask, poll = blocks(README, "bash")
    seen = run(serve + ONCE_READY + ask + PRESS_CONFIRM + poll, tmp_path)
    assert '"status": "human_input_required"' in seen
    assert '"status": "completed"' in seen
    assert '"action": "confirm"' in seen


def test_the_readme_names_the_two_commands():
    commands = "".join(blocks(README, "sh"))
    assert "make demo\n" in commands
    assert "make test\n" in commands
