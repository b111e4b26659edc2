"""Callbacks at an agent: they trigger a poll and are never trusted as a decision."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from placet.agent import AsyncAgent, CallbackReceiver, Callbacks, Decided, Notice
from placet.protocol.callback import HITL_SIGNATURE, format_secret, sign_callback
from tests.agent.clocks import make_ticking_clock
from tests.server.running import EXAMPLE, RunningServer, running
from tests.waiting import PATIENCE_S

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECRET = format_secret(b"s" * 32)
BODY = json.dumps({"event": "review.completed", "case_id": "review_1"}).encode()


class RecordingCallbacks:
    """What an agent was told to look at, on a clock that can be set."""

    def __init__(self, **options: Any) -> None:
        self.cases: list[str] = []
        self.now = NOW
        self.callbacks = Callbacks(self.cases.append, secrets=[SECRET], clock=lambda: self.now, **options)


def sign_headers(body: bytes = BODY, *, id: str = "msg_1", at: datetime = NOW) -> dict[str, str]:
    return sign_callback(body, secrets=[SECRET], message_id=id, at=at)


def test_repeated_callback_is_polled_once() -> None:
    agenda = RecordingCallbacks()
    assert agenda.callbacks.take(BODY, sign_headers()) == "verified"
    assert agenda.callbacks.take(BODY, sign_headers(at=NOW + timedelta(seconds=5))) == "repeated"
    assert agenda.cases == ["review_1"]


def test_older_signature_scheme_is_accepted_and_deduplicated() -> None:
    agenda = RecordingCallbacks()
    headers = {HITL_SIGNATURE: sign_headers()[HITL_SIGNATURE]}
    assert agenda.callbacks.take(BODY, headers) == "verified"
    assert agenda.callbacks.take(BODY, headers) == "repeated"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {HITL_SIGNATURE: "sha256=00"},
        sign_headers(at=NOW - timedelta(hours=1)),
        sign_headers(b'{"case_id":"other"}'),
    ],
    ids=["unsigned", "forged", "old", "of another body"],
)
def test_unverified_callbacks_cause_rate_limited_polls(headers: dict[str, str]) -> None:
    agenda = RecordingCallbacks()
    assert {agenda.callbacks.take(BODY, headers) for _ in range(5)} == {"unverified"}
    assert agenda.cases == ["review_1"]
    agenda.now += timedelta(seconds=11)
    agenda.callbacks.take(BODY, headers)
    assert agenda.cases == ["review_1", "review_1"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"case_id": 7}', b'{"case_id": ""}', b"\xff", b"[" * 9999])
def test_callback_without_a_case_id_is_unreadable(body: bytes) -> None:
    agenda = RecordingCallbacks()
    assert agenda.callbacks.take(body, sign_headers(body)) == "unreadable"
    assert agenda.cases == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_a_callback_ends_the_wait_though_no_poll_is_near(server: RunningServer) -> None:
    """There is no stream, and the next poll is an hour away. The sender of the callback is not trusted."""
    told = asyncio.Event()
    notices: list[Notice] = []

    async def tell(notice: Notice) -> None:
        notices.append(notice)
        told.set()

    async def play() -> None:
        async with (
            AsyncAgent(tell=tell, clock=make_ticking_clock(server), streams=False, interval_s=3600) as agent,
            CallbackReceiver(Callbacks(agent.nudge)) as receiver,
            httpx.AsyncClient(timeout=PATIENCE_S) as service,
        ):
            body = {**EXAMPLE, "inline_actions": ["confirm"]}
            headers = {"Authorization": f"Bearer {server.api_key}"}
            asking = agent.request("POST", f"{server.url}/v1/cases", json=body, headers=headers)
            task = asyncio.create_task(asking)
            await asyncio.wait_for(told.wait(), 60)
            case = notices[0].case
            link = {"submit_url": case.submit_url, "submit_token": case.submit_token}
            await asyncio.to_thread(server.press, link, "confirm")
            reply = await service.post(receiver.url, json={"case_id": case.case_id})
            assert reply.status_code == 204
            assert isinstance(await asyncio.wait_for(task, 60), Decided)
            assert (await service.post(receiver.url, content=b"?")).status_code == 400

    asyncio.run(play())
