"""A server that dies between opening a case and writing its hold leaves no question that leads nowhere."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest

from placet.cases.case import Case
from placet.desk.answer import Answer
from placet.errors import Unavailable
from placet.protocol.poll import Status
from placet.relay.holds.hold_service import case_owner
from placet.relay.holds.orphaned_cases import LOST_MESSAGE, MIN_AGE, OrphanedCaseSweeper
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding import DONE, decide, done, errand, pending, settled
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


def leave_a_stray(server: RunningServer, message_id: str) -> Case:
    """A case without a hold, as a server leaves it that dies before the second of two writes."""

    async def die(*_: Any, **__: Any) -> None:
        raise Unavailable("It is dead.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.parts.store, "add_hold", die)
        assert "error" in send(server, message_id).json()
    [case] = server.run(server.parts.store.list_cases(case_owner("default").name, limit=1))
    assert server.run(server.parts.store.get_hold_of_case(case.id)) is None
    return case


def case_of(server: RunningServer, case: Case) -> Case:
    found = server.run(server.parts.store.get_case(case.id))
    assert found is not None
    return found


def test_a_question_without_its_message_is_withdrawn_and_others_stay(server: RunningServer) -> None:
    stray = leave_a_stray(server, "stray-1")
    held = pending(server, send(server, "kept").json()["result"]["task"]["id"])
    looked_at = [server.parts.desk.now()]
    strays = OrphanedCaseSweeper(server.parts.store, server.parts.desk, now=lambda: looked_at[0])
    assert server.run(strays.once()) == 0  # it may be on its way
    looked_at[0] += MIN_AGE + timedelta(seconds=1)
    assert server.run(strays.once()) == 1
    withdrawn = case_of(server, stray)
    assert (withdrawn.status, withdrawn.reason) == (Status.CANCELLED, LOST_MESSAGE)
    kept = server.run(server.parts.store.get_case(held.case_id))
    assert kept is not None
    assert kept.live
    assert server.run(strays.once()) == 0


def test_a_message_sent_again_gets_the_question_that_is_there(server: RunningServer) -> None:
    stray = leave_a_stray(server, "stray-2")
    task_id = send(server, "stray-2").json()["result"]["task"]["id"]
    assert pending(server, task_id).case_id == stray.id


@pytest.mark.parametrize("ending", ["answered", "withdrawn"])
def test_a_message_sent_again_is_asked_about_anew_once_its_question_was_closed(
    agent: SdkAgent, server: RunningServer, ending: str
) -> None:
    stray = leave_a_stray(server, f"stray-{ending}")
    if ending == "answered":
        answer = Answer(action="approve", data={}, path="browser_submit", actor="link:reviewer")
        server.run(server.parts.desk.answer(stray.id, answer))
    else:
        server.run(server.parts.desk.cancel(stray.id, case_owner("default"), reason=LOST_MESSAGE))
    reached = len(agent.executor.texts)
    task_id = send(server, f"stray-{ending}").json()["result"]["task"]["id"]
    assert pending(server, task_id).case_id != stray.id
    assert len(agent.executor.texts) == reached
    settled(server, decide(server, task_id))

    async def look() -> None:
        async with errand(server) as made:
            assert (await done(made, task_id)).status.state == DONE

    asyncio.run(look())
    assert len(agent.executor.texts) == reached + 1
