"""OpenCode, Cursor, Antigravity and Gemini CLI: exchanges, settings files, and what is never allowed."""

import json
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest

from placet.hook.coding_agents.gate_policy import evaluate, parse_gate_policy
from placet.hook.coding_agents.gate_questions import CaseSurroundings, build_drafts
from placet.hook.coding_agents.host_calls import PROBE_TOOL, HostDecision, UnreadableCall, deny
from placet.hook.coding_agents.registry import load_coding_agent
from tests.hook.coding_agents.hook_input import load_exchanges

HOSTS = ("opencode", "cursor", "antigravity", "gemini-cli")
EVENTS = [(host, event) for host in HOSTS for event in load_coding_agent(host).events]
EXCHANGES = [(host, one) for host in HOSTS for one in load_exchanges(host.replace("-", "_"))]
BASH = {"command": "touch made.txt"}


def find_event(host: str, sent: dict[str, Any]) -> str:
    """The event of a recorded input; Antigravity does not name its own."""
    return sent.get("hook_event_name") or sent.get("event") or load_coding_agent(host).events[0]


@pytest.mark.parametrize(
    ("host", "exchange"), EXCHANGES, ids=[f"{host}: {one['title']}" for host, one in EXCHANGES]
)
def test_an_exchange_is_replayed(host: str, exchange: dict[str, Any]) -> None:
    agent, sent = load_coding_agent(host), exchange["input"]
    event = find_event(host, sent)
    call = agent.read_call(event, json.dumps(sent).encode())
    assert (call.command, call.folder) == ("touch made.txt", "/srv/project")
    assert call.session
    decision = exchange["decision"] and msgspec.convert(exchange["decision"], HostDecision)
    printed = agent.format_decision(event, decision, call)
    assert (json.loads(printed) if printed else None) == exchange["output"]
    if decision is not None and decision.arguments is not None:
        assert call.editable is not None


@pytest.mark.parametrize(("host", "event"), EVENTS)
def test_other_input_is_refused(host: str, event: str) -> None:
    for content in (b"", b"no JSON", b"[]", b"null", b"\xff", b"[" * 100_000, b"{}", b'{"stepIdx": 1}'):
        with pytest.raises(UnreadableCall):
            load_coding_agent(host).read_call(event, content)


@pytest.mark.parametrize(("host", "event"), EVENTS)
def test_a_probe_is_asked_and_a_denial_is_known(host: str, event: str) -> None:
    agent = load_coding_agent(host)
    call = agent.read_call(event, json.dumps(agent.build_probe(event, "/srv")).encode())
    assert call.tool == PROBE_TOOL
    assert evaluate(parse_gate_policy('[[allow]]\ntool = "*"'), call).effect == "ask"
    denial = agent.format_decision(event, deny("No"), call)
    assert agent.is_denial(event, denial.encode())
    allowed = agent.format_decision(event, HostDecision(verdict="allow"), call)
    for output in (b"", b"x", b"{}", b"[]", b"7", allowed.encode(), denial.encode() * 2):
        assert not agent.is_denial(event, output)


@pytest.mark.parametrize("host", HOSTS)
def test_hooks_are_added_and_removed_again(host: str) -> None:
    agent = load_coding_agent(host)
    commands = {event: f"placet gate run {host} --event {event} --wait 9m" for event in agent.events}
    added = agent.add_hooks({}, commands, 600)
    text = agent.format_settings(added, "")
    assert text is not None
    found = agent.find_hooks(agent.parse_settings(text))
    assert [(one.event, one.command, one.timeout_s) for one in found] == [
        (event, command, 600) for event, command in commands.items()
    ]
    assert not any(one.fails_open for one in found)
    assert agent.find_problems(agent.parse_settings(text)) == []
    assert agent.add_hooks(added, commands, 600) == added
    assert agent.find_hooks(agent.remove_hooks(added)) == []


def test_hooks_of_others_stay() -> None:
    other = {"command": "check", "timeout": 3}
    cursor = load_coding_agent("cursor")
    before = {"version": 1, "hooks": {"preToolUse": [other], "stop": [other]}}
    added = cursor.add_hooks(before, {"preToolUse": "placet gate run cursor --event preToolUse"}, 600)
    assert added["hooks"]["preToolUse"][0] == other
    assert added["hooks"]["preToolUse"][1]["failClosed"] is True
    assert cursor.remove_hooks(added) == before
    antigravity = load_coding_agent("antigravity")
    named = {"lint": {"PreToolUse": [{"matcher": "*", "hooks": [other]}]}}
    added = antigravity.add_hooks(
        named, {"PreToolUse": "placet gate run antigravity --event PreToolUse"}, 600
    )
    assert added["placet-gate"]["PreToolUse"][0]["hooks"][0]["timeout"] == 600
    assert antigravity.remove_hooks(added) == named


def test_gemini_counts_in_milliseconds() -> None:
    added = load_coding_agent("gemini-cli").add_hooks({}, {"BeforeTool": "x"}, 600)
    assert added["hooks"]["BeforeTool"][0]["hooks"][0]["timeout"] == 600_000


def test_settings_that_fail_open_are_noticed() -> None:
    cursor = load_coding_agent("cursor")
    hook = {"command": "placet gate run cursor --event preToolUse", "timeout": 600}
    assert cursor.find_hooks({"hooks": {"preToolUse": [hook]}})[0].fails_open
    gemini, antigravity = load_coding_agent("gemini-cli"), load_coding_agent("antigravity")
    assert gemini.find_problems({"hooksConfig": {"enabled": False}}) != []
    assert gemini.find_problems({"hooksConfig": {"disabled": ["placet-gate"]}}) != []
    assert antigravity.find_problems({"placet-gate": {"enabled": False}}) != []


