"""Claude Code: recorded exchanges, its settings file, and its transcripts."""

import json
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest

from placet.hook.coding_agents.claude_code import CODING_AGENT
from placet.hook.coding_agents.gate_questions import (
    CaseAnswer,
    CaseSurroundings,
    build_diff,
    build_drafts,
    decide,
)
from placet.hook.coding_agents.host_calls import HostCall, HostDecision, UnreadableCall, deny
from tests.hook.coding_agents.hook_input import build_input, load_exchanges

EXCHANGES = load_exchanges("claude_code")
QUESTION = {"question": "Which?", "options": [{"label": "Red", "description": "Warm"}, {"label": "Blue"}]}


def request(tool: str, arguments: dict[str, Any], **others: Any) -> HostCall:
    return CODING_AGENT.read_call(
        "PermissionRequest", build_input("PermissionRequest", tool, arguments, **others)
    )


def answer(action: str, *, is_affirmative: bool = False, **data: Any) -> CaseAnswer:
    return CaseAnswer(action=action, is_affirmative=is_affirmative, data=data, reviewer="ada")


def decide_call(call: HostCall, action: str, said: dict[str, Any], **data: Any) -> HostDecision:
    given = answer(action, is_affirmative=action == "approve", decisions={"call": said}, **data)
    return decide(call, [given])


# Exchanges recorded with the real program


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange["title"])
def test_a_recorded_exchange_is_replayed(exchange: dict[str, Any]) -> None:
    sent = exchange["input"]
    event = sent["hook_event_name"]
    call = CODING_AGENT.read_call(event, json.dumps(sent).encode())
    assert (call.tool, call.arguments) == (sent["tool_name"], sent["tool_input"])
    assert (call.session, call.folder, call.mode) == (
        sent["session_id"],
        "/srv/project",
        sent["permission_mode"],
    )
    assert call.is_prompted == (event == "PermissionRequest")
    decision = exchange["decision"] and msgspec.convert(exchange["decision"], HostDecision)
    printed = CODING_AGENT.format_decision(event, decision, call)
    assert (json.loads(printed) if printed else None) == exchange["output"]


def test_every_kind_of_call_was_recorded() -> None:
    calls = [
        CODING_AGENT.read_call(one["input"]["hook_event_name"], json.dumps(one["input"]).encode())
        for one in EXCHANGES
    ]
    assert {call.kind for call in calls} == {"tool", "question", "plan"}
    assert {call.event for call in calls} == set(CODING_AGENT.events)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no JSON", b"[]", b"null", b"\xff", b"[" * 100_000, b"{}"),
        build_input("PreToolUse", "Bash", {}),
        build_input("PermissionRequest", "", {}),
        b'{"hook_event_name": "PermissionRequest", "tool_name": "Bash"}',
        b'{"hook_event_name": "PermissionRequest", "tool_name": 7, "tool_input": {}}',
        b'{"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": []}',
    ],
)
def test_other_input_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableCall):
        CODING_AGENT.read_call("PermissionRequest", content)


@pytest.mark.parametrize("event", CODING_AGENT.events)
def test_a_denial_is_known_from_other_answers(event: str) -> None:
    denial = CODING_AGENT.format_decision(event, deny("No"), None)
    assert CODING_AGENT.is_denial(event, denial.encode())
    allowed = CODING_AGENT.format_decision(event, HostDecision(verdict="allow"), None)
    other = next(one for one in CODING_AGENT.events if one != event)
    for output in (b"", b"x", b"{}", b"[]", allowed.encode(), denial.encode() * 2):
        assert not CODING_AGENT.is_denial(event, output)
    assert not CODING_AGENT.is_denial(other, denial.encode())


# Decisions


def test_only_a_clear_yes_lets_a_call_run() -> None:
    call = request("Bash", {"command": "make"})
    assert decide_call(call, "approve", {"decision": "approve"}).verdict == "allow"
    changed = decide_call(call, "edit", {"decision": "edit", "arguments": {"command": "make -n"}})
    assert (changed.verdict, changed.arguments) == ("allow", {"command": "make -n"})
    for action, said in (
        ("reject", {"decision": "reject"}),
        ("reject", {"decision": "approve"}),
        ("approve", {"decision": "reject"}),
        ("approve", {}),
        ("edit", {"decision": "approve"}),
        ("edit", {"decision": "edit"}),
        ("edit", {"decision": "edit", "arguments": {}}),
        ("edit", {"decision": "edit", "arguments": "make"}),
        ("approve", {"decision": "respond"}),
    ):
        assert decide_call(call, action, said).verdict == "deny", (action, said)
    assert decide(call, [answer("approve", is_affirmative=True)]).verdict == "deny"
    assert decide(call, [answer("approve", decisions={"call": {"decision": "approve"}})]).verdict == "deny"


