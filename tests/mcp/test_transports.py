"""`placet mcp` as clients meet it: over its standard streams and over HTTP, with its access checks."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct

from placet.agent.sse import EventReader
from placet.cli.mcp import mcp
from placet.errors import SettingsError
from tests.cli.process import ServerProcess, placet
from tests.mcp.assistant import ERA, START_S, HttpServer, Person, Setting, answer, read_structured, run
from tests.waiting import PATIENCE_S

TOKEN = "a-token-for-this-test-only"
ASK = {"prompt": "May this go out?", "text": "Dear Jo", "wait_seconds": 30}


@pytest.fixture(scope="module", autouse=True)
def servers(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator["McpServers"]:
    """Both are started at once: loading the SDK takes a second, and the first tests need neither."""
    setting = Setting(server, tmp_path_factory.mktemp("http"))
    guarded = Setting(server, tmp_path_factory.mktemp("guarded"))
    with (
        setting.over_http("--name", "mcp.example") as running,
        guarded.over_http(env=guarded.env(PLACET_MCP_TOKEN=TOKEN)) as keeping,
    ):
        yield McpServers(setting=setting, http=running, guarded=keeping)


@pytest.fixture
def http(servers: "McpServers") -> HttpServer:
    return servers.http


class McpServers(Struct, frozen=True, kw_only=True):
    """`placet mcp --http`, open to this machine, and with a token."""

    setting: Setting
    http: HttpServer
    guarded: HttpServer


async def ask_and_approve(connection: AbstractAsyncContextManager[Client], person: Person) -> None:
    async with connection as client:
        result = read_structured(await client.call_tool("ask_approval", ASK))
    assert (result["status"], result["action"], result["verified"]) == ("completed", "approve", True)
    assert len(person.seen) == 1
    assert result["review_url"] is None


@pytest.mark.parametrize("era", ERA)
def test_over_stdio_the_link_goes_to_the_person_and_the_decision_to_the_assistant(
    setting: Setting, era: str
) -> None:
    person = Person(then=partial(answer, action="approve"))
    run(ask_and_approve(setting.over_stdio(elicitation_callback=person, mode=ERA[era]), person))
    assert (setting.folder / "stderr").read_text() == ""


@pytest.mark.parametrize("era", ERA)
def test_over_http_the_link_goes_to_the_person_and_the_decision_to_the_assistant(
    http: HttpServer, era: str
) -> None:
    person = Person(then=partial(answer, action="approve"))
    run(ask_and_approve(http.assistant(elicitation_callback=person, mode=ERA[era]), person))


@pytest.mark.parametrize("era", ERA)
def test_without_elicitation_the_link_is_in_the_result_and_the_answer_can_be_checked(
    http: HttpServer, era: str
) -> None:
    async def main() -> None:
        async with http.assistant(mode=ERA[era]) as client:
            asked = read_structured(await client.call_tool("ask_approval", {**ASK, "wait_seconds": 0}))
            await asyncio.to_thread(answer, asked["review_url"], "reject", feedback="Too early")
            check = {"case_id": asked["case_id"], "wait_seconds": 30}
            ended = read_structured(await client.call_tool("check_question", check))
            assert (ended["action"], ended["data"]) == ("reject", {"feedback": "Too early"})

    run(main())


def test_a_client_that_only_knows_forms_is_never_sent_a_link_to_show(servers: McpServers) -> None:
    """In the words of 2025-06-18, where `elicitation: {}` meant forms, without the SDK's help."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "old", "version": "1"},
    }
    ask = {"name": "ask_approval", "arguments": {**ASK, "wait_seconds": 0}}
    accept = {"Accept": "application/json, text/event-stream"}
    with httpx.Client(headers=accept, timeout=PATIENCE_S) as client:

        def said(method: str, params: dict[str, Any] | None = None, **numbered: int) -> httpx.Response:
            body = {"jsonrpc": "2.0", "method": method, "params": params or {}, **numbered}
            return client.post(servers.http.url(), json=body)

        client.headers["Mcp-Session-Id"] = said("initialize", hello, id=1).headers["mcp-session-id"]
        assert said("notifications/initialized").status_code == 202
        events = EventReader().feed(said("tools/call", ask, id=2).content)
    (reply,) = [json.loads(event.data) for event in events if event.data]
    assert reply["id"] == 2
    assert reply["result"]["structuredContent"]["review_url"].startswith(servers.setting.url)


