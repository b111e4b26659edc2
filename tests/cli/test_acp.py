"""`placet acp` between an editor and an agent of the protocol's own library, answered in the inbox."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.forked_command import INSTALLED
from tests.cli.gated_host import GatedHost, serving_an_inbox
from tests.cli.process import ServerProcess, environment
from tests.cli.scripted_editor import Editor
from tests.waiting import PATIENCE_S, eventually

ASK = "session/request_permission"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    with serving_an_inbox(tmp_path_factory.mktemp("gate")) as opened:
        yield opened


@pytest.fixture
def host(server: tuple[ServerProcess, str], tmp_path: Path) -> Iterator[GatedHost]:
    with closing(GatedHost(tmp_path, *server)) as gated:
        yield gated


@pytest.fixture
def made(host: GatedHost) -> Path:
    """The file that the command makes."""
    return host.home / "made.txt"


def test_an_approval_in_the_inbox_closes_the_dialog_of_the_editor(host: GatedHost, made: Path) -> None:
    with closing(Editor(host)) as editor:
        editor.prompt(run="touch made.txt")
        page = host.open_page().text
        for shown in ("Scripted agent wants to run: touch made.txt", str(host.home), "session-1"):
            assert shown in page
        asked = editor.until_method(ASK)
        assert not made.exists()
        host.answer(action="approve")
        assert editor.until_outcome() == {"outcome": "selected", "optionId": "yes"}
        assert made.exists()
        assert editor.until_method("$/cancel_request")["params"] == {"requestId": asked["id"]}
        editor.send({"id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}})  # too late
        assert editor.call("session/new", cwd="/", mcpServers=[])["result"]


def test_an_answer_in_the_editor_closes_the_question(host: GatedHost, made: Path) -> None:
    with closing(Editor(host)) as editor:
        editor.prompt(run="touch made.txt")
        host.open_page()
        asked = editor.until_method(ASK)
        chosen = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        editor.send({"id": asked["id"], "result": chosen})
        assert editor.until_outcome() == chosen["outcome"]
        assert made.exists()
        assert host.until_closed()["status"] == "cancelled"
        assert "$/cancel_request" not in editor.list_methods()


def test_a_rejection_reaches_the_agent(host: GatedHost, made: Path) -> None:
    with closing(Editor(host)) as editor:
        editor.prompt(run="touch made.txt")
        host.answer(action="reject", **{"decision.1": "reject"})
        assert editor.until_outcome() == {"outcome": "selected", "optionId": "no"}
        assert not made.exists()


def test_a_change_of_a_file_is_shown_as_a_diff(host: GatedHost) -> None:
    with closing(Editor(host)) as editor:
        editor.prompt(edit="/srv/a.txt")
        assert "1 line added and 1 line removed" in host.open_page().text
        host.answer(action="approve")
        assert editor.until_outcome()["optionId"] == "yes"


def test_the_policy_decides_without_the_editor(host: GatedHost, made: Path) -> None:
    rules = '[[allow]]\ncommand = "touch *"\n[[deny]]\ntool = "edit"\n[[ask]]\ncommand = "rm *"'
    host.allow(rules)
    with closing(Editor(host)) as editor:
        editor.prompt(run="touch made.txt")
        assert editor.until_outcome()["optionId"] == "yes"
        assert made.exists()
        editor.received.clear()
        editor.prompt(edit="/srv/a.txt")
        assert editor.until_outcome()["optionId"] == "no"
        editor.received.clear()
        editor.prompt(run="rm made.txt")
        host.answer(action="approve")  # an ask rule asks in the inbox alone
        assert editor.until_outcome()["optionId"] == "yes"
        assert not made.exists()
        assert ASK not in editor.list_methods()


def request(method: str, **params: Any) -> str:
    """A line of the agent with a request of its own."""
    sent = {"jsonrpc": "2.0", "id": 99, "method": method, "params": {"sessionId": "session-1", **params}}
    return json.dumps(sent)


def test_the_policy_decides_what_the_editor_does_for_the_agent(host: GatedHost) -> None:
    host.allow('[[deny]]\ncommand = "rm *"\n[[deny]]\npath = "**/.env"\n[[ask]]\npath = "/srv/**"')
    with closing(Editor(host)) as editor:
        editor.prompt(send=request("terminal/create", command="rm", args=["-rf", "x y"]))
        editor.until(lambda one: one.get("id") == "prompt")
        editor.prompt(send=request("fs/write_text_file", path="/x/.env", content="x"))
        editor.prompt(send=request("fs/read_text_file", path="/x/a"))
        assert editor.until_method("fs/read_text_file")["params"]["path"] == "/x/a"
        editor.prompt(send=request("fs/write_text_file", path="/srv/a", content="x"))
        host.open_page()
        assert "fs/write_text_file" not in editor.list_methods()
        host.answer(action="approve")
        assert editor.until_method("fs/write_text_file")["params"]["path"] == "/srv/a"
        assert "terminal/create" not in editor.list_methods()


# Nothing but a clear yes lets a call run


def test_a_gate_that_cannot_ask_rejects(host: GatedHost, made: Path) -> None:
    with closing(Editor(host)) as editor:
        for policy in ("[[broken", f'server = "http://127.0.0.1:1"\nkey_file = "{host.home}/key"', ""):
            host.policy.write_text(policy)
            editor.received.clear()
            editor.prompt(run="touch made.txt")
            assert editor.until_outcome()["optionId"] == "no"
            assert not made.exists()


def test_nobody_answers_in_time(host: GatedHost, made: Path) -> None:
    with closing(Editor(host, "--wait", "1s")) as editor:
        editor.prompt(run="touch made.txt")
        assert editor.until_outcome()["optionId"] == "no"
        assert not made.exists()


def test_a_killed_hook_rejects(host: GatedHost, made: Path) -> None:
    with closing(Editor(host)) as editor:
        editor.prompt(run="touch made.txt")
        host.open_page()
        for pid in eventually(lambda: find_hooks(editor.process.pid)):
            os.kill(pid, signal.SIGKILL)
        assert editor.until_outcome()["optionId"] == "no"
        assert not made.exists()
    host.answer(action="reject")


def find_hooks(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-wweo", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    rows = (line.split(maxsplit=2) for line in listed.stdout.splitlines())
    return [int(pid) for pid, above, words in rows if int(above) == parent and "gate run acp" in words]


def test_an_agent_without_an_option_for_once_gets_no_more_than_that(host: GatedHost, made: Path) -> None:
    host.allow('[[allow]]\ncommand = "touch *"')
    with closing(Editor(host)) as editor:
        editor.prompt(run="touch made.txt", options=["allow_always", "reject_once"])
        assert "no option to allow this once" in editor.until_outcome()["error"]
        assert not made.exists()


NO_REQUESTS = [
    "no JSON",
    "[1]",
    "[" * 10_000,
    json.dumps([json.loads(request(ASK))]),
    json.dumps({"jsonrpc": "2.0", "method": ASK, "params": {}}),
    json.dumps({"jsonrpc": "2.0", "method": "terminal/create", "params": {"command": "rm"}}),
    json.dumps({"jsonrpc": "2.0", "id": None, "method": ASK, "params": {}}),
    request(ASK, toolCall=7, options="x"),
    request("terminal/create", command="rm", args=7),
    request("fs/write_text_file", path=["a"], content="x"),
]


def test_a_line_that_is_no_proper_request_runs_nothing(host: GatedHost) -> None:
    host.allow('[[deny]]\ntool = "*"')
    with closing(Editor(host)) as editor:
        for line in NO_REQUESTS:
            editor.received.clear()
            editor.prompt(send=line)
            editor.until(lambda one: one.get("id") == "prompt")
            assert editor.list_methods() == [], line


def test_a_request_that_is_too_large_for_the_server_is_rejected(host: GatedHost) -> None:
    with closing(Editor(host)) as editor:
        editor.prompt(edit="/srv/a.txt", size=12_000_000)
        assert editor.until_outcome()["optionId"] == "no"


def test_the_question_is_closed_when_the_agent_has_ended(host: GatedHost) -> None:
    editor = Editor(host)
    editor.prompt(run="touch made.txt")
    host.open_page()
    editor.process.send_signal(signal.SIGTERM)
    editor.close()
    assert host.until_closed()["status"] == "cancelled"


def test_the_exit_code_is_that_of_the_agent(host: GatedHost) -> None:
    editor = Editor(host)
    editor.prompt(exit=7)
    assert editor.process.wait(PATIENCE_S) == 7
    editor.close()


def test_an_agent_that_cannot_be_started_is_named(host: GatedHost) -> None:
    ran = subprocess.run(
        [INSTALLED, "acp", "--", "/nowhere/agent"],
        env=environment(host.env),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 1
    assert "/nowhere/agent cannot be started" in ran.stderr
