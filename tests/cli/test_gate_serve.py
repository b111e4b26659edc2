"""`placet gate serve`: the hook of Claude Code over HTTP, as its settings of `type: "http"` call it."""

import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cli.gated_host import GatedHost, serving_an_inbox
from tests.cli.process import ServerProcess, placet
from tests.hook.coding_agents.hook_input import build_input
from tests.waiting import PATIENCE_S

TOKEN = "a-secret"
LIST = {"command": "ls"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    with serving_an_inbox(tmp_path_factory.mktemp("gate")) as opened:
        yield opened


@pytest.fixture(scope="module")
def host(server: tuple[ServerProcess, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatedHost]:
    with closing(GatedHost(tmp_path_factory.mktemp("home"), *server)) as gated:
        gated.allow('[[allow]]\ncommand = "ls"\n[[deny]]\ncommand = "rm *"\nreason = "Never."')
        yield gated


@pytest.fixture(scope="module")
def settings(host: GatedHost) -> Any:
    """The settings that the command prints, while it runs."""
    return host.serve_hooks(TOKEN)


def call(
    settings: dict[str, Any], event: str, content: bytes, *, token: str = TOKEN, timeout: float = PATIENCE_S
) -> dict[str, Any]:
    """What Claude Code reads from its hook."""
    (hook,) = settings["hooks"][event][0]["hooks"]
    assert (hook["type"], hook["timeout"]) == ("http", 600)
    headers = {
        name: value.replace(f"${hook['allowedEnvVars'][0]}", token).strip()
        for name, value in hook["headers"].items()
    }
    answered = httpx.post(hook["url"], content=content, headers=headers, timeout=timeout)
    assert answered.status_code == 200
    said: dict[str, Any] = answered.json()
    return said


def test_rules_decide_over_http(settings: dict[str, Any]) -> None:
    def decide(event: str, command: str) -> Any:
        said = call(settings, event, build_input(event, "Bash", {"command": command}))
        return said.get("hookSpecificOutput")

    assert decide("PreToolUse", "ls")["permissionDecision"] == "allow"
    assert decide("PreToolUse", "rm x")["permissionDecisionReason"] == "The policy denies this. Never."
    assert decide("PreToolUse", "make") is None
    assert decide("PermissionRequest", "ls")["decision"] == {"behavior": "allow"}


@pytest.mark.parametrize(
    ("content", "token"),
    [
        (build_input("PermissionRequest", "Bash", LIST), "wrong"),
        (build_input("PermissionRequest", "Bash", LIST), ""),
        (build_input("PreToolUse", "Bash", LIST), TOKEN),
        (b"no JSON", TOKEN),
        (b"", TOKEN),
        (b"x" * (16 * 1024 * 1024 + 1), TOKEN),
    ],
    ids=["wrong token", "no token", "another event", "no JSON", "nothing", "too large"],
)
def test_what_is_not_a_call_of_claude_code_is_denied(
    settings: dict[str, Any], content: bytes, token: str
) -> None:
    said = call(settings, "PermissionRequest", content, token=token)
    assert said["hookSpecificOutput"]["decision"]["behavior"] == "deny"


def test_a_person_decides_over_http(host: GatedHost, settings: dict[str, Any]) -> None:
    said = []
    content = build_input("PermissionRequest", "Bash", {"command": "make deploy"})
    asking = Thread(target=lambda: said.append(call(settings, "PermissionRequest", content)), daemon=True)
    asking.start()
    host.answer(action="approve")
    asking.join(PATIENCE_S)
    assert said[0]["hookSpecificOutput"]["decision"] == {"behavior": "allow"}


def test_a_question_closes_when_claude_code_hangs_up(host: GatedHost, settings: dict[str, Any]) -> None:
    content = build_input("PermissionRequest", "Bash", {"command": "make later"})
    url = urlsplit(settings["hooks"]["PermissionRequest"][0]["hooks"][0]["url"])
    headers = f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(content)}"
    with closing(socket.create_connection((url.hostname, url.port), PATIENCE_S)) as connection:
        connection.sendall(f"POST {url.path} HTTP/1.1\r\n{headers}\r\n\r\n".encode() + content)
        assert "make later" in host.open_page().text
    assert host.until_closed()["status"] == "cancelled"


def test_serve_needs_a_token(host: GatedHost) -> None:
    refused = placet(host.home, "gate", "serve", env={**host.env, "PLACET_GATE_TOKEN": ""})
    assert refused.returncode == 1
    assert "PLACET_GATE_TOKEN is not set" in refused.stderr
