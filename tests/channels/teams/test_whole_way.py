"""From a service's 202 to a press in Teams and back: a real server, answers in the response to the press."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from placet.agent import Decided
from placet.errors import SignatureInvalid
from placet.ports.channel import SentMessage, WebhookRequest, WebhookResult
from placet.testing.clock import DAYBREAK
from tests.channels.scene import PATIENCE_S, Scene
from tests.channels.teams.bot_connector import CONVERSATION, TENANT, TeamsHarness
from tests.server.running import RunningServer

pytestmark = pytest.mark.anyio
QUESTION = {
    "type": "approval",
    "prompt": "Deploy **4.2** to production?",
    "inline_actions": ["approve", "reject"],
    "context": {"version": "4.2", "risk": "low"},
}


class PausableTransport(httpx.AsyncHTTPTransport):
    """The way to a service, open or not."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self.open.wait()
        return await super().handle_async_request(request)


class TeamsScene(Scene[TeamsHarness]):
    """An agent that asks through Teams, and Ada, who may answer."""

    def press(self, label: str, *, user_id: str = "4711") -> WebhookRequest:
        ticket = SentMessage(channel="teams", conversation_id=CONVERSATION, message_id="1", sent_at=DAYBREAK)
        return self.harness.press(ticket, self.reference(label), user_id=user_id, name="Ada")


@pytest.fixture
def transport() -> PausableTransport:
    return PausableTransport()


@pytest.fixture
async def scene(
    harness: TeamsHarness, service: RunningServer, transport: PausableTransport, tmp_path: Path
) -> AsyncIterator[TeamsScene]:
    http = httpx.AsyncClient(transport=transport)
    scene = TeamsScene(harness, service, tmp_path, QUESTION, answerers=[f"{TENANT}:4711"], http=http)
    yield scene
    await scene.aclose()


def read_message(heard: WebhookResult) -> str:
    """Return what Teams shows to the person who pressed."""
    body = msgspec.json.decode(heard.body)
    assert (body["statusCode"], body["type"]) == (200, "application/vnd.microsoft.activity.message")
    return str(body["value"])


async def test_a_press_in_teams_decides_the_case_and_the_card_says_so(scene: TeamsScene):
    task = await scene.ask()
    heard = await scene.board.handle_webhook(scene.press("Approve"))
    outcome = await asyncio.wait_for(task, PATIENCE_S)
    await scene.harness.server.wait_until(lambda: "Approved" in scene.harness.list_messages()[0].text)
    assert read_message(heard) == "Your answer was recorded."
    assert isinstance(outcome, Decided)
    assert outcome.action == "approve"
    context = outcome.raw["submission_context"]
    assert context["submitted_via"] == "teams_adaptive_card"
    assert context["submitted_by"]["platform"] == "teams"
    assert context["submitted_by"]["platform_user_id"] == f"{TENANT}:4711"
    (shown,) = scene.harness.list_messages()
    assert (shown.references, shown.problems) == ((), ())
    assert "Deploy **4.2** to production?" in shown.text
    assert scene.harness.list_replies() == []


async def test_a_stranger_is_told_so_at_once_and_decides_nothing(scene: TeamsScene):
    task = await scene.ask()
    heard = await scene.board.handle_webhook(scene.press("Approve", user_id="4712"))
    assert read_message(heard).startswith("You are not allowed")
    assert not task.done()
    await scene.board.handle_webhook(scene.press("Reject"))
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "reject"


async def test_the_same_press_counts_once_and_a_forged_one_never(scene: TeamsScene):
    task = await scene.ask()
    call = scene.press("Approve")
    with pytest.raises(SignatureInvalid):
        await scene.board.handle_webhook(scene.harness.forgeries(call)[0])
    heard = [await scene.board.handle_webhook(call) for _ in range(3)]
    assert [read_message(one) for one in heard] == ["Your answer was recorded."] * 3
    assert isinstance(await asyncio.wait_for(task, PATIENCE_S), Decided)


async def test_a_second_answer_comes_too_late_and_says_so(scene: TeamsScene):
    task = await scene.ask()
    first, second = scene.press("Approve"), scene.press("Reject")
    assert read_message(await scene.board.handle_webhook(first)) == "Your answer was recorded."
    assert read_message(await scene.board.handle_webhook(second)) in (
        "This question is closed already. Your answer was not recorded.",
        "This question is closed. If its link says otherwise, answer there.",
    )
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "approve"


async def test_webhook_is_answered_in_time_although_the_service_is_slow(
    scene: TeamsScene, transport: PausableTransport
):
    task = await scene.ask()
    transport.open.clear()
    heard = await scene.board.handle_webhook(scene.press("Approve"))
    assert read_message(heard) == "Your answer is on its way."
    transport.open.set()
    await asyncio.wait_for(task, PATIENCE_S)
    await scene.harness.server.wait_until(
        lambda: list(scene.harness.list_replies()) == ["Your answer was recorded."]
    )


async def test_teams_gets_no_token_besides_the_review_link(scene: TeamsScene):
    task = await scene.ask()
    (pending,) = scene.agent.pending()
    await scene.board.handle_webhook(scene.press("Approve"))
    await asyncio.wait_for(task, PATIENCE_S)
    scene.assert_nothing_secret_was_sent(pending.case.submit_token)
