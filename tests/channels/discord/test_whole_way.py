"""From a service's 202 to a press in Discord and back, with services that answer fast and slowly."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.agent import Decided
from placet.errors import SignatureInvalid
from tests.channels.discord.discord_api import DiscordHarness
from tests.channels.loopback import Answer, Loopback, Request, loopback
from tests.channels.scene import PATIENCE_S, Scene
from tests.server.running import RunningServer

pytestmark = pytest.mark.anyio
QUESTION = {
    "type": "escalation",
    "prompt": "The upload failed *twice*. Go on?",
    "inline_actions": ["retry", "skip", "abort"],
    "context": {"file": "report.pdf"},
}


class DiscordScene(Scene[DiscordHarness]):
    """An agent that asks through Discord, and Ada, who may answer."""

    async def press(self, label: str, user_id: str = "7") -> dict[str, Any]:
        """What Discord gets for a press."""
        call = self.harness.sign_request(self.harness.build_press(self.reference(label), user_id=user_id))
        heard = await self.board.handle_webhook(call)
        response: dict[str, Any] = msgspec.json.decode(heard.body)
        return response


@pytest.fixture
async def scene(
    harness: DiscordHarness, service: RunningServer, tmp_path: Path
) -> AsyncIterator[DiscordScene]:
    scene = DiscordScene(harness, service, tmp_path, QUESTION, answerers=["7"])
    yield scene
    await scene.aclose()


async def test_a_press_in_discord_decides_and_is_told_at_once(scene: DiscordScene):
    task = await scene.ask()
    response = await scene.press("Skip this step")
    assert (response["type"], response["data"]["flags"]) == (4, 64 | 4)
    assert response["data"]["content"] == "Your answer was recorded."
    outcome = await asyncio.wait_for(task, PATIENCE_S)
    assert isinstance(outcome, Decided)
    assert outcome.action == "skip"
    context = outcome.raw["submission_context"]
    assert context["submitted_via"] == "discord_component"
    assert context["submitted_by"]["platform_user_id"] == "7"
    (shown,) = scene.harness.list_messages()
    assert "Step left out" in shown.text
    assert (shown.references, shown.problems) == ((), ())


async def test_a_stranger_is_told_in_private_and_decides_nothing(scene: DiscordScene):
    task = await scene.ask()
    response = await scene.press("Stop", user_id="8")
    assert response["data"]["content"].startswith("You are not allowed")
    assert not task.done()
    await scene.press("Try again")
    outcome = await asyncio.wait_for(task, PATIENCE_S)
    assert isinstance(outcome, Decided)
    assert outcome.action == "retry"


async def test_a_forged_press_decides_nothing(scene: DiscordScene):
    task = await scene.ask()
    call = scene.harness.sign_request(
        scene.harness.build_press(scene.harness.list_messages()[0].references[0])
    )
    for forgery in scene.harness.forgeries(call):
        with pytest.raises(SignatureInvalid):
            await scene.board.handle_webhook(forgery)
    assert not task.done()
    await scene.press("Stop")
    assert (await asyncio.wait_for(task, PATIENCE_S)).action == "abort"


class SlowService:
    """A service that takes its time over an answer."""

    def __init__(self) -> None:
        self.url = ""
        self.hurry = asyncio.Event()
        self.answer: dict[str, Any] | None = None

    async def handle(self, request: Request) -> Answer:
        if request.path == "/ask":
            return Answer(status=202, json={"status": "human_input_required", "hitl": self._hitl()})
        if request.path == "/submit":
            await asyncio.wait_for(self.hurry.wait(), PATIENCE_S)
            self.answer = request.json
            return Answer(json={"status": "completed", "case_id": "review_1"})
        result = {"action": self.answer["action"]} if self.answer is not None else None
        completed = {"status": "completed", "result": result, "completed_at": "2026-11-15T12:00:00Z"}
        return Answer(json={"case_id": "review_1", **(completed if result else {"status": "pending"})})

    def _hitl(self) -> dict[str, Any]:
        return {
            "spec_version": "0.9",
            "case_id": "review_1",
            **QUESTION,
            "review_url": f"{self.url}/review?token=t",
            "poll_url": f"{self.url}/poll",
            "submit_url": f"{self.url}/submit",
            "submit_token": "s" * 43,
            "created_at": datetime.now(UTC),
            "expires_at": datetime.now(UTC) + timedelta(hours=1),
        }


@pytest.fixture
async def slow() -> AsyncIterator[SlowService]:
    service = SlowService()
    server: Loopback
    async with loopback(service.handle) as server:
        service.url = server.url
        yield service


async def test_a_slow_service_does_not_make_discord_wait(scene: DiscordScene, slow: SlowService):
    task = await scene.ask(f"{slow.url}/ask")
    response = await scene.press("Stop")
    assert response == {"type": 6}
    slow.hurry.set()
    outcome = await asyncio.wait_for(task, PATIENCE_S)
    await scene.harness.server.wait_until(lambda: bool(scene.harness.list_replies()))
    assert isinstance(outcome, Decided)
    assert outcome.action == "abort"
    assert scene.harness.list_replies() == ["Your answer was recorded."]
