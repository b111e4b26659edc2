"""Failures while a case is followed lose neither the case nor its decision."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from placet.agent import Agent, AsyncAgent, Decided, Notice, PendingCase, PendingCases
from placet.agent.async_agent import AsyncListener
from placet.agent.base_agent import MAX_STREAMS
from placet.agent.discovery import UNKNOWN_SERVICE
from placet.agent.flow import Flow, SleepUntil
from placet.agent.responses import MAX_BODY_BYTES, SUBMIT_TIMEOUT_S, BoundedBody, verify_outcome
from placet.errors import ChannelRefused, NotificationFailed, StillWaiting
from tests.agent.clocks import make_ticking_clock
from tests.agent.test_flow import CASE, STREAMING
from tests.server.running import EXAMPLE, RunningServer, running
from tests.waiting import PATIENCE_S

Use = Callable[[Any], Any]
TROUBLES = [ChannelRefused("The bot was blocked."), OSError("https://api.example/bot-secret")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("drive")) as server:
        yield server


def run_blocking(server: RunningServer, tell: Callable[[Notice], None], use: Use, **options: Any) -> Any:
    with Agent(tell=tell, clock=make_ticking_clock(server), **options) as agent:
        return use(agent)


def run_async(server: RunningServer, tell: Callable[[Notice], None], use: Use, **options: Any) -> Any:
    async def report(notice: Notice) -> None:
        tell(notice)

    async def main() -> Any:
        async with AsyncAgent(tell=report, clock=make_ticking_clock(server), **options) as agent:
            found: Awaitable[Any] = use(agent)
            return await found

    return asyncio.run(main())


@pytest.fixture(params=[run_blocking, run_async], ids=["blocking", "awaited"])
def drive(request: pytest.FixtureRequest, server: RunningServer) -> Callable[..., Any]:
    return lambda tell, use, **options: request.param(server, tell, use, **options)


def request_case(server: RunningServer) -> Use:
    body = {**EXAMPLE, "inline_actions": ["confirm", "cancel"]}
    headers = {"Authorization": f"Bearer {server.api_key}"}
    return lambda agent: agent.request("POST", f"{server.url}/v1/cases", json=body, headers=headers)


def resume_all(agent: Any) -> Any:
    return agent.resume_all()


def press(server: RunningServer, notice: Notice) -> None:
    server.press({"submit_url": notice.case.submit_url, "submit_token": notice.case.submit_token}, "confirm")


@pytest.mark.parametrize("trouble", TROUBLES, ids=["ours", "a stranger's"])
def test_failed_notice_is_sent_again_on_resume(
    server: RunningServer, drive: Callable[..., Any], tmp_path: Path, trouble: Exception
) -> None:
    def fails(notice: Notice) -> None:
        raise trouble

    cases = PendingCases(tmp_path / "agent.db")
    with pytest.raises(NotificationFailed, match="could not be sent") as raised:
        drive(fails, request_case(server), pending=cases)
    assert raised.value.__cause__ is trouble
    assert "secret" not in raised.value.message
    ((_, failed),) = drive(fails, resume_all, pending=cases)
    assert isinstance(failed, NotificationFailed)
    assert [one.is_notified for one in cases.list_pending()] == [False]

    def tell(notice: Notice) -> None:
        if notice.name == "requested":
            threading.Thread(target=press, args=(server, notice)).start()

    ((_, outcome),) = drive(tell, resume_all, pending=cases)
    assert isinstance(outcome, Decided)
    assert cases.list_pending() == []


def test_failing_messenger_does_not_lose_the_decision(
    server: RunningServer, drive: Callable[..., Any], tmp_path: Path
) -> None:
    def tell(notice: Notice) -> None:
        if notice.name != "requested":
            raise ChannelRefused
        threading.Thread(target=press, args=(server, notice)).start()

    cases = PendingCases(tmp_path / "agent.db")
    assert isinstance(drive(tell, request_case(server), pending=cases), Decided)
    assert cases.list_pending() == []


def test_untrusted_pending_case_does_not_stop_the_others(
    server: RunningServer, drive: Callable[..., Any], tmp_path: Path
) -> None:
    cases = PendingCases(tmp_path / "agent.db")
    for _ in range(2):
        with pytest.raises(StillWaiting):
            drive(
                lambda notice: press(server, notice),
                request_case(server),
                pending=cases,
                max_wait=timedelta(0),
            )
    cases.add(_untrusted_copy(cases))
    ends = drive(lambda notice: None, resume_all, pending=cases)
    assert sorted(type(end).__name__ for _, end in ends) == ["AddressRefused", "Decided", "Decided"]


def _untrusted_copy(cases: PendingCases) -> Any:
    one = cases.list_pending()[0]
    return replace(one, case=replace(one.case, case_id="other", poll_url="https://elsewhere.example/poll"))


def test_callback_wakes_a_blocking_wait(server: RunningServer) -> None:
    asked = threading.Event()
    woken: list[bool] = []

    def answer(notice: Notice) -> None:
        assert asked.wait(PATIENCE_S)  # the first poll is over, and the next an hour away
        press(server, notice)
        woken.append(agent.nudge(notice.case.case_id))

    def tell(notice: Notice) -> None:
        if notice.name == "requested":
            threading.Thread(target=answer, args=(notice,)).start()

    def came(response: httpx.Response) -> None:
        if response.request.url.path.endswith("/status"):
            asked.set()

    http = httpx.Client(event_hooks={"response": [came]}, timeout=PATIENCE_S)
    with (
        http,
        Agent(
            tell=tell, http=http, clock=make_ticking_clock(server), interval_s=3600, streams=False
        ) as agent,
    ):
        assert isinstance(request_case(server)(agent), Decided)
        assert agent.nudge("nobody follows this") is False
    assert woken == [True]


def test_wait_cancelled_during_an_event_ends() -> None:
    async def main() -> None:
        flow = Flow(CASE, now=CASE.created_at, dice=lambda: 0.0)
        async with httpx.AsyncClient() as http:
            listener = AsyncListener(http, flow, {}, lambda: CASE.created_at)
            task = asyncio.create_task(listener.wait(SleepUntil(until=CASE.expires_at)))
            await asyncio.sleep(0)
            listener.nudge()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=60)
            assert task.cancelled()

    asyncio.run(main())


def test_streams_of_many_cases_leave_connections_for_polls() -> None:
    agent = Agent(tell=lambda notice: None, clock=lambda: CASE.created_at)
    streaming = PendingCase(case=STREAMING)
    followed = [agent._build_flow(streaming, CASE.created_at, UNKNOWN_SERVICE) for _ in range(MAX_STREAMS)]
    agent._following += [object()] * len(followed)  # type: ignore[list-item]
    for flow, listens in (
        (followed[0], True),
        (agent._build_flow(streaming, CASE.created_at, UNKNOWN_SERVICE), False),
    ):
        flow.step(CASE.created_at)
        flow.report_response(200, {}, b'{"status": "pending"}', CASE.created_at)
        assert (getattr(flow.step(CASE.created_at), "listen", None) is not None) is listens


def test_endless_response_is_not_waited_for() -> None:
    now = [0.0]
    body = BoundedBody(lambda: now[0])
    body.add(b"{")
    assert bytes(body) == b"{"
    now[0] = SUBMIT_TIMEOUT_S + 1
    with pytest.raises(httpx.ReadTimeout):
        body.add(b" ")
    with pytest.raises(httpx.RemoteProtocolError):
        BoundedBody().add(b" " * (MAX_BODY_BYTES + 1))


@pytest.mark.parametrize("keys", [b"[]", b'{"keys": 5}', b'{"keys": [7]}', b"\xff", b"[" * 100_000, b"{}"])
def test_malformed_keys_verify_nothing(keys: bytes) -> None:
    raw = {"status": "completed", "case_id": "review_1", "result": {"action": "approve", "signature": {}}}
    outcome = verify_outcome(Decided(case_id="review_1", action="approve", raw=raw), keys)
    assert isinstance(outcome, Decided)
    assert outcome.verified is False
