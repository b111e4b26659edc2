"""`placet gate install`, `uninstall`, `doctor` and `check`, in home folders of their own."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from placet.hook.coding_agents.claude_code import CODING_AGENT
from tests.cli.forked_command import INSTALLED
from tests.cli.process import environment
from tests.waiting import PATIENCE_S

OTHERS: dict[str, Any] = {
    "model": "opus",
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check"}]}]},
}


class ScratchHome:
    """A home folder in which the command runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / ".claude" / "settings.json"
        self.policy = folder / ".config" / "placet" / "gate.toml"
        self.policy.parent.mkdir(parents=True)
        self.policy.write_text("")
        self.env = {"HOME": str(folder), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "CLAUDE_CONFIG_DIR": ""}

    def write(self, text: str) -> bytes:
        self.settings.parent.mkdir(exist_ok=True)
        self.settings.write_text(text, newline="")
        return self.settings.read_bytes()

    def gate(
        self,
        command: str,
        *arguments: str,
        answer: str = "",
        agent: str = "claude-code",
        env: dict[str, str] | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [INSTALLED, "gate", command, agent, *arguments],
            cwd=self.folder,
            env=environment({**self.env, **(env or {})}),
            input=answer,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S * 2,
            check=False,
        )

    def gate_well(self, command: str, *arguments: str, **options: Any) -> str:
        ran = self.gate(command, *arguments, **options)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def list_events(self) -> list[str]:
        """The events for which our hooks are in the settings."""
        return [hook.event for hook in CODING_AGENT.find_hooks(json.loads(self.settings.read_bytes()))]


@pytest.fixture
def home(tmp_path: Path) -> ScratchHome:
    return ScratchHome(tmp_path)


@pytest.mark.parametrize(
    "before",
    [
        *(None, "", "{}", json.dumps(OTHERS), json.dumps(OTHERS, indent=4) + "\n", '{\n\t"hooks": {}\n}'),
        '\ufeff{\r\n  "model": "opus"\r\n}\r\n',
    ],
)
def test_uninstall_restores_the_file_byte_by_byte(home: ScratchHome, before: str | None) -> None:
    written = None if before is None else home.write(before)
    home.gate_well("install", "--yes")
    assert home.list_events() == list(CODING_AGENT.events)
    if before and "\r" in before:
        assert b"\n" not in home.settings.read_bytes().replace(b"\r\n", b"")
    home.gate_well("install", "--yes", "--wait", "20m")
    home.gate_well("uninstall", "--yes")
    assert (home.settings.read_bytes() if home.settings.exists() else None) == written


def test_what_others_have_changed_since_stays(home: ScratchHome) -> None:
    home.write(json.dumps(OTHERS))
    home.gate_well("install", "--yes")
    settings = json.loads(home.settings.read_text())
    home.write(json.dumps({**settings, "theme": "dark"}))
    home.gate_well("uninstall", "--yes")
    assert json.loads(home.settings.read_text()) == {**OTHERS, "theme": "dark"}


def test_the_change_is_shown_and_nothing_is_written_without_a_yes(home: ScratchHome) -> None:
    before = home.write(json.dumps(OTHERS, indent=2) + "\n")
    for answer in ("n\n", ""):
        refused = home.gate("install", answer=answer)
        assert '+    "PermissionRequest": [' in refused.stdout
        assert not any(line.startswith("-") for line in refused.stdout.splitlines()[2:] if line != "-    ]")
        assert home.settings.read_bytes() == before
    assert "Installed." in home.gate("install", answer="y\n").stderr


def test_installing_again_changes_nothing(home: ScratchHome) -> None:
    home.gate_well("install", "--yes")
    before = home.settings.read_bytes()
    again = home.gate("install", "--yes")
    assert (again.returncode, again.stdout) == (0, "")
    assert "nothing to change" in again.stderr
    assert home.settings.read_bytes() == before


def test_the_host_waits_longer_than_the_hook(home: ScratchHome) -> None:
    home.gate_well("install", "--yes", "--wait", "2h")
    for hook in CODING_AGENT.find_hooks(json.loads(home.settings.read_text())):
        assert hook.timeout_s == 2 * 3600 + 60
        assert "--wait 2h" in hook.command


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', '{"a": 1, "a": 2}', "// x\n{}"]
)
def test_settings_that_are_not_understood_are_not_changed(home: ScratchHome, text: str) -> None:
    before = home.write(text)
    for command in ("install", "uninstall"):
        refused = home.gate(command, "--yes")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Nothing was changed." in refused.stderr
        assert home.settings.read_bytes() == before


def test_comments_stay_where_the_host_reads_them(home: ScratchHome) -> None:
    before = '// mine\n{\n  "theme": "dark", // nice\n  "tools": {"allowed": ["a", "b"]} // few\n}\n'
    assert "Claude Code reads no file with comments" in write_and_install(home, before).stderr
    path = home.folder / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(before)
    shown = home.gate_well("install", "--yes", agent="gemini-cli", env={"GEMINI_CLI_HOME": ""})
    assert [line for line in shown.splitlines()[2:] if line.startswith("-")] == [
        '-  "tools": {"allowed": ["a", "b"]} // few'
    ]
    installed = path.read_text()
    assert installed.startswith(before.removesuffix(" // few\n}\n") + ", // few\n")
    path.write_text(installed.replace("dark", "light"))
    home.gate_well("uninstall", "--yes", agent="gemini-cli", env={"GEMINI_CLI_HOME": ""})
    assert path.read_text() == before.replace("dark", "light")


