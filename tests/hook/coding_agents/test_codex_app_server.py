"""Codex's app server: what it asks its editor, and what the gate answers."""

import json
from typing import Any

from placet.hook.coding_agents.codex_app_server import CHANGE, CODING_AGENT, RUN
from placet.hook.coding_agents.gate_questions import CaseSurroundings, build_drafts
from placet.hook.coding_agents.host_calls import HostCall
from placet.hook.coding_agents.proxied_agents import SessionFacts

THREAD = "01a1f245-feae-7a01-b5cb-831cedf20b32"
COMMON = {"threadId": THREAD, "turnId": "turn_1", "itemId": "item_1", "startedAtMs": 1}


def read(method: str, facts: SessionFacts, **params: Any) -> HostCall:
    message = {"id": 0, "method": method, "params": {**COMMON, **params}}
    return CODING_AGENT.read_call(method, json.dumps(CODING_AGENT.build_input(message, facts)).encode())


def learn(*items: dict[str, Any]) -> SessionFacts:
    """What a started thread in /srv/project, and these items, tell."""
    facts = SessionFacts()
    started = {"id": 1, "result": {"thread": {"id": THREAD}, "cwd": "/srv/project"}}
    CODING_AGENT.observe(started, {"id": 1, "method": "thread/start", "params": {}}, facts)
    for item in items:
        told = {"method": "item/started", "params": {"threadId": THREAD, "item": {"id": "item_1", **item}}}
        CODING_AGENT.observe(told, None, facts)
    return facts


def test_a_command_is_asked_about_with_its_folder() -> None:
    call = read(RUN, learn(), command="touch made.txt", reason="Need it", cwd="/srv/project/sub")
    assert (call.tool, call.command, call.folder) == ("Bash", "touch made.txt", "/srv/project/sub")
    assert call.arguments == {"command": "touch made.txt", "reason": "Need it"}
    assert call.is_prompted
    assert call.editable is None
    assert read(RUN, learn(), command="x").folder == "/srv/project"


def test_changes_of_files_are_shown_as_a_diff() -> None:
    changes = [
        {"path": "/srv/project/a.txt", "kind": {"type": "add"}, "diff": "one\ntwo\n"},
        {"path": "/srv/project/b.txt", "kind": {"type": "update"}, "diff": "@@ -1 +1 @@\n-old\n+new"},
    ]
    call = read(CHANGE, learn({"type": "fileChange", "changes": changes}))
    assert call.paths == ("/srv/project/a.txt", "/srv/project/b.txt")
    (draft,) = build_drafts(call, CaseSurroundings())
    assert draft["context"]["diff"] == (
        "--- /srv/project/a.txt\n+++ /srv/project/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        "--- /srv/project/b.txt\n+++ /srv/project/b.txt\n@@ -1 +1 @@\n-old\n+new"
    )


def test_a_change_that_nobody_announced_matches_no_rule_about_paths() -> None:
    assert read(CHANGE, learn()).paths == ()


def test_an_approval_counts_for_one_item() -> None:
    message = {"id": 0, "method": RUN, "params": COMMON}
    assert CODING_AGENT.build_answer(message, is_allowed=True) == {"decision": "accept"}
    assert CODING_AGENT.build_answer(message, is_allowed=False) == {"decision": "decline"}
