"""Codex: recorded exchanges, its hooks.json, its patches and its transcripts."""

import json
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest

from placet.hook.coding_agents.codex import CODING_AGENT
from placet.hook.coding_agents.gate_policy import evaluate, parse_gate_policy
from placet.hook.coding_agents.gate_questions import CaseSurroundings, build_drafts
from placet.hook.coding_agents.host_calls import HostCall, HostDecision, deny
from placet.hook.coding_agents.registry import load_coding_agent
from tests.hook.coding_agents.hook_input import build_input, load_exchanges

PATCH = """*** Begin Patch
*** Add File: a.txt
+hello
*** Update File: src/b.txt
*** Move to: /etc/c.txt
@@
-one
+two
*** Delete File: d.txt
*** End Patch
"""


def call(event: str, tool: str, **arguments: Any) -> HostCall:
    return CODING_AGENT.read_call(event, build_input(event, tool, arguments))


@pytest.mark.parametrize("exchange", load_exchanges("codex"), ids=lambda exchange: exchange["title"])
def test_a_recorded_exchange_is_replayed(exchange: dict[str, Any]) -> None:
    sent = exchange["input"]
    event = sent["hook_event_name"]
    read = CODING_AGENT.read_call(event, json.dumps(sent).encode())
    assert (read.tool, read.command) == ("Bash", sent["tool_input"]["command"])
    decision = exchange["decision"] and msgspec.convert(exchange["decision"], HostDecision)
    printed = CODING_AGENT.format_decision(event, decision, read)
    assert (json.loads(printed) if printed else None) == exchange["output"]


def test_only_what_codex_accepts_is_printed() -> None:
    """Codex ignores an answer to a permission request that has other members, and then goes on as usual."""
    changed = HostDecision(verdict="allow", arguments={"command": "id"})
    printed = CODING_AGENT.format_decision("PermissionRequest", changed, None)
    assert CODING_AGENT.is_denial("PermissionRequest", printed.encode())
    assert call("PermissionRequest", "Bash", command="make").editable is None
    assert call("PreToolUse", "Bash", command="make").editable is not None
    for event in CODING_AGENT.events:
        assert CODING_AGENT.is_denial(event, CODING_AGENT.format_decision(event, deny("No"), None).encode())


def test_a_patch_names_every_file_that_it_changes() -> None:
    patched = call("PreToolUse", "apply_patch", command=PATCH)
    folder = "/srv/project"
    assert patched.paths == (f"{folder}/a.txt", f"{folder}/src/b.txt", "/etc/c.txt", f"{folder}/d.txt")
    assert patched.command is None
    allowed = parse_gate_policy('[[allow]]\ntool = "apply_patch"\npath = "/srv/project/**"')
    assert evaluate(allowed, patched).effect is None
    denied = parse_gate_policy('[[deny]]\npath = "/etc/**"')
    assert evaluate(denied, patched).effect == "deny"
    assert evaluate(allowed, call("PreToolUse", "apply_patch", command="x")).effect is None


def test_every_file_that_codex_or_opencode_would_patch_is_named() -> None:
    """They allow spaces before a header, and none after its colon; OpenCode ends a name at a second one."""
    patch = "*** Add File: a\n+x\n \t*** Update File: /etc/b\n*** Add File:../c\n*** Delete File: d:e"
    named = ("a", "/etc/b", "../c", "d:e", "d")
    for agent, event, tool, arguments in (
        (CODING_AGENT, "PreToolUse", "apply_patch", {"command": patch}),
        (load_coding_agent("opencode"), "tool.execute.before", "apply_patch", {"patchText": patch}),
    ):
        sent = {"hook_event_name": event, "tool_name": tool, "tool_input": arguments, "cwd": "/srv"}
        sent |= {"event": event, "folder": "/srv", "call": {"tool": tool, "arguments": arguments}}
        read = agent.read_call(event, json.dumps(sent).encode())
        assert {str(PurePosixPath("/srv", name)) for name in named} <= set(read.paths)
        assert "/c" in read.paths
        assert "+++ /etc/b" in read.diff


def test_a_patch_is_shown_as_a_diff() -> None:
    (draft,) = build_drafts(call("PermissionRequest", "apply_patch", command=PATCH), CaseSurroundings())
    assert draft["context"]["diff"] == (
        "--- a.txt\n+++ a.txt\n+hello\n--- src/b.txt\n+++ src/b.txt\n--- /etc/c.txt\n+++ /etc/c.txt\n"
        "@@\n-one\n+two\n--- d.txt\n+++ d.txt"
    )
    shown = draft["context"]["tool_calls"][0]["arguments"]
    assert shown == {"command": PATCH}


def test_the_settings_of_the_user_are_found() -> None:
    home = PurePosixPath("/srv/home")
    assert CODING_AGENT.find_settings_file(home, {}) == home / ".codex" / "hooks.json"
    moved = CODING_AGENT.find_settings_file(home, {"CODEX_HOME": "/srv/elsewhere"})
    assert moved == PurePosixPath("/srv/elsewhere/hooks.json")


def test_our_hooks_are_told_from_those_for_another_agent() -> None:
    other = {
        "hooks": {"PreToolUse": [{"hooks": [{"command": "placet gate run claude-code --event PreToolUse"}]}]}
    }
    commands = {event: f"placet gate run codex --event {event}" for event in CODING_AGENT.events}
    added = CODING_AGENT.add_hooks(other, commands, 600)
    assert [one.event for one in CODING_AGENT.find_hooks(added)] == list(CODING_AGENT.events)
    assert CODING_AGENT.remove_hooks(added) == other


def line(kind: str, **payload: Any) -> str:
    return json.dumps({"type": kind, "payload": payload})


def use(number: int, command: str) -> str:
    arguments = json.dumps({"cmd": command, "sandbox_permissions": "require_escalated"})
    item = {"type": "function_call", "name": "exec_command", "arguments": arguments}
    return line("response_item", **item, call_id=f"call_{number}")


def result(number: int) -> str:
    return line("response_item", type="function_call_output", call_id=f"call_{number}", output="done")


def test_the_calls_of_a_transcript_are_read() -> None:
    patch = {"type": "custom_tool_call", "name": "apply_patch", "input": PATCH, "call_id": "call_2"}
    lines = [
        line("session_meta", id="s", cwd="/srv/project"),
        use(1, "make"),
        result(1),
        line("response_item", **patch),
        '"payload"',
        line("response_item", type="function_call", name="x", arguments="no JSON"),
    ]
    found = list(CODING_AGENT.read_transcript(iter(lines)))
    assert [(one.tool, one.command, one.session) for one in found] == [
        ("Bash", "make", "s"),
        ("apply_patch", None, "s"),
    ]
    assert found[1].paths[0] == "/srv/project/a.txt"


def test_a_call_is_settled_when_its_result_is_written() -> None:
    asked = call("PermissionRequest", "Bash", command="make", description="Build it")
    before = [use(1, "make"), result(1), use(2, "make")]
    assert not CODING_AGENT.is_settled(asked, before, [])
    assert not CODING_AGENT.is_settled(asked, before, [use(3, "id"), result(3)])
    assert CODING_AGENT.is_settled(asked, before, [result(2)])
