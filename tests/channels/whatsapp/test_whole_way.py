"""From a service's 202 to a press in WhatsApp and back: a real server, presses by webhook."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.agent import Decided
from placet.errors import SignatureInvalid
from placet.ports.channel import SentMessage, WebhookRequest
from placet.testing.clock import DAYBREAK
from tests.channels.scene import PATIENCE_S, Scene
from tests.channels.whatsapp.cloud_api import TO, WhatsAppHarness, build_failure_request, parts_of
from tests.server.running import RunningServer

pytestmark = pytest.mark.anyio
QUESTION = {
    "type": "approval",
    "prompt": "Deploy *4.2* to production?",
    "inline_actions": ["approve", "reject"],
    "context": {"version": "4.2", "risk": "low"},
}


class WhatsAppScene(Scene[WhatsAppHarness]):
    """An agent that asks through WhatsApp, and Ada, who may answer."""

    def press(self, label: str, *, user_id: str = TO) -> WebhookRequest:
        message_id = next(iter(self.harness.api.messages))
        ticket = SentMessage(channel="whatsapp", conversation_id=TO, message_id=message_id, sent_at=DAYBREAK)
        return self.harness.press(ticket, self.reference(label), user_id=user_id, name="Ada")


@pytest.fixture
async def scene(
    harness_with_template: WhatsAppHarness, service: RunningServer, tmp_path: Path
) -> AsyncIterator[WhatsAppScene]:
    scene = WhatsAppScene(harness_with_template, service, tmp_path, QUESTION, answerers=[TO])
    yield scene
    await scene.aclose()


async def test_a_press_in_whatsapp_decides_the_case_and_a_reply_says_so(scene: WhatsAppScene):
    task = await scene.ask()
    await scene.board.handle_webhook(scene.press("Approve"))
    outcome = await asyncio.wait_for(task, PATIENCE_S)
    assert isinstance(outcome, Decided)
    assert outcome.action == "approve"
    context = outcome.raw["submission_context"]
    assert context["submitted_via"] == "whatsapp_reply_button"
    assert context["submitted_by"] == {
        "platform": "whatsapp",
        "platform_user_id": TO,
        "display_name": "Ada",
    }
    assert list(scene.harness.list_replies()) == ["Your answer was recorded."]
    (ending,) = scene.harness.api.replies_to(next(iter(scene.harness.api.messages)))
    assert "Approved" in parts_of(ending)[0]
    assert "Deploy *4.2* to production?" in scene.harness.list_messages()[0].text
    assert scene.harness.api.problems == []


async def test_a_press_that_is_delivered_for_days_counts_once(scene: WhatsAppScene):
    task = await scene.ask()
    call, late = scene.press("Approve"), scene.press("Reject")
    with pytest.raises(SignatureInvalid):
        await scene.board.handle_webhook(scene.harness.forgeries(call)[0])
    for _ in range(2):
        await scene.board.handle_webhook(call)
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "approve"
    await scene.board.handle_webhook(call)
    await scene.board.handle_webhook(late)
    told = list(scene.harness.list_replies())
    assert told[:3] == ["Your answer was recorded."] * 3
    assert told[3] in (
        "This question is closed already. Your answer was not recorded.",
        "This question is closed. If its link says otherwise, answer there.",
    )


async def test_a_stranger_decides_nothing(scene: WhatsAppScene):
    task = await scene.ask()
    await scene.board.handle_webhook(scene.press("Approve", user_id="4712345"))
    assert list(scene.harness.list_replies()) == ["You are not allowed to answer this here."]
    assert not task.done()
    await scene.board.handle_webhook(scene.press("Reject"))
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "reject"


async def test_template_link_decides_after_the_24_hour_window(scene: WhatsAppScene):
    task = await scene.ask()
    await scene.board.handle_webhook(build_failure_request(next(iter(scene.harness.api.messages))))
    await scene.harness.server.wait_until(lambda: len(scene.harness.api.messages) == 2)
    link = parts_of(list(scene.harness.api.messages.values())[1])[2].split(" ")[-1]
    with scene.service.page({"review_url": link}) as page:
        await asyncio.to_thread(page.post, "respond", {"action": "approve"})
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "approve"


async def test_whatsapp_gets_no_token_besides_the_review_link(scene: WhatsAppScene):
    task = await scene.ask()
    (pending,) = scene.agent.pending()
    await scene.board.handle_webhook(scene.press("Approve"))
    await asyncio.wait_for(task, PATIENCE_S)
    scene.assert_nothing_secret_was_sent(pending.case.submit_token)
