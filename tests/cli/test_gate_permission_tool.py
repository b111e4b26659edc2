"""The MCP tool that Claude Code asks for a permission, called by the real MCP client."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.cli.forked_command import INSTALLED
from tests.cli.gated_host import GatedHost, serving_an_inbox
from tests.cli.process import ServerProcess, environment

CALL = {"tool_name": "Bash", "input": {"command": "make deploy"}, "tool_use_id": "toolu_1"}
DECISIONS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"action": "approve"}, {"behavior": "allow", "updatedInput": CALL["input"]}),
    (
        {"action": "edit", "decision.1": "edit", "edit.1.command": "make -n deploy"},
        {"behavior": "allow", "updatedInput": {"command": "make -n deploy"}},
    ),
    (
        {"action": "reject", "decision.1": "reject", "reason.1": "Not today"},
        {"behavior": "deny", "message": "Rejected by ada: Not today"},
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    with serving_an_inbox(tmp_path_factory.mktemp("gate")) as opened:
        yield opened


@pytest.fixture
def host(server: tuple[ServerProcess, str], tmp_path: Path) -> Iterator[GatedHost]:
    with closing(GatedHost(tmp_path, *server)) as gated:
        yield gated


def ask_all(host: GatedHost, calls: list[dict[str, Any]]) -> list[Any]:
    """What Claude Code is told about each call."""

    async def main() -> list[Any]:
        started = StdioServerParameters(
            command=INSTALLED, args=["gate", "permission-tool"], env=environment(host.env)
        )
        async with Client(started) as client:
            replies = [await client.call_tool("approve", call) for call in calls]
        return [json.loads(reply.content[0].text) for reply in replies]  # type: ignore[union-attr]

    return anyio.run(main)


def test_a_person_decides_what_the_terminal_would_ask(host: GatedHost) -> None:
    def answer() -> None:
        for fields, _ in DECISIONS:
            host.answer(**fields)

    answering = threading.Thread(target=answer)
    answering.start()
    assert ask_all(host, [CALL] * len(DECISIONS)) == [expected for _, expected in DECISIONS]
    answering.join()


def test_rules_decide_and_a_broken_policy_denies(host: GatedHost) -> None:
    host.allow('[[allow]]\ncommand = "make *"\n[[deny]]\ncommand = "rm *"')
    removing = {**CALL, "input": {"command": "rm x"}}
    allowed, denied = ask_all(host, [CALL, removing])
    assert allowed["behavior"] == "allow"
    assert denied == {"behavior": "deny", "message": "The policy denies this. By deny rule 1 of the policy."}
    host.policy.write_text('server = "http://127.0.0.1:1"\nkey_file = "/nowhere"')
    (lost,) = ask_all(host, [CALL])
    assert lost["behavior"] == "deny"
