"""`placet mcp-gate` as an assistant starts it, with a real server behind it and a person on a page."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

from examples.stage import find_free_port
from examples.stage import serve_app as stage
from placet.cli.mcp_gate import UpstreamServer, connect_to, mcp_gate
from placet.client import PlacetClient
from placet.errors import SettingsError
from placet.mcp.http_transport import build_http_app
from tests.cli.forked_command import forked_command
from tests.cli.process import ServerProcess, serving
from tests.mcp.assistant import ERA, HttpServer, Setting, run, wait_until
from tests.waiting import PATIENCE_S

RAW = Path(__file__).parent.parent / "hook" / "frameworks" / "raw_mcp_server.py"
ANN = {"to": "Ann"}
TOKEN = "a-token-for-this-test-only"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("placet")) as server:
        server.url()
        yield server


@pytest.fixture
def setting(server: ServerProcess, tmp_path: Path) -> Setting:
    return Setting(server, tmp_path)


def raw(setting: Setting) -> list[str]:
    return [sys.executable, "-S", str(RAW), str(setting.folder)]


@asynccontextmanager
async def over_stdio(setting: Setting, *arguments: str, **client: Any) -> AsyncIterator[Client]:
    command = StdioServerParameters(
        command=forked_command(),
        args=["mcp-gate", "--db", "gate.db", *arguments, "--", *raw(setting)],
        env=setting.env(),
        cwd=setting.folder,
    )
    with (setting.folder / "stderr").open("a") as log:
        async with Client(
            stdio_client(command, errlog=log), read_timeout_seconds=PATIENCE_S * 2, **client
        ) as connected:
            yield connected


def read_runs(setting: Setting) -> list[str]:
    return (setting.folder / "runs").read_text().split()


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def decide(result: CallToolResult, decision: Any) -> None:
    """What the page sends when the person has decided the call that this result is about."""
    link = re.search(r"http\S+token=\S+", text_of(result))
    assert link is not None
    call = httpx.get(link[0], follow_redirects=True, timeout=PATIENCE_S)
    call_id = re.search(r"call-[0-9a-f]{12}", call.text)
    assert call_id is not None
    word = decision if isinstance(decision, str) else decision["decision"]
    data = {"decisions": {call_id[0]: {"decision": decision} if isinstance(decision, str) else decision}}
    answer = httpx.post(
        link[0].replace("?", "/respond?"), json={"action": word, "data": data}, timeout=PATIENCE_S
    )
    assert answer.status_code == 200, answer.text


def test_a_call_waits_for_its_page_and_outlives_the_gate_that_asked(setting: Setting) -> None:
    async def main() -> None:
        async with over_stdio(setting, "--wait", "1s", mode=ERA["2025"]) as client:
            asked = await client.call_tool("echo", ANN)
            assert "waits for a person" in text_of(asked)
        decide(asked, {"decision": "edit", "arguments": {"to": "Eve"}})
        async with over_stdio(setting, mode=ERA["2026"]) as client:
            ran = await client.call_tool("echo", ANN)
            assert [block.text for block in ran.content if isinstance(block, TextContent)][
                1
            ] == '[{"to": "Eve"}, {}]'

    run(main())
    assert read_runs(setting).count("echo") == 1


def test_a_rule_that_matches_no_tool_stops_the_gate_unless_it_is_optional(setting: Setting) -> None:
    lines = ["Echo = true", '"*" = false', "leave = true", '"zz_*" = true', '"yy_*" = true']
    (setting.folder / "gate.toml").write_text("\n".join(['optional = ["yy_*"]', "[tools]", *lines]))
    command = [forked_command(), "mcp-gate", "--db", "gate.db", "--config", "gate.toml", "--", *raw(setting)]
    ended = subprocess.run(
        command,
        env={**os.environ, **setting.env()},
        cwd=setting.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert ended.returncode == 1
    assert "Echo matches no tool, so it stops nothing. Did you mean echo?" in ended.stderr
    assert "zz_* matches no tool, so it stops nothing." in ended.stderr
    assert ended.stderr.count("matches no tool") == 2
    assert "Traceback" not in ended.stderr


def test_the_server_behind_the_gate_is_not_told_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_KEY", "placet_secret")
    monkeypatch.setenv("NOTES_TOKEN", "its own")
    behind = connect_to(UpstreamServer(command=("npx", "notes")))()
    assert behind.env["NOTES_TOKEN"] == "its own"
    assert not [name for name in behind.env if name.startswith("PLACET_")]


def test_bearer_token_is_not_sent_over_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_UPSTREAM_TOKEN", TOKEN)
    with pytest.raises(SettingsError, match="https"):
        connect_to(UpstreamServer(url="http://notes.example/mcp"))


def test_over_http_and_before_a_server_that_is_reached_over_http(setting: Setting) -> None:
    said: list[str] = []
    behind = MCPServer("behind", log_level="ERROR")

    @behind.tool()
    def echo(to: str) -> None:
        said.append(to)

    behind.add_tool(lambda: "restocked", name="restock")
    (setting.folder / "gate.toml").write_text('wait = "30s"\n[tools]\n"e*" = "Says something"\n"*" = false\n')
    port = find_free_port()
    with stage(build_http_app(behind, host="127.0.0.1", names=(), token=TOKEN), port):
        arguments = ("--http", "--port", "0", "--db", "gate.db", "--config", "gate.toml")
        url = ("--url", f"http://127.0.0.1:{port}/mcp")
        env = setting.env(PLACET_UPSTREAM_TOKEN=TOKEN)
        gate = HttpServer(setting.folder, "mcp-gate", *arguments, *url, env=env)
        try:
            run(_ask_and_reject(gate, setting))
        finally:
            gate.process.kill()
            gate.process.wait(PATIENCE_S)
    assert said == []


async def _ask_and_reject(outer: HttpServer, setting: Setting) -> None:
    async with outer.assistant() as client:
        assert text_of(await client.call_tool("restock", {})) == "restocked"
        before = setting.pending()
        calling = asyncio.create_task(client.call_tool("echo", ANN))
        [case] = await wait_until(lambda: setting.pending() - before)
        with PlacetClient(setting.url, setting.key) as owner:
            await asyncio.to_thread(owner.cancel, case, reason="not now")
        told = await calling
        assert told.is_error
        assert "not now" in text_of(told)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Pass one MCP server"),
        (["--url", "http://127.0.0.1:1/mcp", "--", "x"], "Pass one MCP server"),
        (["--config", "missing.toml", "x"], "cannot be read"),
        (["--config", "odd.toml", "x"], "unknown tool"),
        (["--config", "command.toml"], "command must be a list"),
    ],
)
def test_a_gate_that_was_set_up_wrongly_does_not_start(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLACET_KEY", raising=False)
    Path("odd.toml").write_text("[tool]\n")
    Path("command.toml").write_text('command = "npx"\n')
    with pytest.raises(SettingsError, match=said):
        mcp_gate.main(["--key", "k", *arguments], standalone_mode=False)
    with pytest.raises(SettingsError, match="No API key"):
        mcp_gate.main(arguments, standalone_mode=False)


def test_same_command_in_another_folder_is_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = UpstreamServer(command=("npx", "files", ".")).scope
    monkeypatch.chdir(tmp_path)
    assert UpstreamServer(command=("npx", "files", ".")).scope != here
