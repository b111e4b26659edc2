"""Services that mean harm, or are broken in ways that look like it: the agent stays calm and small."""

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
from placet.agent.flow import ANSWER_WITHIN_S, HURRIED_ANSWER_WITHIN_S, Poll
from placet.agent.poll_interval import parse_retry_after
from placet.agent.sync_agent import STUCK_AT_MOST
from placet.errors import StillWaiting
from placet.testing.clock import FakeClock
from tests.agent.test_flow import NOW, flow
from tests.cli.strange_service import Reply, StrangeService, strange_service

SHORT_S = 0.3
LONG_S = 60.0


@pytest.fixture
def service() -> Iterator[StrangeService]:
    with strange_service() as service:
        yield service


@pytest.fixture
def dripping() -> Iterator[str]:
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


async def nobody(notice: Notice) -> None:
    """Nobody looks."""


def awaited(url: str, within_s: float) -> Any:
    async def main() -> Any:
        async with AsyncAgent(tell=nobody) as agent:
            return await agent._fetch(Fetch(url, {}, within_s))

    return asyncio.run(main())


def blocking(url: str, within_s: float) -> Any:
    with Agent(tell=lambda notice: None) as agent:
        return agent._fetch(Fetch(url, {}, within_s))


@pytest.mark.parametrize("get", [awaited, blocking])
def test_headers_that_never_end_are_not_waited_for(get: Any, dripping: str) -> None:
    with pytest.raises(httpx.ReadTimeout, match="took too long"):
        get(dripping, SHORT_S)


def test_a_service_that_never_ends_takes_no_connections_from_the_others(service: StrangeService) -> None:
    """A poll that blocks cannot be ended from here: each is a thread and a connection of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(LONG_S)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/poll"
    service.replies["/poll"] = Reply(body=b"{}")
    with Agent(tell=lambda notice: None) as agent:
        for _ in range(STUCK_AT_MOST + 2):
            with pytest.raises(httpx.ReadTimeout, match="took too long"):
                agent._fetch(Fetch(url, {}, SHORT_S))
        assert agent._fetch(Fetch(f"{service.url}/poll", {}, LONG_S))[0] == 200
        stuck = [thread for threads in agent._stuck.values() for thread in threads]
        assert len(stuck) == STUCK_AT_MOST
        held = [listener.accept()[0] for _ in stuck]
        for one in (*held, listener):
            one.close()
        for thread in stuck:
            thread.join(LONG_S)
        with pytest.raises(httpx.ConnectError):  # it is asked again once the others have ended
            agent._fetch(Fetch(url, {}, LONG_S))


@pytest.mark.parametrize("get", [awaited, blocking])
def test_what_is_packed_in_a_way_that_could_hide_gigabytes_is_not_unpacked(
    get: Any, service: StrangeService
) -> None:
    service.replies["/poll"] = Reply(body=b"\x28\xb5\x2f\xfd", headers={"Content-Encoding": "zstd"})
    with pytest.raises(httpx.DecodingError, match="not requested"):
        get(f"{service.url}/poll", LONG_S)
    assert service.calls[0].headers["accept-encoding"] == "gzip, deflate"


def test_a_poll_takes_no_longer_than_there_is_patience() -> None:
    def within(**options: Any) -> float:
        step = flow(**options).step(NOW)
        assert isinstance(step, Poll)
        return step.within_s

    assert within() == ANSWER_WITHIN_S
    assert within(give_up_at=NOW + timedelta(seconds=12)) == 12
    assert within(give_up_at=NOW, asks_first=True) == HURRIED_ANSWER_WITHIN_S


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
def test_a_service_whose_clock_is_wrong_is_neither_hammered_nor_forgotten(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert parse_retry_after(headers, datetime(2026, 11, 15, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"zzz", headers={"Content-Encoding": "gzip"}),
        Reply(status=302, headers={"Location": "http://169.254.169.254/"}),
        Reply(body=b'{"status": "completed", "result": {"action": 7}}'),
        Reply(body=b'{"status": "completed"}'),
        Reply(body=b"\xff\xfe"),
        Reply(status=500),
    ],
    ids=["broken packing", "redirect", "no action", "no result", "no text", "failure"],
)
def test_a_poll_that_says_nothing_sensible_is_never_a_decision(service: StrangeService, reply: Reply) -> None:
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
    assert [notice.name for notice in heard] == ["told", "trouble"]
    assert {call.path for call in service.calls} == {"/act", "/poll"}
