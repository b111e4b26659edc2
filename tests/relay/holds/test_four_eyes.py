"""The four-eyes rule for held messages: their caller cannot approve them."""

import asyncio
from pathlib import Path

from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import find_pending_hold, open_sdk_caller, run_holding_server


def test_a_caller_cannot_approve_its_own_held_message(agent: SdkAgent, tmp_path: Path) -> None:
    with run_holding_server(tmp_path, {"errands": agent.url}, four_eyes=True) as server:

        async def send() -> str:
            async with open_sdk_caller(server) as caller:
                [sent] = await caller.send("echo tulip")
                return str(sent.task.id)

        hold = find_pending_hold(server, asyncio.run(send()))
        path, approve = f"/relay/v1/approvals/{hold.id}", {"action": "APPROVED"}
        with server.client(server.create_key("acme", "admin")) as caller:
            refused = caller.post(f"{path}/resolve", json=approve)
            assert (refused.status_code, refused.json()["error"]) == (403, "verification_required")
            assert caller.get(path).json()["status"] == "PENDING"
        with server.client(server.create_key("rita")) as reviewer:
            assert reviewer.post(f"{path}/resolve", json=approve).json()["status"] == "APPROVED"
