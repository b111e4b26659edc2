"""The commands that the docs and the skill for agents show, run as their reader would."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from examples.stage import find_free_port
from tests.cli.asking import Desk
from tests.cli.forked_command import search_path
from tests.cli.process import ServerProcess, placet, serving
from tests.docs.markdown import ROOT, blocks

GATE_PAGE = ROOT / "docs" / "howto" / "approve-claude-code.md"
PAGE = ROOT / "docs" / "howto" / "agents-that-run-commands.md"
SKILL = ROOT / "src" / "placet" / "cli" / "agent_skill.md"
PATIENCE_S = 90
STRICT = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
# What a reader does with eyes and hands.
APPROVE = """
until LINK=$(grep -ho 'http://[^ ]*/review/[^ ]*' told.txt); do sleep 0.1; done
LINK="${LINK/\\?//respond?}"
curl -fsS -o approved.json "$LINK" -d '{"action": "approve"}' -H "Content-Type: application/json"
wait %2
"""
ASKED = [
    line
    for page in (PAGE, SKILL)
    for text in blocks(page, "sh")
    for line in text.splitlines()
    if line.startswith("placet ask")
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        server.url()
        yield server


def run(script: str, folder: Path, **env: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    own = {
        "PATH": search_path(),
        "XDG_STATE_HOME": str(folder / "state"),
        "PLACET_PORT": str(find_free_port()),
    }
    done = subprocess.run(
        ["bash", "-c", STRICT + script.replace("8400", "$PLACET_PORT")],
        check=False,
        cwd=folder,
        env={**inherited, **own, **env},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_page_about_claude_code_leads_to_a_gate_that_denies(tmp_path: Path):
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "CLAUDE_CONFIG_DIR": ""}
    serve, policy, install = blocks(GATE_PAGE, "bash")
    run(serve + policy.replace("<<'END'", "<<END") + install, tmp_path, **home)  # fails if doctor does
    assert "gate run claude-code" in (tmp_path / ".claude" / "settings.json").read_text()


@pytest.mark.parametrize(
    ("host", "file"),
    [
        ("codex", ".codex/hooks.json"),
        ("opencode", ".config/opencode/plugins/placet-gate.js"),
        ("cursor", ".cursor/hooks.json"),
        ("antigravity", ".gemini/config/hooks.json"),
        ("gemini-cli", ".gemini/settings.json"),
    ],
)
def test_the_page_about_a_coding_agent_leads_to_a_gate_that_denies(host: str, file: str, tmp_path: Path):
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "CODEX_HOME": "", "GEMINI_CLI_HOME": ""}
    serve, policy, _ = blocks(GATE_PAGE, "bash")
    (install,) = blocks(GATE_PAGE.with_name(f"approve-{host}.md"), "bash")
    run(serve + policy.replace("<<'END'", "<<END") + install, tmp_path, **home)
    assert f"gate run {host}" in (tmp_path / file).read_text()


def test_the_page_leads_to_an_answer(tmp_path: Path):
    ask, pending, skill = blocks(PAGE, "bash")
    run(ask.replace("> answer.json &", "> answer.json 2> told.txt &") + APPROVE + pending + skill, tmp_path)
    answer = msgspec.json.decode((tmp_path / "answer.json").read_bytes())
    (shown,) = (msgspec.json.decode(text) for text in blocks(PAGE, "json"))
    assert {**answer, "case_id": shown["case_id"]} == shown
    assert (tmp_path / "SKILL.md").read_text("utf-8") == SKILL.read_text("utf-8")


@pytest.mark.parametrize("line", ASKED)
def test_every_question_shown_can_be_asked(line: str, server: ServerProcess, tmp_path: Path):
    desk = Desk(tmp_path, server)
    for name in ("reply.txt", "error.txt"):
        (tmp_path / name).write_text("Something to read.")
    words = shlex.split(line)[1:]
    asked = placet(tmp_path, *words, "--max-wait", "0", env=desk.env)
    assert asked.returncode == 13, asked.stderr
    assert msgspec.json.decode(asked.stdout)["status"] == "pending"


def test_the_skill_has_front_matter_that_yaml_reads():
    _, front, body = SKILL.read_text("utf-8").split("---\n", 2)
    told = yaml.safe_load(front)
    assert set(told) == {"name", "description"}
    assert len(told["description"]) <= 1024
    assert body.strip().startswith("# Ask a person")


@pytest.mark.parametrize("page", [PAGE, SKILL], ids=["page", "skill"])
@pytest.mark.parametrize("code", [0, 1, 2, 10, 11, 12, 13])
def test_every_exit_code_is_told(page: Path, code: int):
    assert f"| {code} |" in page.read_text("utf-8")
