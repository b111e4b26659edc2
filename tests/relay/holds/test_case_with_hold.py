"""A case and its hold are written together: a server that fails meanwhile leaves neither."""

import asyncio

import httpx
import pytest
from msgspec.structs import replace

from placet.ports.case_store import CaseCreation
from placet.relay.holds.review_case import build_case_owner
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import (
    DONE,
    decide,
    find_pending_hold,
    open_sdk_caller,
    wait_until_done,
    wait_until_settled,
)
from tests.server.running import RunningServer
from tests.waiting import PATIENCE_S


def send(server: RunningServer, message_id: str) -> httpx.Response:
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": f"echo tulip {message_id}"}]}
    return httpx.post(
        f"{server.url}/relay/v1/agents/errands",
        json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}},
        headers={
            "Authorization": f"Bearer {server.api_key}",
            "A2A-Version": "1.0",
            "X-Correlation-Id": message_id,
        },
        timeout=PATIENCE_S,
    )


def fail_to_hold(server: RunningServer, message_id: str) -> None:
    """Send a message while the database fails after the case and the hold, before the audit events."""
    create_case = server.parts.store.create_case

    async def fail_midway(creation: CaseCreation) -> None:
        assert creation.hold is not None
        first = creation.hold.events[0]
        await create_case(replace(creation, hold=replace(creation.hold, events=(first, first))))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.parts.store, "create_case", fail_midway)
        assert "error" in send(server, message_id).json()


def newest_case(server: RunningServer) -> str | None:
    found = server.run(server.parts.store.list_cases(build_case_owner("default").name, limit=1))
    return found[0].id if found else None


def test_a_fault_while_a_message_is_held_leaves_no_case(server: RunningServer) -> None:
    held = find_pending_hold(server, send(server, "kept").json()["result"]["task"]["id"])
    fail_to_hold(server, "lost-1")
    assert newest_case(server) == held.case_id
    assert server.run(server.parts.store.get_hold_of_case(held.case_id)) is not None


def test_a_message_sent_again_after_a_fault_is_held_once_and_can_be_approved(
    agent: SdkAgent, server: RunningServer
) -> None:
    fail_to_hold(server, "lost-2")
    reached = len(agent.executor.texts)
    task_id = send(server, "lost-2").json()["result"]["task"]["id"]
    assert find_pending_hold(server, task_id).case_id == newest_case(server)
    assert len(agent.executor.texts) == reached
    wait_until_settled(server, decide(server, task_id))

    async def look() -> None:
        async with open_sdk_caller(server) as made:
            assert (await wait_until_done(made, task_id)).status.state == DONE

    asyncio.run(look())
    assert len(agent.executor.texts) == reached + 1
