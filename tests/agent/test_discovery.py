"""What an agent picks from a service's discovery document, and what it ignores there."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from placet.agent import Agent, Decided
from placet.agent.delivery_mode import choose_delivery_mode
from placet.agent.discovery import (
    UNKNOWN_SERVICE,
    ServiceCapabilities,
    build_discovery_url,
    choose_transport,
    read_capabilities,
)
from placet.agent.flow import Flow, SleepUntil
from placet.protocol.discovery import build_discovery
from placet.protocol.service_paths import DISCOVERY
from placet.protocol.versions import SPEC_VERSIONS
from tests.agent.test_flow import CASE
from tests.cli.strange_service import Reply, json_reply, strange_service
from tests.protocol.test_discovery import CARD

NOW = CASE.created_at


def describe(**transports: Any) -> bytes:
    return msgspec.json.encode({"hitl_protocol": {"spec_version": "0.9", **transports}})


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_our_own_document_says_that_streams_and_callbacks_work(version: str) -> None:
    service = read_capabilities(200, msgspec.json.encode(build_discovery(CARD, version)))
    assert service.supports_streams is True
    assert service.supports_callbacks is True
    assert service.recommended_interval_s == 30


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""),
        (200, b"<html>"),
        (200, b"\xff"),
        (200, b"[" * 100_000),
        (200, b'{"hitl_protocol": "0.5"}'),
        (200, b'{"hitl_protocol": {"capabilities": {"transports": "sse"}, "rate_limits": []}}'),
        (200, describe(rate_limits={"poll_min_interval_seconds": -1})),
        (200, describe(rate_limits={"poll_min_interval_seconds": True})),
        (500, describe(capabilities={"transports": ["sse"]})),
    ],
)
def test_a_document_that_says_nothing_changes_nothing(status: int, body: bytes) -> None:
    assert read_capabilities(status, body) == UNKNOWN_SERVICE


def test_the_flat_document_of_version_05_is_read_too() -> None:
    body = msgspec.json.encode({"hitl_protocol": "0.5", "features": {"callback": True}})
    assert read_capabilities(200, body) == ServiceCapabilities(supports_callbacks=True)


def test_the_transport_follows_from_the_case_the_service_and_the_agent() -> None:
    streaming = replace(CASE, events_url="https://acme.example/events")
    polling = replace(CASE, events_url=None)
    both = ServiceCapabilities(supports_streams=True, supports_callbacks=True)
    no_stream = replace(both, supports_streams=False)
    assert choose_transport(streaming, UNKNOWN_SERVICE, takes_callbacks=True) == "sse"
    assert choose_transport(streaming, no_stream, takes_callbacks=True) == "callback"
    assert choose_transport(streaming, no_stream, takes_callbacks=False) == "polling"
    assert choose_transport(polling, both, takes_callbacks=True) == "callback"
    assert choose_transport(polling, UNKNOWN_SERVICE, takes_callbacks=True) == "polling"


@pytest.mark.parametrize(
    ("service", "takes_callbacks", "wait_s"),
    [
        (UNKNOWN_SERVICE, False, 2),
        (ServiceCapabilities(min_interval_s=10), False, 10),
        (ServiceCapabilities(supports_callbacks=True), True, 30),
    ],
)
def test_the_pause_between_polls_is_what_the_service_asks_for(
    service: ServiceCapabilities, takes_callbacks: bool, wait_s: int
) -> None:
    case = replace(CASE, events_url=None)
    flow = Flow(case, now=NOW, dice=lambda: 0.0, service=service, takes_callbacks=takes_callbacks)
    flow.step(NOW)
    flow.report_response(200, {}, b'{"status": "pending"}', NOW)
    step = flow.step(NOW)
    assert isinstance(step, SleepUntil)
    assert step.until == NOW + timedelta(seconds=wait_s)


def test_a_service_is_asked_once_and_without_credentials() -> None:
    with strange_service() as service, Agent(tell=lambda notice: None) as agent:
        service.replies[DISCOVERY] = json_reply(
            {"hitl_protocol": {"capabilities": {"transports": ["polling"]}}}
        )
        service.asks(events_url=f"{service.url}/events")
        service.answer_polls_with(status="completed", result={"action": "confirm", "data": {}})
        for _ in range(2):
            headers = {"Authorization": "Bearer key-of-the-agent"}
            assert isinstance(agent.request("POST", f"{service.url}/act", headers=headers), Decided)
        (asked,) = service.discoveries
        assert "authorization" not in asked.headers
        assert "/events" not in {call.path for call in service.calls}


def test_a_discovery_that_redirects_is_not_followed() -> None:
    with strange_service() as service, Agent(tell=lambda notice: None) as agent:
        service.replies[DISCOVERY] = Reply(status=302, headers={"Location": "http://169.254.169.254/"})
        service.asks()
        service.answer_polls_with(status="completed", result={"action": "confirm", "data": {}})
        assert isinstance(agent.request("POST", f"{service.url}/act"), Decided)


def test_the_document_is_at_the_origin_of_the_service() -> None:
    assert (
        build_discovery_url("https://u:p@acme.example:8443/v1/x?y=1")
        == f"https://acme.example:8443{DISCOVERY}"
    )


LINK, LOCAL_LINK = "https://acme.example/review/1?token=t", "http://127.0.0.1:8400/review/1?token=t"


@pytest.mark.parametrize(
    ("link", "environ", "platform", "is_watched", "mode"),
    [
        (LINK, {"DISPLAY": ":0"}, "linux", True, "browser"),
        (LINK, {"WAYLAND_DISPLAY": "wayland-0"}, "linux", True, "browser"),
        (LINK, {}, "darwin", True, "browser"),
        (LINK, {}, "linux", True, "print"),
        (LINK, {"DISPLAY": ":0"}, "linux", False, "print"),
        (LINK, {"SSH_CONNECTION": "1 2 3 4", "DISPLAY": "localhost:10"}, "linux", True, "qr"),
        (LINK, {"SSH_TTY": "/dev/pts/1"}, "darwin", True, "qr"),
        (LOCAL_LINK, {"SSH_TTY": "/dev/pts/1"}, "linux", True, "print"),
        (LOCAL_LINK, {"DISPLAY": ":0"}, "linux", True, "browser"),
        (LINK, {"SSH_TTY": "/dev/pts/1"}, "linux", False, "print"),
    ],
)
def test_the_delivery_mode_follows_from_where_the_program_runs(
    link: str, environ: dict[str, str], platform: str, is_watched: bool, mode: str
) -> None:
    chosen = choose_delivery_mode(link, environ=environ, platform=platform, is_watched=is_watched)
    assert chosen == mode