def test_the_agent_reads_why_it_was_rejected() -> None:
    call = request("Bash", {"command": "make"})
    said = {"decision": "reject", "reason": "Not today"}
    assert decide_call(call, "reject", said).message == "Rejected by ada: Not today"
    assert (
        decide_call(call, "reject", {"decision": "reject"}, note="Later").message == "Rejected by ada: Later"
    )


def test_an_unknown_tool_cannot_be_changed() -> None:
    call = request("mcp__bank__pay", {"amount": 3})
    assert build_drafts(call, CaseSurroundings())[0]["context"]["tool_calls"][0]["allowed_decisions"] == [
        "approve",
        "reject",
    ]
    said = {"decision": "edit", "arguments": {"amount": 4}}
    assert decide_call(call, "edit", said).verdict == "deny"


def test_each_question_is_one_selection() -> None:
    call = request(
        "AskUserQuestion", {"questions": [QUESTION, {**QUESTION, "question": "And?", "multiSelect": True}]}
    )
    first, second = build_drafts(call, CaseSurroundings(computer="laptop"))
    assert (first["type"], first["prompt"], first["context"]["multiple"]) == (
        "selection",
        "Which? (1 of 2)",
        False,
    )
    assert first["context"]["options"] == [
        {"id": "1", "title": "Red", "description": "Warm"},
        {"id": "2", "title": "Blue"},
    ]
    assert (second["context"]["multiple"], second["context"]["computer"]) == (True, "laptop")
    chosen = answer("select", is_affirmative=True, selected=["2"])
    both = answer("select", is_affirmative=True, selected=["1", "2"], note="in this order")
    decided = decide(call, [chosen, both])
    assert decided.verdict == "allow"
    assert decided.arguments == {
        **call.arguments,
        "answers": {"Which?": "Blue", "And?": "Red, Blue (note: in this order)"},
    }
    for other in (answer("select", selected=["2"]), answer("select", is_affirmative=True, selected=["9"])):
        assert decide(call, [chosen, other]).verdict == "deny"


@pytest.mark.parametrize("arguments", [{}, {"questions": []}, {"questions": [{"question": "Which?"}]}])
def test_questions_in_another_form_are_shown_as_a_call(arguments: dict[str, Any]) -> None:
    assert request("AskUserQuestion", arguments).kind == "tool"
    assert request("ExitPlanMode", arguments).kind == "tool"


def test_a_plan_is_approved_or_sent_back() -> None:
    call = request("ExitPlanMode", {"plan": "# Plan"}, permission_mode="plan")
    (draft,) = build_drafts(call, CaseSurroundings())
    assert (draft["type"], draft["context"]["artifact"]) == ("approval", "# Plan")
    assert decide(call, [answer("approve", is_affirmative=True)]).verdict == "allow"
    changes = decide(call, [answer("edit", feedback="Shorter", edits={"artifact": "# New"})])
    assert (changes.verdict, changes.message) == (
        "deny",
        "Changes to the plan requested by ada: Shorter\nThe plan as they want it:\n# New",
    )
    assert decide(call, [answer("reject")]).message == "The plan was rejected by ada."
    assert decide(call, [answer("approve")]).verdict == "deny"


# What the reviewer sees


def test_a_reviewer_sees_where_a_command_would_run() -> None:
    call = request("Bash", {"command": "make"}, agent_id="a1", agent_type="Explore")
    (draft,) = build_drafts(call, CaseSurroundings(computer="laptop"))
    assert draft["prompt"] == "Claude Code wants to run: make"
    facts = draft["context"]
    assert (facts["computer"], facts["working_directory"], facts["permission_mode"]) == (
        "laptop",
        "/srv/project",
        "default",
    )
    assert facts["session"] == call.session
    assert facts["tool_calls"][0]["path"] == ["Claude Code", "Explore"]
    assert "high_risk" not in facts["tool_calls"][0]  # so no grant is offered


