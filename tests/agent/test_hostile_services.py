"""Hostile or broken services: the agent limits time, memory and connections."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from placet.agent import Agent, AsyncAgent, Notice
from placet.agent.base_agent import Fetch
from placet.agent.flow import MIN_RESPONSE_TIMEOUT_S, RESPONSE_TIMEOUT_S, Poll
from placet.agent.poll_interval import parse_retry_after
from placet.agent.sync_agent import MAX_STUCK_THREADS
from placet.errors import StillWaiting
from placet.testing.clock import FakeClock
from tests.agent.test_flow import NOW, make_flow
from tests.cli.strange_service import Reply, StrangeService, strange_service

SHORT_S = 0.3
LONG_S = 60.0


@pytest.fixture
def service() -> Iterator[StrangeService]:
    with strange_service() as service:
        yield service


@pytest.fixture
def endless_headers_url() -> Iterator[str]:
    """A service whose headers never end."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not over.wait(0.05):
                    connection.sendall(b"X-More: to come\r\n")

    thread = threading.Thread(target=drip)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/poll"
    over.set()
    listener.shutdown(socket.SHUT_RDWR)  # nobody may have come, and to close it would wake nobody
    listener.close()
    thread.join()


async def ignore_notice(notice: Notice) -> None:
    """Nobody looks."""


def fetch_async(url: str, within_s: float) -> Any:
    async def main() -> Any:
        async with AsyncAgent(tell=ignore_notice) as agent:
            return await agent._fetch(Fetch(url, {}, within_s))

    return asyncio.run(main())


def fetch_blocking(url: str, within_s: float) -> Any:
    with Agent(tell=lambda notice: None) as agent:
        return agent._fetch(Fetch(url, {}, within_s))


@pytest.mark.parametrize("get", [fetch_async, fetch_blocking])
def test_endless_headers_are_not_waited_for(get: Any, endless_headers_url: str) -> None:
    with pytest.raises(httpx.ReadTimeout, match="took too long"):
        get(endless_headers_url, SHORT_S)


def test_endless_response_does_not_exhaust_connections(service: StrangeService) -> None:
    """A poll that blocks cannot be ended from here: each is a thread and a connection of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(LONG_S)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/poll"
    service.replies["/poll"] = Reply(body=b"{}")
    with Agent(tell=lambda notice: None) as agent:
        for _ in range(MAX_STUCK_THREADS + 2):
            with pytest.raises(httpx.ReadTimeout, match="took too long"):
                agent._fetch(Fetch(url, {}, SHORT_S))
        assert agent._fetch(Fetch(f"{service.url}/poll", {}, LONG_S))[0] == 200
        stuck = [thread for threads in agent._stuck.values() for thread in threads]
        assert len(stuck) == MAX_STUCK_THREADS
        held = [listener.accept()[0] for _ in stuck]
        for one in (*held, listener):
            one.close()
        for thread in stuck:
            thread.join(LONG_S)
        with pytest.raises(httpx.ConnectError):  # it is asked again once the others have ended
            agent._fetch(Fetch(url, {}, LONG_S))


@pytest.mark.parametrize("get", [fetch_async, fetch_blocking])
def test_unrequested_content_encoding_is_refused(get: Any, service: StrangeService) -> None:
    service.replies["/poll"] = Reply(body=b"\x28\xb5\x2f\xfd", headers={"Content-Encoding": "zstd"})
    with pytest.raises(httpx.DecodingError, match="not requested"):
        get(f"{service.url}/poll", LONG_S)
    assert service.calls[0].headers["accept-encoding"] == "gzip, deflate"


def test_poll_ends_at_max_wait() -> None:
    def within(**options: Any) -> float:
        step = make_flow(**options).step(NOW)
        assert isinstance(step, Poll)
        return step.within_s

    assert within() == RESPONSE_TIMEOUT_S
    assert within(give_up_at=NOW + timedelta(seconds=12)) == 12
    assert within(give_up_at=NOW, asks_first=True) == MIN_RESPONSE_TIMEOUT_S


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "Sun, 01 Mar 2026 08:00:30 GMT", "date": "Sun, 01 Mar 2026 08:00:00 GMT"}, 30.0),
        ({"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}, None),
        ({"retry-after": "Mon, 01 Jan 2001 00:00:20 GMT", "date": "Mon, 01 Jan 2001 00:00:00 GMT"}, 20.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "99999999999999999999"}, 300.0),
        ({"retry-after": "0"}, 0.5),
    ],
)
def test_retry_after_is_parsed_and_bounded(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, datetime(2026, 11, 15, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"zzz", headers={"Content-Encoding": "gzip"}),
        Reply(body=b'{"status": "completed", "result": {"action": 7}}'),
        Reply(body=b'{"status": "completed"}'),
        Reply(body=b"\xff\xfe"),
        Reply(status=500),
        Reply(status=204),
    ],
    ids=["broken packing", "no action", "no result", "no text", "failure", "no content"],
)
def test_malformed_poll_response_is_never_a_decision(service: StrangeService, reply: Reply) -> None:
    service.asks()
    service.replies["/poll"] = reply
    heard: list[Notice] = []
    clock = FakeClock()

    def tell(notice: Notice) -> None:
        heard.append(notice)
        if notice.name == "trouble":
            clock.advance(timedelta(seconds=1))

    with (
        Agent(tell=tell, max_wait=timedelta(seconds=1), clock=clock) as agent,
        pytest.raises(StillWaiting),
    ):
        agent.request("POST", f"{service.url}/act")
    assert [notice.name for notice in heard] == ["requested", "trouble"]
    assert {call.path for call in service.calls} == {"/act", "/poll"}