def test_a_plugin_of_somebody_else_is_not_replaced() -> None:
    agent = load_coding_agent("opencode")
    for text in ("export const Other = 1", "const HOOKS = {}\n", "// placet gate install opencode"):
        with pytest.raises(ValueError, match="not the plugin"):
            agent.parse_settings(text)


def test_a_changed_plugin_is_noticed() -> None:
    agent = load_coding_agent("opencode")
    text = agent.format_settings(agent.add_hooks({}, dict.fromkeys(agent.events, "x"), 600), "")
    assert text is not None
    assert agent.find_problems(agent.parse_settings(text + "// more\n")) != []


def test_a_command_with_any_text_stays_one_line_of_the_plugin() -> None:
    agent = load_coding_agent("opencode")
    command = "echo '\n const HOOKS = {\u2028} \\' \"$X\" `"
    text = agent.format_settings(agent.add_hooks({}, {"permission.asked": command}, 60), "")
    assert text is not None
    assert [hook.command for hook in agent.find_hooks(agent.parse_settings(text))] == [command]


def test_another_permission_than_that_for_the_call_is_its_own_tool() -> None:
    """A rule that allows a command does not allow to leave the project."""
    agent = load_coding_agent("opencode")
    asked = {"id": "per_1", "permission": "external_directory", "patterns": ["/etc/*"], "metadata": {}}
    call = {"id": "call_1", "tool": "bash", "arguments": BASH}
    sent = {"event": "permission.asked", "folder": "/srv", "permission": asked, "call": call}
    read = agent.read_call("permission.asked", json.dumps(sent).encode())
    assert (read.tool, read.command) == ("external_directory", None)
    assert read.arguments["call"]["arguments"] == BASH
    allowing = parse_gate_policy('[[allow]]\ntool = "bash"\ncommand = "touch *"')
    assert evaluate(allowing, read).effect is None
    assert read.is_prompted


@pytest.mark.parametrize(
    ("host", "event", "tool", "arguments"),
    [
        ("opencode", "permission.asked", "edit", {"filePath": "a", "oldString": "1", "newString": "2"}),
        ("opencode", "permission.asked", "write", {"filePath": "a", "content": "2"}),
        ("gemini-cli", "BeforeTool", "replace", {"file_path": "a", "old_string": "1", "new_string": "2"}),
        (
            "antigravity",
            "PreToolUse",
            "replace_file_content",
            {"TargetFile": "a", "TargetContent": "1", "ReplacementContent": "2"},
        ),
        ("antigravity", "PreToolUse", "write_to_file", {"TargetFile": "a", "CodeContent": "2"}),
    ],
)
def test_an_edit_is_shown_as_a_diff(host: str, event: str, tool: str, arguments: dict[str, Any]) -> None:
    call = {"tool": tool, "arguments": arguments, "name": tool, "args": arguments}
    sent: dict[str, Any] = {"event": event, "hook_event_name": event, "tool_name": tool}
    sent |= {"tool_input": arguments}
    sent |= {"stepIdx": 1, "toolCall": call, "call": call, "permission": {"permission": "edit"}}
    read = load_coding_agent(host).read_call(event, json.dumps(sent).encode())
    (draft,) = build_drafts(read, CaseSurroundings(current_text="1"))
    assert draft["context"]["diff"] == "--- /a\n+++ /a\n@@ -1 +1 @@\n-1\n+2"


@pytest.mark.parametrize(
    ("host", "tool", "member"),
    [
        ("gemini-cli", "run_shell_command", "dir_path"),
        ("cursor", "Shell", "cwd"),
        ("cursor", "Shell", "working_directory"),
    ],
)
def test_a_command_in_a_folder_of_its_own_is_judged_there(host: str, tool: str, member: str) -> None:
    agent = load_coding_agent(host)
    allowing = parse_gate_policy('[[allow]]\ntool = "*"\ncwd = "/srv/project/**"')
    for name, expected in ((tool, "/etc"), ("another_tool", "/srv/project")):
        arguments = {"command": "ls", member: "../../etc"}
        sent = {"hook_event_name": agent.events[0], "cwd": "/srv/project", "tool_name": name}
        read = agent.read_call(agent.events[0], json.dumps({**sent, "tool_input": arguments}).encode())
        assert read.folder == expected
        assert evaluate(allowing, read).effect == (None if expected == "/etc" else "allow")


def test_cursor_asks_a_person_without_a_rule() -> None:
    """Cursor takes an empty output for a failure, so there is no way to say nothing."""
    (sent, *_) = [one["input"] for one in load_exchanges("cursor")]
    assert load_coding_agent("cursor").read_call("preToolUse", json.dumps(sent).encode()).is_prompted


@pytest.mark.parametrize(
    ("host", "environ", "expected"),
    [
        ("opencode", {}, "/srv/.config/opencode/plugins/placet-gate.js"),
        ("opencode", {"XDG_CONFIG_HOME": "/x"}, "/x/opencode/plugins/placet-gate.js"),
        ("cursor", {}, "/srv/.cursor/hooks.json"),
        ("antigravity", {}, "/srv/.gemini/config/hooks.json"),
        ("gemini-cli", {}, "/srv/.gemini/settings.json"),
        ("gemini-cli", {"GEMINI_CLI_HOME": "/x"}, "/x/.gemini/settings.json"),
    ],
)
def test_the_settings_of_the_user_are_found(host: str, environ: dict[str, str], expected: str) -> None:
    found = load_coding_agent(host).find_settings_file(PurePosixPath("/srv"), environ)
    assert found == PurePosixPath(expected)