def test_neither_results_nor_logs_nor_the_file_hold_a_token_or_the_key(servers: McpServers) -> None:
    async def main() -> str:
        async with servers.http.assistant() as client:
            asked = await client.call_tool("ask_confirmation", {"prompt": "Go?", "wait_seconds": 0})
            listed = await client.call_tool("list_questions")
            failed = await client.call_tool("check_question", {"case_id": "review_none"})
            return "".join(one.model_dump_json() for one in (asked, listed, failed))

    said, setting = run(main()), servers.setting
    assert setting.key not in said
    assert "submit" not in said
    assert len(servers.http.stderr.splitlines()) == 1, "no more than where it runs"
    assert setting.key not in servers.http.stderr
    stored = b"".join(path.read_bytes() for path in setting.folder.glob("agent.db*"))
    assert setting.key.encode() not in stored
    assert b"token=" not in stored


def test_http_requires_the_token(servers: McpServers) -> None:
    async def main(url: str) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as browser,
            Client(streamable_http_client(url, http_client=browser)) as client,
        ):
            assert read_structured(await client.call_tool("list_questions"))["questions"] == []

    server, url = servers.guarded, servers.guarded.url()
    for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        response = httpx.post(url, json={}, headers=wrong, timeout=PATIENCE_S)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    run(main(url))
    assert server.stop() == 0
    assert TOKEN not in server.stderr


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}], ids=["host", "origin"]
)
def test_a_page_in_a_browser_cannot_reach_it(http: HttpServer, headers: dict[str, str]) -> None:
    def called(**named: str) -> int:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        accept = {"Accept": "application/json, text/event-stream"}
        return httpx.post(http.url(), json=body, headers={**accept, **named}, timeout=PATIENCE_S).status_code

    assert called(**headers) in (403, 421)
    assert called(Host="mcp.example") not in (403, 421)


@pytest.mark.parametrize(
    ("arguments", "token", "complaint"),
    [
        (("--key", "ключ"), "", "API key is empty or contains invalid characters"),
        (("--key", "k", "--server", "http://placet.example"), "", "must start with https://"),
        (("--key", "k", "--http", "--host", "0.0.0.0"), "", "set PLACET_MCP_TOKEN"),
        (("--key", "k", "--http"), "short", "at least 20 characters"),
        (("--key", "k", "--via", "telegram"), "", "PLACET_TELEGRAM_BOT_TOKEN"),
        (("--key", "k", "--pending", "taken/agent.db"), "", "taken/agent.db, cannot be opened"),
    ],
    ids=["odd key", "insecure", "open to all", "short token", "no messenger", "no place"],
)
def test_a_start_that_cannot_work_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], token: str, complaint: str
) -> None:
    (tmp_path / "taken").write_text("a file")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PLACET_MCP_TOKEN", token)
    with pytest.raises(SettingsError, match=complaint):
        mcp.main(list(arguments), standalone_mode=False)


def test_a_start_without_a_key_says_where_to_get_one(tmp_path: Path) -> None:
    ended = placet(tmp_path, "mcp")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("placet: No API key. Set PLACET_KEY")


def test_without_the_sdk_the_command_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['mcp'] = None; sys.argv = ['placet', 'mcp', '--key', 'k'];"
        "import placet.cli; placet.cli.main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == 'placet mcp needs the extra "mcp": pip install "placet[mcp]"\n'
