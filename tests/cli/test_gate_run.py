"""The hook of `placet gate`, run by its installed command against a real server, answered in the inbox."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from placet.hook.coding_agents.claude_code import CODING_AGENT
from placet.hook.coding_agents.host_calls import PROBE_TOOL
from placet.hook.coding_agents.registry import load_coding_agent
from tests.cli.gated_host import GatedHost, serving_an_inbox
from tests.cli.process import ServerProcess, environment, placet
from tests.hook.coding_agents.hook_input import build_input
from tests.waiting import PATIENCE_S

OTHER_HOOKS = [
    ("opencode", "tool.execute.before"),
    ("cursor", "preToolUse"),
    ("antigravity", "PreToolUse"),
    ("gemini-cli", "BeforeTool"),
]
CHANGE = {"action": "edit", "decision.1": "edit"}


def end(process: "subprocess.Popen[bytes]") -> Any:
    """What the host reads from the hook: None for no decision."""
    printed, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return json.loads(printed)["hookSpecificOutput"] if printed else None


def end_request(process: "subprocess.Popen[bytes]") -> Any:
    """The decision about a permission request."""
    said = end(process)
    assert said["hookEventName"] == "PermissionRequest"
    return said["decision"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    with serving_an_inbox(tmp_path_factory.mktemp("gate")) as opened:
        yield opened


@pytest.fixture
def host(server: tuple[ServerProcess, str], tmp_path: Path) -> Iterator[GatedHost]:
    gated = GatedHost(tmp_path, *server)
    yield gated
    gated.close()


# A person decides


def test_a_command_runs_after_a_person_approved_it_in_the_inbox(host: GatedHost) -> None:
    asking = host.ask("Bash", {"command": "make deploy"}, agent_type="Explore")
    page = host.open_page().text
    for shown in ("make deploy", "Claude Code", str(host.home), "Explore", "aeb40aef", socket.gethostname()):
        assert shown in page
    assert "without asking me" not in page  # no grant for a shell command
    host.answer(action="approve")
    assert end_request(asking) == {"behavior": "allow"}


def test_a_changed_command_is_passed_on(host: GatedHost) -> None:
    asking = host.ask("Bash", {"command": "make deploy", "timeout": 9})
    host.answer(**CHANGE, **{"edit.1.command": "make -n deploy"})
    decided = end_request(asking)
    assert decided == {"behavior": "allow", "updatedInput": {"command": "make -n deploy", "timeout": 9}}


def test_the_policy_denies_a_changed_command_too(host: GatedHost) -> None:
    host.allow('[[deny]]\ncommand = "rm *"')
    asking = host.ask("Bash", {"command": "make deploy"})
    host.answer(**CHANGE, **{"edit.1.command": "make && rm -rf x"})
    decided = end_request(asking)
    assert decided["behavior"] == "deny"
    assert "as the person changed it" in decided["message"]


def test_a_rejection_says_why(host: GatedHost) -> None:
    asking = host.ask("Bash", {"command": "make deploy"})
    host.answer(action="reject", **{"decision.1": "reject", "reason.1": "Not on a Friday"})
    assert end_request(asking) == {"behavior": "deny", "message": "Rejected by ada: Not on a Friday"}


def test_a_change_of_a_file_is_shown_as_a_diff(host: GatedHost) -> None:
    (host.home / "a.txt").write_text("one\ntwo\n")
    asking = host.ask("Write", {"file_path": "a.txt", "content": "one\n2\n"})
    page = host.open_page().text
    assert page.index("1 line added and 1 line removed") < page.index("File path")
    host.answer(action="approve")
    assert end_request(asking) == {"behavior": "allow"}


def test_a_question_of_the_agent_is_answered(host: GatedHost) -> None:
    questions = [{"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}]
    asking = host.ask("AskUserQuestion", {"questions": questions})
    host.answer(action="select", selected="2")
    assert end_request(asking)["updatedInput"] == {
        "questions": questions,
        "answers": {"Which colour?": "Blue"},
    }


def test_a_plan_is_sent_back(host: GatedHost) -> None:
    asking = host.ask("ExitPlanMode", {"plan": "# Plan\nEverything at once"}, permission_mode="plan")
    host.answer(action="edit", feedback="In smaller steps")
    decided = end_request(asking)
    assert decided == {
        "behavior": "deny",
        "message": "Changes to the plan requested by ada: In smaller steps",
    }


def test_a_pre_approved_call_asks_nobody(host: GatedHost) -> None:
    page = {"url": "https://example.com/a", "prompt": "Sum it up"}
    asking = host.ask("WebFetch", page)
    terms = {"grant.1.on": "yes", "grant.1.uses": "5", "grant.1.for": "1h"}
    host.answer(action="approve", **{"decision.1": "approve"}, **terms)
    assert end_request(asking) == {"behavior": "allow"}
    assert end_request(host.ask("WebFetch", page)) == {"behavior": "allow"}


def test_codex_gets_a_yes_or_a_no_and_nothing_else(host: GatedHost) -> None:
    asking = host.ask("Bash", {"command": "make", "description": "Need it"}, agent="codex")
    page = host.open_page().text
    assert "Codex wants to run: make" in page
    assert "Approve with changes" not in page
    host.answer(action="approve")
    assert end_request(asking) == {"behavior": "allow"}
    host.allow('[[ask]]\ntool = "Bash"')
    approved = host.start("PreToolUse", "Bash", {"command": "make"}, agent="codex")
    host.answer(action="approve")
    assert end(approved) is None
    changed = host.start("PreToolUse", "Bash", {"command": "make"}, agent="codex")
    host.answer(**CHANGE, **{"edit.1.command": "make -n"})
    assert end(changed)["updatedInput"] == {"command": "make -n"}


# The policy decides


def test_without_a_rule_the_host_goes_on_as_usual(host: GatedHost) -> None:
    assert end(host.start("PreToolUse", "Bash", {"command": "make"})) is None


def test_rules_decide_before_the_host_asks(host: GatedHost) -> None:
    host.allow('[[allow]]\ncommand = "git *"\n[[deny]]\ncommand = "rm *"\nreason = "Never."')
    allowed = end(host.start("PreToolUse", "Bash", {"command": "git status"}))
    assert allowed["permissionDecision"] == "allow"
    denied = end(host.start("PreToolUse", "Bash", {"command": "git status && rm x"}))
    assert denied["permissionDecision"] == "deny"
    assert denied["permissionDecisionReason"] == "The policy denies this. Never."
    assert end_request(host.ask("Bash", {"command": "rm x"}))["behavior"] == "deny"


def test_a_rule_asks_a_person_where_the_host_would_not(host: GatedHost) -> None:
    host.allow('[[ask]]\ntool = "Bash"')
    asking = host.start("PreToolUse", "Bash", {"command": "make"})
    host.answer(action="approve")
    assert end(asking)["permissionDecision"] == "allow"


def test_a_call_that_the_policy_allows_loads_no_http_client(host: GatedHost) -> None:
    host.allow('[[allow]]\ntool = "*"')
    program = (
        "import sys; from placet.cli import main\n"
        "sys.argv = ['placet', 'gate', 'run', 'claude-code', '--event', 'PreToolUse']\n"
        "try: main()\n"
        "finally: assert not {'httpx', 'placet.agent', 'placet.client', 'jinja2'} & sys.modules.keys()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=build_input("PreToolUse", "Read", {"file_path": "a"}),
        env=environment(host.env),
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert b'"allow"' in ran.stdout


# Nothing but a clear yes lets a call run


def test_nobody_answers_in_time(host: GatedHost) -> None:
    decided = end_request(host.ask("Bash", {"command": "make"}, wait="1s"))
    assert decided == {"behavior": "deny", "message": "Nobody answered within 1s, so this was not done."}
    host.until_nothing_waits()


def test_the_host_ends_the_hook(host: GatedHost) -> None:
    asking = host.ask("Bash", {"command": "make"})
    host.open_page()
    for pid in find_hook_processes(asking):
        os.kill(pid, signal.SIGTERM)
    assert end_request(asking)["message"].startswith("The gate was ended")
    assert host.until_closed()["status"] == "cancelled"


def test_a_killed_hook_is_a_denial(host: GatedHost) -> None:
    asking = host.ask("Bash", {"command": "make"})
    host.open_page()
    for pid in find_hook_processes(asking):
        os.kill(pid, signal.SIGKILL)
    decided = end_request(asking)
    assert decided["behavior"] == "deny"
    assert "placet gate doctor" in decided["message"]
    host.answer(action="reject")


@pytest.mark.parametrize(("name", "event"), OTHER_HOOKS)
def test_a_killed_hook_of_another_host_is_a_denial(host: GatedHost, name: str, event: str) -> None:
    host.allow('[[ask]]\ntool = "*"')
    agent = load_coding_agent(name)
    probe = json.dumps(agent.build_probe(event, "/srv")).replace(PROBE_TOOL, "Deploy").encode()
    asking = host.start(event, "", {}, agent=name, content=probe)
    host.open_page()
    for pid in find_hook_processes(asking):
        os.kill(pid, signal.SIGKILL)
    assert agent.is_denial(event, asking.communicate(timeout=PATIENCE_S)[0])
    host.answer(action="reject")


@pytest.mark.parametrize(("name", "event"), OTHER_HOOKS)
def test_a_call_that_is_too_large_is_a_denial_in_another_host(host: GatedHost, name: str, event: str) -> None:
    host.allow('[[ask]]\ntool = "*"')
    agent = load_coding_agent(name)
    probe = json.dumps(agent.build_probe(event, "/srv")).replace(PROBE_TOOL, "Deploy")
    content = probe.replace("placet gate doctor", "x" * 17_000_000).encode()
    asking = host.start(event, "", {}, agent=name, content=content)
    assert agent.is_denial(event, asking.communicate(timeout=PATIENCE_S)[0])


def test_an_answer_in_the_terminal_closes_the_question(host: GatedHost) -> None:
    transcript = host.home / "session.jsonl"
    used = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make"}}
    transcript.write_text(json.dumps({"message": {"content": [used]}}) + "\n")
    asking = host.ask("Bash", {"command": "make"}, transcript_path=str(transcript))
    host.open_page()
    with transcript.open("a") as stream:
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
        stream.write(json.dumps({"message": {"content": [result]}}) + "\n")
    assert end_request(asking)["behavior"] == "deny"
    assert host.until_closed()["reason"] == "Answered elsewhere, or the session ended."


def test_the_question_is_closed_when_the_host_has_ended(host: GatedHost) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait(PATIENCE_S)
    asked = placet(
        host.home,
        *("gate", "run", "claude-code", "--event", "PermissionRequest", "--host-process", str(gone.pid)),
        env=host.env,
        stdin=build_input("PermissionRequest", "Bash", {"command": "make"}).decode(),
    )
    assert '"deny"' in asked.stdout
    assert host.until_closed()["status"] == "cancelled"


@pytest.mark.parametrize(
    "policy",
    [
        'key_file = "{home}/wrong"',
        'key_file = "{home}/missing"',
        'server = "http://127.0.0.1:1"\nkey_file = "{home}/key"',
        'server = "http://192.0.2.1"\nkey_file = "{home}/key"',
        'server = "nonsense"\nkey_file = "{home}/key"',
        "",
    ],
)
@pytest.mark.parametrize("event", CODING_AGENT.events)
def test_a_server_that_cannot_be_asked_is_a_denial(host: GatedHost, event: str, policy: str) -> None:
    (host.home / "wrong").write_text("not-a-key")
    written = policy.format(home=host.home)
    if "server" not in written:
        written = f'server = "{host.server.url()}"\n{written}'
    host.policy.write_text(f'{written}\n[[ask]]\ntool = "Bash"')
    asking = host.start(event, "Bash", {"command": "make"})
    assert CODING_AGENT.is_denial(event, asking.communicate(timeout=PATIENCE_S)[0])


@pytest.mark.parametrize("variable", ["PYTHONHOME", "PLACET_SERVRE"])
@pytest.mark.parametrize("event", CODING_AGENT.events)
def test_a_hook_that_cannot_start_is_a_denial(host: GatedHost, event: str, variable: str) -> None:
    asking = host.start(event, "Bash", {"command": "make"}, env={variable: os.devnull})
    printed = asking.communicate(timeout=PATIENCE_S)[0]
    assert CODING_AGENT.is_denial(event, printed)
    assert b"placet gate doctor" in printed


def test_a_hook_that_cannot_start_reads_a_large_call_to_its_end(host: GatedHost) -> None:
    """A host may take a broken pipe for a failed hook, and go on."""
    large = {"file_path": "a", "content": "x" * 1_000_000}
    asking = host.start("PermissionRequest", "Write", large, env={"PYTHONHOME": os.devnull})
    assert CODING_AGENT.is_denial("PermissionRequest", asking.communicate(timeout=PATIENCE_S)[0])


def test_the_environment_of_a_project_cannot_choose_another_server(host: GatedHost) -> None:
    env = {"PLACET_SERVER": "http://127.0.0.1:1", "PLACET_KEY": "wrong", "XDG_CONFIG_HOME": "/nowhere"}
    asking = host.ask("Bash", {"command": "make"}, env=env)
    host.answer(action="approve")
    assert end_request(asking) == {"behavior": "allow"}


def test_a_silent_server_is_a_denial(host: GatedHost) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        host.policy.write_text(f'server = "{address}"\nkey_file = "{host.home}/key"')
        decided = end_request(host.ask("Bash", {"command": "make"}, wait="1s"))
    assert decided["behavior"] == "deny"


@pytest.mark.parametrize("policy", ["[[allow", "alow = 1", "\0"])
def test_a_policy_that_cannot_be_read_denies_everything(host: GatedHost, policy: str) -> None:
    command = host.install()
    host.policy.write_text(policy)
    for event in CODING_AGENT.events:
        ran = subprocess.run(
            ["/bin/sh", "-c", command[event]],
            input=build_input(event, "Read", {"file_path": "a"}),
            env=environment(host.env),
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
        )
        assert CODING_AGENT.is_denial(event, ran.stdout)


def test_a_call_that_is_too_large_for_the_server_is_a_denial(host: GatedHost) -> None:
    asking = host.ask("Write", {"file_path": "a", "content": "x" * 12_000_000})
    assert end_request(asking)["behavior"] == "deny"


def find_hook_processes(asking: "subprocess.Popen[bytes]") -> list[int]:
    """The processes of `placet gate run` below the shell of the hook."""
    listed = subprocess.run(["ps", "-eo", "pid=,pgid=,args="], capture_output=True, text=True, check=True)
    rows = (line.split(maxsplit=2) for line in listed.stdout.splitlines())
    return [
        int(pid)
        for pid, group, command in rows
        if int(group) == asking.pid and "python" in command and not command.startswith("/bin/sh")
    ]


def test_the_installed_command_needs_no_path(host: GatedHost) -> None:
    assert end(host.start("PreToolUse", "Bash", {"command": "make"}, env={"PATH": "/nowhere"})) is None


def test_the_key_is_not_in_the_settings(host: GatedHost) -> None:
    host.install()
    assert host.server.admin_key not in (host.home / ".claude" / "settings.json").read_text()


# What was decided before


def test_a_reviewer_sees_what_was_asked_before_in_this_session(host: GatedHost) -> None:
    first = host.ask("Bash", {"command": "npm test"})
    assert "approved" not in host.open_page().text
    host.answer(action="approve")
    end_request(first)
    second = host.ask("Bash", {"command": "npm run build"})
    assert "approved: npm test" in host.open_page().text
    host.answer(action="reject", **{"decision.1": "reject"})
    assert end_request(second)["behavior"] == "deny"


def test_a_command_that_was_approved_often_becomes_a_rule(host: GatedHost) -> None:
    history = host.home / ".local" / "state" / "placet" / "gate" / "decisions.jsonl"
    approved = host.ask("Bash", {"command": "npm test"})
    host.answer(action="approve")
    end_request(approved)
    assert history.stat().st_mode & 0o777 == 0o600
    history.write_bytes(history.read_bytes() * 6)
    suggested = placet(host.home, "gate", "suggest", "--write", env=host.env, stdin="y\n")
    assert "# approved 6 times" in suggested.stdout
    assert end(host.start("PreToolUse", "Bash", {"command": "npm test"}))["permissionDecision"] == "allow"
    assert placet(host.home, "gate", "suggest", env=host.env).stdout == ""
