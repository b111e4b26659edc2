"""Agents in the operator's own networks: called where `[relay] networks` lists them; nothing else is.

The test's network has two private addresses that lead to this machine; all the rest is real.
"""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.bootstrap.server import ServerParts, build
from placet.desk import clock
from placet.desk.api_keys import create_key
from placet.errors import AddressRefused, SettingsError
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from placet.settings import Settings
from tests.certificates import make_tls_contexts
from tests.raw_server import serve_connections
from tests.relay.a2a.raw_agent import RawAgent, answer_with
from tests.relay.sample_records import build_message_call

pytestmark = pytest.mark.anyio

OURS, OTHER = "10.20.0.5", "10.21.0.5"
LISTED = ("10.20.0.0/16",)
NAME = "clerk.agents.svc.cluster.local"
PUBLIC = "hooks.example.com"
CLERK = "/relay/v1/agents/clerk"
V1 = {"A2A-Version": "1.0"}


class FakeNetwork:
    """Names and addresses as this test has them, and where connections went."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names = {NAME: OURS, PUBLIC: OURS}
        self.went: list[str] = []
        look_up, connect = socket.getaddrinfo, asyncio.BaseEventLoop.create_connection

        def answer(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
            name = host.decode() if isinstance(host, bytes) else host
            return look_up(self.names.get(name, host), port, *rest, **more)

        async def go(loop: Any, make: Any, host: Any = None, port: Any = None, **more: Any) -> Any:
            self.went.append(host)
            there = "127.0.0.1" if host in (OURS, OTHER) else host
            return await connect(loop, make, there, port, **more)

        monkeypatch.setattr(socket, "getaddrinfo", answer)
        monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", go)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> FakeNetwork:
    return FakeNetwork(monkeypatch)


@asynccontextmanager
async def run_agent_at(host: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawAgent]:
    """An agent with a certificate for this host, from an authority that this process knows."""
    served, _ = make_tls_contexts(host, folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "server.pem"))
    agent = RawAgent("")
    async with serve_connections(agent.serve, ssl=served) as port:
        found = RawAgent(f"https://{host}:{port}")
        agent.url, agent.card = found.url, found.card
        agent.behave = answer_with(
            200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"done": True}}).encode()
        )
        yield agent


@asynccontextmanager
async def run_server(
    folder: Path, url: str, networks: tuple[str, ...] = LISTED
) -> AsyncIterator["RelayServer"]:
    """A server that relays to the agent at this address."""
    relay = RelaySettings(
        agents={"clerk": AgentSettings(url=url)},
        callers={"app": CallerSettings(agents=("clerk",))},
        networks=networks,
    )
    parts = await build(Settings(db=str(folder / "cases.db"), relay=relay, signing="none"))
    await parts.start()
    try:
        keys = [
            await create_key(parts.store, "app", now=clock.now()),
            await create_key(parts.store, "root", now=clock.now(), scopes=("admin",)),
        ]
        async with asyncio.timeout(60), RelayServer(parts, *keys) as server:
            yield server
    finally:
        await parts.stop()


class RelayServer:
    """The server's doors."""

    def __init__(self, parts: ServerParts, app: str, root: str) -> None:
        self.parts = parts
        self.app, self.root = self._client(app), self._client(root)

    def _client(self, key: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app=self.parts.app),
            base_url=self.parts.settings.public_url,
            headers={"Authorization": f"Bearer {key}"},
        )

    async def __aenter__(self) -> "RelayServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.app.aclose()
        await self.root.aclose()

    async def call(self) -> httpx.Response:
        return await self.app.post(CLERK, json=build_message_call("hello"), headers=V1)


