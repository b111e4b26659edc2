"""Callbacks at an agent: a reason to look, never a reason to believe."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from placet.agent import AsyncAgent, CallbackReceiver, Callbacks, Decided, Notice
from placet.protocol.callback import HITL_SIGNATURE, format_secret, sign_callback
from tests.agent.clocks import ticking
from tests.server.running import EXAMPLE, RunningServer, running
from tests.waiting import PATIENCE_S

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECRET = format_secret(b"s" * 32)
BODY = json.dumps({"event": "review.completed", "case_id": "review_1"}).encode()


class Agenda:
    """What an agent was told to look at, on a clock that can be set."""

    def __init__(self, **options: Any) -> None:
        self.cases: list[str] = []
        self.now = NOW
        self.callbacks = Callbacks(self.cases.append, secrets=[SECRET], clock=lambda: self.now, **options)


def signed(body: bytes = BODY, *, id: str = "msg_1", at: datetime = NOW) -> dict[str, str]:
    return sign_callback(body, secrets=[SECRET], message_id=id, at=at)


def test_a_genuine_callback_is_looked_at_once_however_often_it_comes() -> None:
    agenda = Agenda()
    assert agenda.callbacks.take(BODY, signed()) == "verified"
    assert agenda.callbacks.take(BODY, signed(at=NOW + timedelta(seconds=5))) == "repeated"
    assert agenda.cases == ["review_1"]


def test_the_older_scheme_is_understood_and_its_copies_are_known() -> None:
    agenda = Agenda()
    headers = {HITL_SIGNATURE: signed()[HITL_SIGNATURE]}
    assert agenda.callbacks.take(BODY, headers) == "verified"
    assert agenda.callbacks.take(BODY, headers) == "repeated"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {HITL_SIGNATURE: "sha256=00"},
        signed(at=NOW - timedelta(hours=1)),
        signed(b'{"case_id":"other"}'),
    ],
    ids=["unsigned", "forged", "old", "of another body"],
)
def test_what_cannot_be_verified_brings_a_poll_now_and_then(headers: dict[str, str]) -> None:
    agenda = Agenda()
    assert {agenda.callbacks.take(BODY, headers) for _ in range(5)} == {"unverified"}
    assert agenda.cases == ["review_1"]
    agenda.now += timedelta(seconds=11)
    agenda.callbacks.take(BODY, headers)
    assert agenda.cases == ["review_1", "review_1"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"case_id": 7}', b'{"case_id": ""}', b"\xff", b"[" * 9999])
def test_what_names_no_case_is_unreadable(body: bytes) -> None:
    agenda = Agenda()
    assert agenda.callbacks.take(body, signed(body)) == "unreadable"
    assert agenda.cases == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_a_callback_ends_the_wait_though_no_poll_is_near(server: RunningServer) -> None:
    """The stream is off and the next poll an hour away; whoever sends the callback need not be trusted."""
    told = asyncio.Event()
    notices: list[Notice] = []

    async def tell(notice: Notice) -> None:
        notices.append(notice)
        told.set()

    async def play() -> None:
        async with (
            AsyncAgent(tell=tell, clock=ticking(server), streams=False, interval_s=3600) as agent,
            CallbackReceiver(Callbacks(agent.nudge)) as receiver,
            httpx.AsyncClient(timeout=PATIENCE_S) as service,
        ):
            body = {**EXAMPLE, "inline_actions": ["confirm"]}
            headers = {"Authorization": f"Bearer {server.api_key}"}
            asking = agent.request("POST", f"{server.url}/v1/cases", json=body, headers=headers)
            task = asyncio.create_task(asking)
            await asyncio.wait_for(told.wait(), 10)
            case = notices[0].case
            link = {"submit_url": case.submit_url, "submit_token": case.submit_token}
            await asyncio.to_thread(server.press, link, "confirm")
            reply = await service.post(receiver.url, json={"case_id": case.case_id})
            assert reply.status_code == 204
            assert isinstance(await asyncio.wait_for(task, 60), Decided)
            assert (await service.post(receiver.url, content=b"?")).status_code == 400

    asyncio.run(play())
