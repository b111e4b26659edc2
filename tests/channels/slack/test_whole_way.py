"""From a service's 202 to a press in Slack and back: a real server, by webhook and over Socket Mode."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.agent import Decided
from placet.errors import SignatureInvalid
from placet.ports.channel import SentMessage, WebhookRequest
from placet.testing.clock import DAYBREAK
from tests.channels.scene import PATIENCE_S, Scene
from tests.channels.slack.socket_server import socket_server
from tests.channels.slack.workspace import PLACE, TEAM, SlackHarness
from tests.server.running import RunningServer

pytestmark = pytest.mark.anyio
QUESTION = {
    "type": "confirmation",
    "prompt": "Pay *1,200 EUR* to <@U1>?",
    "inline_actions": ["confirm", "cancel"],
    "context": {"iban": "CH93 0076 2011 6238 5295 7", "due": "today"},
}


class SlackScene(Scene[SlackHarness]):
    """An agent that asks through Slack, and Ada, who may answer."""

    def press(self, label: str, *, user_id: str = "U7") -> WebhookRequest:
        (stamp,) = self.harness.workspace.messages
        ticket = SentMessage(channel="slack", conversation_id=PLACE, message_id=stamp, sent_at=DAYBREAK)
        return self.harness.press(ticket, self.reference(label), user_id=user_id, name="ada")

    async def wait_for_replies(self, *words: str) -> None:
        await self.harness.server.wait_until(lambda: list(self.harness.list_replies()) == list(words))


@pytest.fixture
async def scene(harness: SlackHarness, service: RunningServer, tmp_path: Path) -> AsyncIterator[SlackScene]:
    scene = SlackScene(harness, service, tmp_path, QUESTION, answerers=[f"{TEAM}:U7"])
    yield scene
    await scene.aclose()


async def test_a_press_by_webhook_decides_the_case_and_the_message_says_so(scene: SlackScene):
    task = await scene.ask()
    heard = await scene.board.handle_webhook(scene.press("Confirm"))
    outcome = await asyncio.wait_for(task, PATIENCE_S)
    await scene.harness.server.wait_until(lambda: "Confirmed" in scene.harness.list_messages()[0].text)
    assert (heard.status, heard.body) == (200, b"")
    assert isinstance(outcome, Decided)
    assert outcome.action == "confirm"
    context = outcome.raw["submission_context"]
    assert context["submitted_via"] == "slack_block_action"
    assert context["submitted_by"] == {
        "platform": "slack",
        "platform_user_id": f"{TEAM}:U7",
        "display_name": "ada",
    }
    (shown,) = scene.harness.list_messages()
    assert (shown.references, shown.links, shown.problems) == ((), (), ())
    assert "Pay *1,200 EUR* to <@U1>?" in shown.text
    await scene.wait_for_replies("Your answer was recorded.")


async def test_a_press_over_the_socket_decides_the_case(scene: SlackScene):
    async with socket_server() as sockets:
        scene.harness.workspace.socket_url = sockets.url
        listening = asyncio.create_task(scene.board.listen())
        task = await scene.ask()
        connection = await asyncio.wait_for(sockets.connections.get(), PATIENCE_S)
        await connection.hello()
        await connection.deliver(
            "e1", scene.harness.workspace.interaction("1.1", scene.reference("Do not do it"))
        )
        outcome = await asyncio.wait_for(task, PATIENCE_S)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    assert isinstance(outcome, Decided)
    assert outcome.action == "cancel"


async def test_presses_by_strangers_or_with_forged_signatures_are_ignored(scene: SlackScene):
    task = await scene.ask()
    for forgery in scene.harness.forgeries(scene.press("Confirm")):
        with pytest.raises(SignatureInvalid):
            await scene.board.handle_webhook(forgery)
    await scene.board.handle_webhook(scene.press("Confirm", user_id="U8"))
    await scene.wait_for_replies("You are not allowed to answer this here.")
    assert not task.done()
    await scene.board.handle_webhook(scene.press("Do not do it"))
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "cancel"


async def test_the_same_press_counts_once_however_often_it_comes(scene: SlackScene):
    task = await scene.ask()
    call = scene.press("Confirm")
    await asyncio.gather(*(scene.board.handle_webhook(call) for _ in range(3)))
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "confirm"
    assert set(scene.harness.list_replies()) == {"Your answer was recorded."}


async def test_slack_gets_no_token_besides_the_review_link(scene: SlackScene):
    task = await scene.ask()
    (pending,) = scene.agent.pending()
    await scene.board.handle_webhook(scene.press("Confirm"))
    await asyncio.wait_for(task, PATIENCE_S)
    scene.assert_nothing_secret_was_sent(pending.case.submit_token)
