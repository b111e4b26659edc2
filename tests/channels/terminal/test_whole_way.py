"""From a service's 202 to a number typed in a terminal and back: a real server, a real keyboard."""

import asyncio
from pathlib import Path

import pytest

from placet.agent import AsyncAgent, ChannelBridge, Decided, PendingCases
from placet.channels.terminal import TerminalChannel
from tests.channels.scene import PATIENCE_S
from tests.channels.terminal.screens import Screen, TerminalHarness, open_window
from tests.server.running import RunningServer

pytestmark = pytest.mark.anyio
QUESTION = {
    "type": "escalation",
    "prompt": "The backup failed. What now?",
    "inline_actions": ["retry", "skip", "abort"],
}


@pytest.mark.parametrize(("answerers", "action"), [(["ada"], "skip"), ([], None)], ids=["Ada", "nobody"])
async def test_a_typed_number_decides_only_for_those_who_may(
    service: RunningServer, tmp_path: Path, answerers: list[str], action: str | None
):
    cases = PendingCases(tmp_path / "agent.db")
    with open_window() as terminal:
        screen = Screen()
        channel = TerminalChannel(screen=screen, keyboard=terminal.keyboard, user="ada")
        board = ChannelBridge(channel, cases, answerers=answerers)
        agent = AsyncAgent(tell=board.tell, pending=cases, interval_s=0.05)
        board.nudge = agent.nudge
        listening = asyncio.create_task(board.listen())
        url, headers = f"{service.url}/v1/cases", {"Authorization": f"Bearer {service.api_key}"}
        asking = asyncio.create_task(agent.request("POST", url, json=QUESTION, headers=headers))
        try:
            await screen.wait_until("The backup failed. What now?")
            if action is None:
                (shown,) = TerminalHarness(screen, channel).list_messages()
                assert "press Enter" not in shown.text
                assert service.url in shown.links[0]
                asking.cancel()
                return
            terminal.type("2\n")
            outcome = await asyncio.wait_for(asking, PATIENCE_S)
            assert isinstance(outcome, Decided)
            assert outcome.action == action
            assert outcome.raw["submission_context"]["submitted_via"] == "x-terminal_prompt"
            assert outcome.raw["submission_context"]["submitted_by"]["platform_user_id"] == "ada"
            await screen.wait_until("Your answer was recorded.")
            await screen.wait_until("Step left out")
        finally:
            listening.cancel()
            await asyncio.gather(listening, asking, return_exceptions=True)
            await board.aclose()
            await agent.aclose()
