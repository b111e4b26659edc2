"""A real server whose settings name a file of policies, and what it says when stored ones are broken."""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from placet.desk import clock
from placet.errors import SettingsError
from placet.relay.policy.policy_set import build_revision_record
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import RawAgent, answer_with, run_raw_agent
from tests.server.running import RunningServer, running

POLICIES = """
[[policies]]
name = "Block private keys"

[policies.config]
type = "REGEX_DETECTION"
enabledLegs = { requestToSink = true, responseToSource = true }
pattern = { regex = '-----BEGIN [A-Z ]*PRIVATE KEY-----', action = "BLOCK" }
"""
KEY = "-----BEGIN RSA PRIVATE KEY-----"
REPLY = {"jsonrpc": "2.0", "id": 7, "result": {"message": {"role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}}


@pytest.fixture(scope="module")
def agent() -> Iterator[RawAgent]:
    with run_raw_agent() as found:
        found.behave = answer_with(200, json.dumps(REPLY).encode())
        yield found


def build_settings(agent: RawAgent, policies: Path) -> RelaySettings:
    return RelaySettings(
        agents={"raw": AgentSettings(url=agent.url)},
        callers={"acme": CallerSettings(agents=("raw",))},
        policies=str(policies),
    )


@pytest.fixture(scope="module")
def server(agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("policies")
    (folder / "policies.toml").write_text(POLICIES)
    with running(folder, relay=build_settings(agent, folder / "policies.toml")) as found:
        yield found


def send(server: RunningServer, text: str) -> httpx.Response:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    call = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {"message": message}}
    with server.client(server.api_key) as client:
        return client.post("/relay/v1/agents/raw", json=call, headers={"A2A-Version": "1.0"})


def test_policies_of_the_file_are_in_force(server: RunningServer, agent: RawAgent) -> None:
    assert send(server, "hello").json() == REPLY
    asked = len(agent.requests)
    refused = send(server, f"keep {KEY}").json()["error"]
    assert (refused["code"], refused["message"]) == (
        -32080,
        "A policy blocked this message: Block private keys.",
    )
    assert len(agent.requests) == asked


def test_unreadable_policies_leave_the_earlier_ones_in_force_and_are_reported(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    relay = server.parts.relay
    assert relay is not None
    now = clock.now()
    broken = replace(build_revision_record("default", rev=1, now=now), kind="binding", id="broken", body=b"{")
    server.run(
        server.parts.store.change_records(save=[broken, build_revision_record("default", rev=1, now=now)])
    )
    server.run(relay.policy_cache.reload("default"))
    with server.client() as anyone:
        told = anyone.get("/readyz").json()
    assert told["concerns"] == ["The newest policies of 1 tenants are not in force. See the log."]
    assert "error" in send(server, KEY).json()
    assert "policy_load_failed" in caplog.text


def test_server_is_not_ready_while_presidio_starts(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = server.parts.relay
    assert relay is not None
    loading: Future[None] = Future()
    monkeypatch.setattr(relay.detectors.get("PRESIDIO_DETECTION"), "_warm_ups", [loading])
    with server.client() as anyone:
        refused = anyone.get("/readyz")
        loading.set_result(None)
        assert anyone.get("/readyz").status_code == 200
    assert (refused.status_code, "Presidio is starting" in refused.json()["message"]) == (503, True)


@pytest.mark.parametrize("content", ["", "[[policies]]\nname = 'x'", POLICIES.replace("-----BEGIN", "(")])
def test_a_server_does_not_start_with_policies_that_are_not_sound(
    agent: RawAgent, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(content)
    with (
        pytest.raises(SettingsError, match=r"relay\.policies"),
        running(tmp_path, relay=build_settings(agent, file)),
    ):
        pytest.fail("it started")
