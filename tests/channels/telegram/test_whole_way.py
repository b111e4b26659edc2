"""From a service's 202 to a press in Telegram and back: a real server, an agent without a public address."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from assent.agent import AsyncAgent, Decided, PendingCases, Switchboard
from assent.errors import SignatureInvalid
from assent.ports.channel import Ticket
from assent.testing.clock import DAYBREAK
from tests.channels.telegram.bot_api import CHAT, TelegramHarness
from tests.server.running import RunningServer, running

pytestmark = pytest.mark.anyio
PATIENCE_S = 20
QUESTION = {
    "type": "approval",
    "prompt": "Deploy <b>4.2</b> to production?",
    "inline_actions": ["approve", "reject"],
    "context": {"version": "4.2", "risk": "low"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server"), present=True) as server:
        yield server


class Scene:
    """An agent that asks through Telegram, and Ada, who may answer."""

    def __init__(self, harness: TelegramHarness, server: RunningServer, folder: Path) -> None:
        self.harness = harness
        self.server = server
        self.cases = PendingCases(folder / "agent.db")
        self.board = Switchboard(harness.channel, self.cases, answerers=["7"])
        self.agent = AsyncAgent(tell=self.board.tell, pending=self.cases, interval_s=0.05)
        self.board.nudge = self.agent.nudge

    def ask(self) -> "asyncio.Task[object]":
        headers = {"Authorization": f"Bearer {self.server.api_key}"}
        url = f"{self.server.url}/v1/cases"
        return asyncio.create_task(self.agent.request("POST", url, json=QUESTION, headers=headers))

    async def until_shown(self, words: str) -> None:
        """Wait until some message says this."""
        await self.harness.server.until(lambda: any(words in one.text for one in self.harness.shown()))

    def press(self, label: str, *, user_id: int = 7) -> None:
        shown = self.harness.shown()[0]
        reference = shown.references[shown.labels.index(label)]
        self.harness.api.deliver(self.harness.api.press(1, reference, user_id=user_id, name="Ada"))


@asynccontextmanager
async def listening(scene: Scene) -> AsyncIterator[None]:
    task = asyncio.create_task(scene.board.listen())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await scene.board.aclose()
        await scene.agent.aclose()


@pytest.fixture
def scene(harness: TelegramHarness, server: RunningServer, tmp_path: Path) -> Scene:
    return Scene(harness, server, tmp_path)


async def test_a_press_in_telegram_decides_the_case_and_the_message_says_so(scene: Scene):
    async with listening(scene):
        task = scene.ask()
        await scene.until_shown("Deploy <b>4.2</b> to production?")
        scene.press("Approve")
        outcome = await asyncio.wait_for(task, PATIENCE_S)
        await scene.until_shown("Approved")
        assert isinstance(outcome, Decided)
        assert outcome.action == "approve"
        context = outcome.raw["submission_context"]
        assert context["submitted_via"] == "telegram_inline_button"
        assert context["submitted_by"]["platform"] == "telegram"
        assert context["submitted_by"]["platform_user_id"] == "7"
    (shown,) = scene.harness.shown()
    assert (shown.references, shown.problems) == ((), ())


async def test_a_stranger_in_the_group_decides_nothing(scene: Scene):
    async with listening(scene):
        task = scene.ask()
        await scene.until_shown("Deploy")
        scene.press("Approve", user_id=8)
        await scene.harness.server.until(lambda: bool(scene.harness.told()))
        assert scene.harness.told()[0].startswith("You are not among those")
        assert not task.done()
        scene.press("Reject")
        outcome = await asyncio.wait_for(task, PATIENCE_S)
    assert isinstance(outcome, Decided)
    assert outcome.action == "reject"


@pytest.mark.spec("7.5-agent-token")
async def test_nothing_that_telegram_gets_opens_more_than_the_page(scene: Scene):
    async with listening(scene):
        task = scene.ask()
        await scene.until_shown("Deploy")
        (pending,) = scene.agent.pending()
        scene.press("Approve")
        await asyncio.wait_for(task, PATIENCE_S)
    sent = b"".join(request.body for request in scene.harness.server.requests).decode()
    assert pending.case.submit_token is not None
    assert pending.case.submit_token not in sent
    assert scene.server.api_key not in sent


async def test_the_same_press_by_webhook_counts_once_and_a_forged_one_never(scene: Scene):
    task = scene.ask()
    await scene.until_shown("Deploy")
    shown = scene.harness.shown()[0]
    ticket = Ticket(channel="telegram", place=str(CHAT), message_id="1", sent_at=DAYBREAK)
    call = scene.harness.press(ticket, shown.references[0], user_id="7", name="Ada")
    with pytest.raises(SignatureInvalid):
        await scene.board.hear(scene.harness.forgeries(call)[0])
    for _ in range(3):
        await scene.board.hear(call)
    outcome = await asyncio.wait_for(task, PATIENCE_S)
    await scene.board.aclose()
    await scene.agent.aclose()
    assert isinstance(outcome, Decided)
    assert set(scene.harness.told()) == {"Your answer was recorded."}