def test_a_change_of_a_file_is_shown_as_a_diff() -> None:
    edited = request("Edit", {"file_path": "a.txt", "old_string": "one\ntwo", "new_string": "one\n2"})
    expected = "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
    assert build_drafts(edited, CaseSurroundings())[0]["context"]["diff"] == expected
    written = request("Write", {"file_path": "a.txt", "content": "one\n2\n"})
    assert build_diff(written, "one\ntwo\n") == expected
    assert build_diff(request("Bash", {"command": "x"}), None) == ""
    assert build_diff(request("Write", {"file_path": "a", "content": "x" * 300_000}), None) == ""


# Settings

OTHERS: dict[str, Any] = {
    "model": "opus",
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "bell"}]}],
    },
}
COMMANDS = {event: f"placet gate run claude-code --event {event} --wait 9m" for event in CODING_AGENT.events}


def test_hooks_are_added_after_those_of_others_and_removed_again() -> None:
    found_before: list[dict[str, Any]] = [
        *({}, {"model": "opus"}, OTHERS, {"hooks": {}}, {"hooks": {"PreToolUse": []}}),
    ]
    for settings in found_before:
        added = CODING_AGENT.add_hooks(settings, COMMANDS, 600)
        found = CODING_AGENT.find_hooks(added)
        assert [(one.event, one.command, one.timeout_s) for one in found] == [
            (event, command, 600) for event, command in COMMANDS.items()
        ]
        assert CODING_AGENT.add_hooks(added, COMMANDS, 600) == added
        removed = CODING_AGENT.remove_hooks(added)
        assert {**removed, "hooks": removed.get("hooks") or {}} == {
            **settings,
            "hooks": {event: groups for event, groups in settings.get("hooks", {}).items() if groups},
        }
    assert (
        CODING_AGENT.add_hooks(OTHERS, COMMANDS, 600)["hooks"]["PreToolUse"][0]
        == OTHERS["hooks"]["PreToolUse"][0]
    )


def test_a_hook_of_others_in_one_group_with_ours_stays() -> None:
    ours, other = {"type": "command", "command": COMMANDS["PreToolUse"]}, {"type": "command", "command": "x"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [ours, other]}]}}
    assert CODING_AGENT.remove_hooks(settings) == {
        "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [other]}]}
    }


def test_the_settings_of_the_user_are_found() -> None:
    home = PurePosixPath("/srv/home")
    assert CODING_AGENT.find_settings_file(home, {}) == home / ".claude" / "settings.json"
    moved = CODING_AGENT.find_settings_file(home, {"CLAUDE_CONFIG_DIR": "/srv/elsewhere"})
    assert moved == PurePosixPath("/srv/elsewhere/settings.json")


def test_switched_off_hooks_are_a_problem() -> None:
    assert CODING_AGENT.find_problems({}) == []
    assert CODING_AGENT.find_problems({"disableAllHooks": True}) != []


# Transcripts


def entry(*blocks: dict[str, Any]) -> str:
    return json.dumps({"cwd": "/srv/project", "sessionId": "s", "message": {"content": list(blocks)}})


def use(number: int, command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}


def result(number: int) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "done"}


def test_the_calls_of_a_transcript_are_read() -> None:
    lines = ["no JSON tool_use", '"tool_use"', entry(use(1, "make"), {"type": "text"}), entry(result(1))]
    found = list(CODING_AGENT.read_transcript(iter(lines)))
    assert [(call.command, call.folder, call.call_id) for call in found] == [
        ("make", "/srv/project", "toolu_1")
    ]


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ({}, "/srv/s.jsonl"),
        ({"agent_id": "a1"}, "/srv/s/subagents/agent-a1.jsonl"),
        ({"agent_id": "../a1"}, "/srv/s.jsonl"),
    ],
)
def test_a_subagent_has_a_transcript_of_its_own(agent: dict[str, str], expected: str) -> None:
    assert request("Bash", {}, transcript_path="/srv/s.jsonl", **agent).transcript == expected


def test_a_call_is_settled_when_its_result_is_written() -> None:
    call = request("Bash", {"command": "make"})
    before = [entry(use(1, "make")), entry(result(1)), entry(use(2, "make"))]
    assert not CODING_AGENT.is_settled(call, before, [])
    assert not CODING_AGENT.is_settled(call, before, [entry(use(3, "id")), entry(result(3))])
    assert CODING_AGENT.is_settled(call, before, [entry(result(2))])
    assert CODING_AGENT.is_settled(call, [], [entry(use(2, "make")), entry(result(2))])
    assert not CODING_AGENT.is_settled(call, [], [entry(result(2))])
