"""From a service's 202 to a press in Teams and back: a real server, answers in the response to the press."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from assent.agent import AsyncAgent, Decided, PendingCases, Switchboard
from assent.errors import SignatureInvalid
from assent.ports.channel import Call, Heard, Ticket
from assent.testing.clock import DAYBREAK
from tests.channels.teams.bot_connector import CONVERSATION, TENANT, TeamsHarness
from tests.server.running import RunningServer, running

pytestmark = pytest.mark.anyio
PATIENCE_S = 20
QUESTION = {
    "type": "approval",
    "prompt": "Deploy **4.2** to production?",
    "inline_actions": ["approve", "reject"],
    "context": {"version": "4.2", "risk": "low"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server"), present=True) as server:
        yield server


class Held(httpx.AsyncHTTPTransport):
    """The way to a service, open or not."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self.open.wait()
        return await super().handle_async_request(request)


class Scene:
    """An agent that asks through Teams, and Ada, who may answer."""

    def __init__(self, harness: TeamsHarness, server: RunningServer, folder: Path) -> None:
        self.harness = harness
        self.server = server
        self.way = Held()
        cases = PendingCases(folder / "agent.db")
        self.board = Switchboard(
            harness.channel,
            cases,
            answerers=[f"{TENANT}:4711"],
            http=httpx.AsyncClient(transport=self.way),
        )
        self.agent = AsyncAgent(tell=self.board.tell, pending=cases, interval_s=0.05)
        self.board.nudge = self.agent.nudge

    async def ask(self) -> "asyncio.Task[Any]":
        headers = {"Authorization": f"Bearer {self.server.api_key}"}
        url = f"{self.server.url}/v1/cases"
        task = asyncio.create_task(self.agent.request("POST", url, json=QUESTION, headers=headers))
        await self.harness.server.until(lambda: bool(self.harness.shown()))
        return task

    def press(self, label: str, *, user_id: str = "4711") -> Call:
        shown = self.harness.shown()[0]
        reference = shown.references[shown.labels.index(label)]
        ticket = Ticket(channel="teams", place=CONVERSATION, message_id="1", sent_at=DAYBREAK)
        return self.harness.press(ticket, reference, user_id=user_id, name="Ada")

    async def aclose(self) -> None:
        await self.board.aclose()
        await self.agent.aclose()


@pytest.fixture
async def scene(harness: TeamsHarness, server: RunningServer, tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(harness, server, tmp_path)
    yield scene
    await scene.aclose()


def said(heard: Heard) -> str:
    """What Teams shows to whoever pressed."""
    body = msgspec.json.decode(heard.body)
    assert (body["statusCode"], body["type"]) == (200, "application/vnd.microsoft.activity.message")
    return str(body["value"])


async def test_a_press_in_teams_decides_the_case_and_the_card_says_so(scene: Scene):
    task = await scene.ask()
    heard = await scene.board.hear(scene.press("Approve"))
    outcome = await asyncio.wait_for(task, PATIENCE_S)
    await scene.harness.server.until(lambda: "Approved" in scene.harness.shown()[0].text)
    assert said(heard) == "Your answer was recorded."
    assert isinstance(outcome, Decided)
    assert outcome.action == "approve"
    context = outcome.raw["submission_context"]
    assert context["submitted_via"] == "teams_adaptive_card"
    assert context["submitted_by"]["platform"] == "teams"
    assert context["submitted_by"]["platform_user_id"] == f"{TENANT}:4711"
    (shown,) = scene.harness.shown()
    assert (shown.references, shown.problems) == ((), ())
    assert "Deploy **4.2** to production?" in shown.text
    assert scene.harness.told() == []


async def test_a_stranger_is_told_so_at_once_and_decides_nothing(scene: Scene):
    task = await scene.ask()
    heard = await scene.board.hear(scene.press("Approve", user_id="4712"))
    assert said(heard).startswith("You are not among those")
    assert not task.done()
    await scene.board.hear(scene.press("Reject"))
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "reject"


async def test_the_same_press_counts_once_and_a_forged_one_never(scene: Scene):
    task = await scene.ask()
    call = scene.press("Approve")
    with pytest.raises(SignatureInvalid):
        await scene.board.hear(scene.harness.forgeries(call)[0])
    heard = [await scene.board.hear(call) for _ in range(3)]
    assert [said(one) for one in heard] == ["Your answer was recorded."] * 3
    assert isinstance(await asyncio.wait_for(task, PATIENCE_S), Decided)


async def test_a_second_answer_comes_too_late_and_says_so(scene: Scene):
    task = await scene.ask()
    first, second = scene.press("Approve"), scene.press("Reject")
    assert said(await scene.board.hear(first)) == "Your answer was recorded."
    assert said(await scene.board.hear(second)) in (
        "Someone else was first. Your answer was not recorded.",
        "This question is closed.",
    )
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "approve"


async def test_teams_is_answered_in_time_though_the_service_is_slow(scene: Scene):
    task = await scene.ask()
    scene.way.open.clear()
    heard = await scene.board.hear(scene.press("Approve"))
    assert said(heard) == "Your answer is on its way."
    scene.way.open.set()
    await asyncio.wait_for(task, PATIENCE_S)
    await scene.harness.server.until(lambda: list(scene.harness.told()) == ["Your answer was recorded."])


async def test_nothing_that_teams_gets_opens_more_than_the_page(scene: Scene):
    task = await scene.ask()
    (pending,) = scene.agent.pending()
    await scene.board.hear(scene.press("Approve"))
    await asyncio.wait_for(task, PATIENCE_S)
    sent = b"".join(request.body for request in scene.harness.server.requests).decode()
    assert pending.case.submit_token is not None
    assert pending.case.submit_token not in sent
    assert scene.server.api_key not in sent
