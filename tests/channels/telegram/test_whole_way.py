"""From a service's 202 to a press in Telegram and back: a real server, an agent without a public address."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from placet.agent import Decided
from placet.errors import SignatureInvalid
from placet.ports.channel import SentMessage
from placet.testing.clock import DAYBREAK
from tests.channels.scene import PATIENCE_S, Scene
from tests.channels.telegram.bot_api import CHAT, TelegramHarness
from tests.server.running import RunningServer

pytestmark = pytest.mark.anyio
QUESTION = {
    "type": "approval",
    "prompt": "Deploy <b>4.2</b> to production?",
    "inline_actions": ["approve", "reject"],
    "context": {"version": "4.2", "risk": "low"},
}


class TelegramScene(Scene[TelegramHarness]):
    """An agent that asks through Telegram, and Ada, who may answer."""

    async def wait_for_message(self, words: str) -> None:
        """Wait until some message says this."""
        await self.harness.server.wait_until(
            lambda: any(words in one.text for one in self.harness.list_messages())
        )

    def press(self, label: str, *, user_id: int = 7) -> None:
        made = self.harness.api.press(1, self.reference(label), user_id=user_id, name="Ada")
        self.harness.api.deliver(made)


@asynccontextmanager
async def listen_in_background(scene: TelegramScene) -> AsyncIterator[None]:
    task = asyncio.create_task(scene.board.listen())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await scene.aclose()


@pytest.fixture
def scene(harness: TelegramHarness, service: RunningServer, tmp_path: Path) -> TelegramScene:
    return TelegramScene(harness, service, tmp_path, QUESTION, answerers=["7"])


async def test_a_press_in_telegram_decides_the_case_and_the_message_says_so(scene: TelegramScene):
    async with listen_in_background(scene):
        task = await scene.ask()
        await scene.wait_for_message("Deploy <b>4.2</b> to production?")
        scene.press("Approve")
        outcome = await asyncio.wait_for(task, PATIENCE_S)
        await scene.wait_for_message("Approved")
        assert isinstance(outcome, Decided)
        assert outcome.action == "approve"
        context = outcome.raw["submission_context"]
        assert context["submitted_via"] == "telegram_inline_button"
        assert context["submitted_by"]["platform"] == "telegram"
        assert context["submitted_by"]["platform_user_id"] == "7"
    (shown,) = scene.harness.list_messages()
    assert (shown.references, shown.problems) == ((), ())


async def test_a_stranger_in_the_group_decides_nothing(scene: TelegramScene):
    async with listen_in_background(scene):
        task = await scene.ask()
        scene.press("Approve", user_id=8)
        await scene.harness.server.wait_until(lambda: bool(scene.harness.list_replies()))
        assert scene.harness.list_replies()[0].startswith("You are not allowed")
        assert not task.done()
        scene.press("Reject")
        outcome = await asyncio.wait_for(task, PATIENCE_S)
    assert isinstance(outcome, Decided)
    assert outcome.action == "reject"


@pytest.mark.spec("7.5-agent-token")
async def test_telegram_gets_no_token_besides_the_review_link(scene: TelegramScene):
    async with listen_in_background(scene):
        task = await scene.ask()
        (pending,) = scene.agent.pending()
        scene.press("Approve")
        await asyncio.wait_for(task, PATIENCE_S)
    scene.assert_nothing_secret_was_sent(pending.case.submit_token)


async def test_the_same_press_by_webhook_counts_once_and_a_forged_one_never(scene: TelegramScene):
    task = await scene.ask()
    ticket = SentMessage(channel="telegram", conversation_id=str(CHAT), message_id="1", sent_at=DAYBREAK)
    call = scene.harness.press(ticket, scene.reference("Approve"), user_id="7", name="Ada")
    with pytest.raises(SignatureInvalid):
        await scene.board.handle_webhook(scene.harness.forgeries(call)[0])
    for _ in range(3):
        await scene.board.handle_webhook(call)
    outcome = await asyncio.wait_for(task, PATIENCE_S)
    await scene.aclose()
    assert isinstance(outcome, Decided)
    assert set(scene.harness.list_replies()) == {"Your answer was recorded."}
