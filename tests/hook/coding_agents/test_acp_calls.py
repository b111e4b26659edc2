"""The Agent Client Protocol: what its requests say about a call."""

import json
from typing import Any

import pytest

from placet.hook.coding_agents.acp import ASK, CODING_AGENT, READ, RUN, WRITE
from placet.hook.coding_agents.gate_policy import evaluate, parse_gate_policy
from placet.hook.coding_agents.host_calls import HostCall, UnreadableCall
from placet.hook.coding_agents.proxied_agents import MAX_ITEMS, SessionFacts


def read(method: str, facts: SessionFacts | None = None, **params: Any) -> HostCall:
    message = {"id": 1, "method": method, "params": {"sessionId": "s", **params}}
    sent = CODING_AGENT.build_input(message, facts or SessionFacts(folders={"s": "/srv/project"}))
    return CODING_AGENT.read_call(method, json.dumps(sent).encode())


@pytest.mark.parametrize(
    ("raw", "command"),
    [
        ({"command": "make"}, "make"),
        ({"command": ["bash", "-c", "rm x"]}, "bash -c 'rm x'"),
        ({"command": ["rm", 7]}, None),
        ({}, None),
        ("make", None),
    ],
)
def test_a_command_is_what_the_agent_will_run_and_not_its_title(raw: Any, command: str | None) -> None:
    call = read(ASK, toolCall={"toolCallId": "c", "kind": "execute", "title": "ls", "rawInput": raw})
    assert (call.tool, call.command) == ("execute", command)
    assert call.arguments["title"] == "ls"


def test_what_was_said_about_a_call_before_is_added() -> None:
    facts = SessionFacts(folders={"s": "/srv/project"})
    update = {"toolCallId": "c", "kind": "edit", "locations": [{"path": "a.txt"}], "title": None}
    CODING_AGENT.observe({"method": "session/update", "params": {"update": update}}, None, facts)
    call = read(ASK, facts, toolCall={"toolCallId": "c", "title": "Edit it"})
    assert (call.tool, call.paths) == ("edit", ("/srv/project/a.txt",))
    for number in range(MAX_ITEMS):
        facts.learn_item(str(number), {})
    assert read(ASK, facts, toolCall={"toolCallId": "c"}).tool == "other"


def test_every_path_of_a_change_counts() -> None:
    content = [{"type": "diff", "path": "/etc/b", "oldText": None, "newText": "x"}]
    call = read(ASK, toolCall={"kind": "edit", "rawInput": {"file_path": "a"}, "content": content})
    assert call.paths == ("/srv/project/a", "/etc/b")


def test_a_command_of_the_editor_is_quoted() -> None:
    assert read(RUN, command="rm", args=["a b", "c"]).command == "rm 'a b' c"
    assert read(RUN, command="ls && id").command == "ls && id"
    assert read(RUN, command="ls", cwd="sub").folder == "/srv/project/sub"


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        (RUN, {"command": "git", "args": ["status"]}, "allow"),
        (RUN, {"command": "git status"}, "allow"),
        (RUN, {"command": "git", "args": ["status", "; rm x"]}, None),
        (RUN, {"command": "git", "args": ["status"], "env": [{"name": "GIT_PAGER", "value": "x"}]}, None),
        (ASK, {"toolCall": {"kind": "execute", "rawInput": {"command": "git status"}}}, "allow"),
        (ASK, {"toolCall": {"kind": "execute", "rawInput": {"command": "git status", "cwd": "/"}}}, None),
        (ASK, {"toolCall": {"kind": "execute", "rawInput": {"command": "git status", "root": True}}}, None),
    ],
)
def test_a_rule_for_a_command_allows_nothing_that_an_editor_could_add(
    method: str, params: dict[str, Any], expected: str | None
) -> None:
    policy = parse_gate_policy('[[allow]]\ncommand = "git *"\ncwd = "/srv/project/**"')
    assert evaluate(policy, read(method, **params)).effect == expected


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (RUN, {}),
        (RUN, {"command": 7}),
        (RUN, {"command": "rm", "args": ["a", 7]}),
        (RUN, {"command": "rm", "args": "a"}),
        (WRITE, {"content": "x"}),
        (READ, {"path": ["a"]}),
    ],
)
def test_a_request_that_could_be_read_differently_is_refused(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCall):
        read(method, **params)
