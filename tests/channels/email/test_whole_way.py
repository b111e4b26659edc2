"""From a service's 202 to a link in a mail, its page, and back: a real service and a real mail server."""

import asyncio
from pathlib import Path

import pytest

from placet.agent import AsyncAgent, ChannelBridge, Decided, PendingCases
from tests.channels.email.mail_server import EmailHarness
from tests.channels.scene import PATIENCE_S
from tests.server.running import RunningServer

pytestmark = pytest.mark.anyio
QUESTION = {
    "type": "approval",
    "prompt": "Deploy 4.2 to production?",
    "inline_actions": ["approve", "reject"],
}


async def test_decision_by_the_mailed_link_is_reported_in_the_thread(
    harness: EmailHarness, service: RunningServer, tmp_path: Path
):
    cases = PendingCases(tmp_path / "agent.db")
    board = ChannelBridge(harness.channel, cases, answerers=["ada@people.example"])
    agent = AsyncAgent(tell=board.tell, pending=cases, interval_s=0.05)
    url, headers = f"{service.url}/v1/cases", {"Authorization": f"Bearer {service.api_key}"}
    asking = asyncio.create_task(agent.request("POST", url, json=QUESTION, headers=headers))
    await harness.server.wait_until(1)
    (question,) = harness.list_messages()
    (pending,) = agent.pending()
    with service.page({"review_url": question.links[0]}) as page:
        await asyncio.to_thread(page.post, "respond", {"action": "approve"})
    outcome = await asyncio.wait_for(asking, PATIENCE_S)
    assert isinstance(outcome, Decided)
    assert outcome.action == "approve"
    first, ending = harness.server.mails
    assert ending.message["In-Reply-To"] == first.message["Message-ID"]
    assert "Approved" in ending.part("plain")
    assert pending.case.submit_token is not None
    assert not any(pending.case.submit_token.encode() in mail.raw for mail in harness.server.mails)
    await board.aclose()
    await agent.aclose()