@pytest.mark.parametrize("host", [OURS, NAME])
async def test_an_agent_in_a_listed_network_is_called_at_the_address_that_was_checked(
    host: str, network: FakeNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_agent_at(host, tmp_path, monkeypatch) as agent, run_server(tmp_path, agent.url) as server:
        card = await server.app.get(f"{CLERK}/.well-known/agent-card.json")
        assert card.status_code == 200, card.text
        assert card.json()["supportedInterfaces"]
        answer = await server.call()
        assert answer.json()["result"] == {"done": True}
        assert [json.loads(body)["method"] for _, body in agent.requests] == ["SendMessage"]
    assert set(network.went) == {OURS}


@pytest.mark.parametrize("moved", [OTHER, "127.0.0.1", "169.254.169.254", "93.184.216.34"])
async def test_name_that_resolves_outside_the_listed_networks_is_refused(
    moved: str, network: FakeNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network.names[NAME] = moved
    async with run_agent_at(NAME, tmp_path, monkeypatch) as agent, run_server(tmp_path, agent.url) as server:
        answer = await server.call()
        assert answer.json()["error"]["code"] == -32081, answer.text
        assert agent.requests == []
    assert network.went == []


async def test_an_agent_may_be_registered_in_a_listed_network_and_in_no_other(
    network: FakeNetwork, tmp_path: Path
) -> None:
    async with run_server(tmp_path, f"https://{OURS}") as server:

        async def register(name: str, **where: str) -> httpx.Response:
            return await server.root.post("/relay/v1/registry/agents", json={"agentId": name, **where})

        assert (await register("one", url=f"https://{NAME}", cardUrl=f"https://{OURS}/card")).is_success
        for place, url in enumerate((f"https://{OTHER}", "https://127.0.0.1", "https://169.254.169.254")):
            refused = await register(f"bad-{place}", url=url)
            assert refused.status_code == 400, refused.text
        assert (
            "add the network to relay.networks"
            in (await register("x", url=f"https://{OTHER}")).json()["message"]
        )
        assert (await register("y", url=f"https://{OURS}", cardUrl=f"https://{OTHER}/c")).status_code == 400


async def test_an_agent_whose_network_is_no_longer_listed_is_left_out(
    network: FakeNetwork, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    draft = {"agentId": "later", "url": f"https://{OURS}"}
    async with run_server(tmp_path, f"https://{OURS}") as server:
        assert (await server.root.post("/relay/v1/registry/agents", json=draft)).is_success
    with caplog.at_level(logging.WARNING, "placet.relay"):
        async with run_server(tmp_path, "https://clerk.example.com", networks=()) as server:
            await server.root.get("/relay/v1/registry/agents")
    assert "registry_entry_skipped name=later tenant=default" in caplog.text


@pytest.mark.parametrize("url", [f"https://{OURS}/in", f"https://{PUBLIC}/in", f"https://{NAME}/in"])
async def test_listed_networks_are_open_to_agents_only(
    url: str, network: FakeNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_agent_at(OURS, tmp_path, monkeypatch) as agent, run_server(tmp_path, agent.url) as server:
        assert (await server.call()).json()["result"] == {"done": True}
        network.went.clear()

        callback = {"type": "confirmation", "prompt": "Go?", "callback_url": url}
        refused = await server.app.post("/v1/cases", json=callback)
        assert (refused.status_code, "callback_url: the address is refused" in refused.text) == (400, True)

        pushed = build_message_call("hello")
        pushed["params"]["configuration"] = {"taskPushNotificationConfig": {"url": url}}
        answer = await server.app.post(CLERK, json=pushed, headers=V1)
        assert "The push notification's URL" in answer.json()["error"]["message"]
        assert len(agent.requests) == 1

        field = {"key": "city", "label": "City", "type": "text", "default_ref": url}
        form = {"type": "input", "prompt": "Where?", "context": {"form": {"fields": [field]}}}
        opened = await server.app.post("/v1/cases", json=form)
        assert opened.status_code == (202 if PUBLIC in url else 400), opened.text
        with pytest.raises(AddressRefused):  # what a form starts from is fetched so
            await server.parts.http.fetch(url, timeout_for=timedelta(seconds=5), max_bytes=1)
    assert network.went == []


async def test_forbidden_network_prevents_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"relay\.networks: '0\.0\.0\.0/0' is not inside"):
        async with run_server(tmp_path, "https://clerk.example.com", networks=("0.0.0.0/0",)):
            pass