def write_and_install(home: ScratchHome, text: str) -> "subprocess.CompletedProcess[str]":
    home.write(text)
    return home.gate("install", "--yes")


def test_a_link_and_the_rights_of_the_file_stay(home: ScratchHome) -> None:
    home.write("{}")
    real = home.folder / "dotfiles.json"
    home.settings.rename(real)
    home.settings.symlink_to(real)
    real.chmod(0o640)
    home.gate_well("install", "--yes")
    assert home.settings.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert home.list_events() == list(CODING_AGENT.events)


def test_a_policy_with_a_mistake_is_not_installed(home: ScratchHome) -> None:
    policy = home.folder / "gate.toml"
    policy.write_text("[[allow]]\ntol = 1")
    refused = home.gate("install", "--yes", "--config", str(policy))
    assert refused.returncode == 1
    assert "unknown tol" in refused.stderr
    assert not home.settings.exists()


def test_install_needs_a_policy_file(home: ScratchHome) -> None:
    home.policy.unlink()
    refused = home.gate("install", "--yes")
    assert refused.returncode == 1
    assert f"{home.policy} does not exist. Write it first" in refused.stderr
    assert not home.settings.exists()


def test_codex_has_a_file_of_its_own_and_a_step_that_only_its_user_can_take(home: ScratchHome) -> None:
    claude = home.write(json.dumps(OTHERS))
    installed = home.gate("install", "--yes", agent="codex", env={"CODEX_HOME": ""})
    assert "enter /hooks, and trust both hooks" in installed.stderr
    found = list_results(home.gate("doctor", agent="codex", env={"CODEX_HOME": ""}).stdout)
    assert found.pop("the server accepts the key") == "FAILED"
    assert set(found.values()) == {"ok"}
    assert home.gate("uninstall", "--yes", agent="codex", env={"CODEX_HOME": ""}).returncode == 0
    assert not (home.folder / ".codex" / "hooks.json").exists()
    assert home.settings.read_bytes() == claude


# Doctor


def list_results(printed: str) -> dict[str, str]:
    lines = [line.split(maxsplit=1) for line in printed.splitlines()[1:]]
    return {rest.split("  ")[0]: result for result, rest in lines}


def test_doctor_sees_denials_without_a_server(home: ScratchHome) -> None:
    home.gate_well("install", "--yes")
    ran = home.gate("doctor")
    found = list_results(ran.stdout)
    assert ran.returncode == 1
    assert found.pop("the server accepts the key") == "FAILED"
    assert set(found.values()) == {"ok"}
    for event in CODING_AGENT.events:
        for check in (
            *("without a server", "input that it cannot read", "if placet cannot start", "if it is killed"),
        ):
            assert f"{event}: denies {check}" in found


def test_doctor_misses_a_hook_that_is_not_installed(home: ScratchHome) -> None:
    ran = home.gate("doctor")
    assert ran.returncode == 1
    assert list_results(ran.stdout)["PermissionRequest: installed"] == "FAILED"


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda hook: {**hook, "timeout": 60}, "the host waits long enough"),
        (lambda hook: {"type": "command", "command": hook["command"]}, "the host waits long enough"),
        (lambda hook: {**hook, "command": f"true || {hook['command']}"}, "denies without a server"),
        (
            lambda hook: {**hook, "command": hook["command"].partition(" && ")[0]},
            "denies if it is killed",
        ),
        (lambda hook: {**hook, "command": f"{hook['command']}; exit 1"}, "denies without a server"),
    ],
)
def test_doctor_finds_a_hook_that_would_fail_open(home: ScratchHome, change: Any, check: str) -> None:
    home.gate_well("install", "--yes")
    settings = json.loads(home.settings.read_text())
    group = settings["hooks"]["PermissionRequest"][0]
    group["hooks"] = [change(group["hooks"][0])]
    home.write(json.dumps(settings))
    ran = home.gate("doctor")
    assert ran.returncode == 1
    assert list_results(ran.stdout)[f"PermissionRequest: {check}"] == "FAILED"


def test_doctor_sees_that_hooks_are_switched_off(home: ScratchHome) -> None:
    home.write('{"disableAllHooks": true}')
    home.gate_well("install", "--yes")
    assert list_results(home.gate("doctor").stdout)["hooks are switched on"] == "FAILED"


# Check


def test_check_shows_what_the_policy_says_about_a_session(home: ScratchHome) -> None:
    calls = [("Bash", {"command": "git status"}), ("Bash", {"command": "rm x"}), ("Read", {"file_path": "a"})]
    lines = [
        {
            "cwd": "/srv/p",
            "message": {"content": [{"type": "tool_use", "id": "1", "name": name, "input": given}]},
        }
        for name, given in calls
    ]
    transcript = home.folder / "session.jsonl"
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    policy = home.folder / "gate.toml"
    policy.write_text('[[allow]]\ncommand = "git *"\n[[deny]]\ncommand = "rm *"')
    printed = home.gate_well("check", str(transcript), "--config", str(policy), "--json")
    assert [(one["what"], one["effect"]) for one in json.loads(printed)] == [
        ("git status", "allow"),
        ("rm x", "deny"),
        ("/srv/p/a", None),
    ]
    table = home.gate("check", str(transcript), "--config", str(policy))
    assert "By deny rule 1 of the policy." in table.stdout
    assert table.stderr == "allow: 1, deny: 1, no rule: 1\n"


def test_check_says_which_file_is_missing(home: ScratchHome) -> None:
    refused = home.gate("check", "missing.jsonl")
    assert refused.returncode == 1
    assert "missing.jsonl cannot be read" in refused.stderr
