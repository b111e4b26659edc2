"""Approvals over HTTP: listed, read, decided once, and one decision with the page and the button."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from placet.ports.hold_store import HoldRow
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import (
    DONE,
    find_pending_hold,
    get_task,
    list_artifact_texts,
    open_sdk_caller,
    read_metadata,
    wait_until_settled,
)
from tests.server.running import ReviewPage, RunningServer
from tests.waiting import eventually

PATH = "/relay/v1/approvals"


@pytest.fixture(scope="module")
def reviewer(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.create_key("rita")) as found:
        yield found


@pytest.fixture(scope="module")
def reader(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.create_key("ravi")) as found:
        yield found


def send_held(server: RunningServer, text: str = "echo tulip") -> HoldRow:
    async def run() -> str:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send(text)
            return str(sent.task.id)

    return find_pending_hold(server, asyncio.run(run()))


def get_task_as_caller(server: RunningServer, task_id: str) -> Any:
    async def run() -> Any:
        async with open_sdk_caller(server) as made:
            return await get_task(made, task_id)

    return asyncio.run(run())


def wait_for_artifact(server: RunningServer, task_id: str) -> str:
    """Return the text of the task's first artifact; the agent may add it after it has taken the message."""
    return eventually(lambda: list_artifact_texts(get_task_as_caller(server, task_id)))[0]


def test_an_approval_has_all_its_fields(server: RunningServer, reviewer: httpx.Client) -> None:
    hold = send_held(server, "echo my tulip")
    found = reviewer.get(f"{PATH}/{hold.id}").json()
    expected = {
        "id": hold.id,
        "status": "PENDING",
        "taskId": hold.task_id,
        "tenantId": "default",
        "agentId": "errands",
        "agentMessageRole": "user",
        "agentMessageText": "echo my tulip",
        "agentMessageData": None,
        "detectionSource": "POLICY_ESCALATION",
        "sourceAgentId": "acme",
        "sourceUserId": None,
        "sinkAgentId": "errands",
        "policyName": "No tulip",
        "policyVersion": "1",
        "policyLevel": "TENANT",
        "matchedContent": "tulip",
        "leg": "requestFromSource",
        "caseId": hold.case_id,
        "correlationId": hold.correlation_id,
        "resolution": None,
    }
    assert {name: found[name] for name in expected} == expected
    assert found["contextId"]
    assert found["createdAt"]
    assert len(found["digest"]) == 64
    assert "is held" in found["summary"]
    assert "tulip" not in found["summary"].replace("No tulip", "")


def test_a_list_stays_short_however_much_data_its_messages_carry(
    server: RunningServer, reviewer: httpx.Client
) -> None:
    data: dict[str, Any] = {"rows": [[] for _ in range(100_000)]}
    parts = [{"text": "echo a heavy tulip"}, {"data": data}, {"data": {"few": [1]}}]
    message = {"messageId": "heavy", "role": "ROLE_USER", "parts": parts}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    with server.client(server.create_key("acme")) as caller:
        answer = caller.post("/relay/v1/agents/errands", json=call, headers={"A2A-Version": "1.0"})
    task = answer.json()["result"]["task"]
    listed = reviewer.get(PATH, params={"taskId": task["id"]})
    [found] = listed.json()["content"]
    assert (len(listed.content) < 5_000, found["agentMessageData"]) == (True, None)
    whole = reviewer.get(f"{PATH}/{found['id']}").json()
    assert whole == found | {"agentMessageData": [data, {"few": [1]}]}


def test_an_agents_question_names_no_policy(server: RunningServer, reviewer: httpx.Client) -> None:
    found = reviewer.get(f"{PATH}/{send_held(server, 'ask').id}").json()
    assert found["detectionSource"] == "AGENT_INPUT_REQUIRED"
    assert (found["policyName"], found["matchedContent"]) == (None, None)
    assert (found["agentMessageRole"], found["agentMessageText"]) == ("agent", "which one?")


def test_approval_forwards_and_is_visible_at_once(
    agent: SdkAgent, server: RunningServer, reviewer: httpx.Client
) -> None:
    hold = send_held(server)
    response = reviewer.post(f"{PATH}/{hold.id}/resolve", json={"action": "APPROVED", "message": "Fine."})
    assert response.status_code == 200
    told = response.json()
    assert told["status"] == "APPROVED"
    resolution = told["resolution"]
    assert (resolution["action"], resolution["message"], resolution["resolvedBy"]) == (
        "APPROVED",
        "Fine.",
        "rita",
    )
    wait_until_settled(server, hold)
    assert wait_for_artifact(server, hold.task_id)
    assert get_task_as_caller(server, hold.task_id).status.state == DONE
    assert reviewer.get(f"{PATH}/{hold.id}").json()["completedAt"]


def test_rejecting_and_answering_for_an_agent(server: RunningServer, reviewer: httpx.Client) -> None:
    refused, question = send_held(server), send_held(server, "ask")
    reviewer.post(f"{PATH}/{refused.id}/resolve", json={"action": "REJECTED"}).raise_for_status()
    answer = {"action": "APPROVED", "message": "the left one"}
    reviewer.post(f"{PATH}/{question.id}/resolve", json=answer).raise_for_status()
    wait_until_settled(server, refused)
    wait_until_settled(server, question)
    assert read_metadata(get_task_as_caller(server, refused.task_id))["relay_reason"] == "HITL_REJECTED"
    assert wait_for_artifact(server, question.task_id) == "the left one 0"


def test_ten_decisions_at_once_have_one_winner(server: RunningServer, reviewer: httpx.Client) -> None:
    hold = send_held(server)

    def decide(number: int) -> int:
        action = "APPROVED" if number % 2 else "REJECTED"
        return reviewer.post(f"{PATH}/{hold.id}/resolve", json={"action": action}).status_code

    with ThreadPoolExecutor(10) as pool:
        codes = sorted(pool.map(decide, range(10)))
    assert codes == [200] + [409] * 9
    late = reviewer.post(f"{PATH}/{hold.id}/resolve", json={"action": "APPROVED"})
    assert (late.status_code, late.json()["error"]) == (409, "duplicate_submission")
    wait_until_settled(server, hold)


def test_the_page_decides_the_same(server: RunningServer, reviewer: httpx.Client) -> None:
    hold = send_held(server, "ask")
    link = reviewer.post(f"{PATH}/{hold.id}/link").json()["reviewUrl"]
    with server.client(follow_redirects=True) as visitor:
        page = ReviewPage(visitor, visitor.get(link))
        assert "which one?" in page.text
        assert "Your answer to the agent" in page.text
        decided = page.post("respond", {"action": "approve", "message": "by the page"})
        assert decided.response.status_code == 200
    late = reviewer.post(f"{PATH}/{hold.id}/resolve", json={"action": "REJECTED"})
    assert late.status_code == 409
    wait_until_settled(server, hold)
    assert wait_for_artifact(server, hold.task_id) == "by the page 0"
    assert reviewer.get(f"{PATH}/{hold.id}").json()["resolution"]["message"] == "by the page"


def test_handing_back_on_the_page_rejects_nothing(server: RunningServer, reviewer: httpx.Client) -> None:
    hold = send_held(server)
    link = reviewer.post(f"{PATH}/{hold.id}/link").json()["reviewUrl"]
    with server.client(follow_redirects=True) as visitor:
        page = ReviewPage(visitor, visitor.get(link))
        assert "<mark>tulip" in page.text
        page.post("hand-back", {"action": "x-hand-back", "reason": "Not mine."})
    found = reviewer.get(f"{PATH}/{hold.id}").json()
    assert (found["status"], found["resolution"]) == ("PENDING", None)
    assert read_metadata(get_task_as_caller(server, hold.task_id))["relay_reason"] == "HITL_HELD"
    approved = reviewer.post(f"{PATH}/{hold.id}/resolve", json={"action": "APPROVED"})
    assert approved.json()["status"] == "APPROVED"


def test_lists_are_filtered_and_cut_into_pages(server: RunningServer, reviewer: httpx.Client) -> None:
    holds = [send_held(server, f"echo violet {number}") for number in range(3)]
    query = {"policyName": "No violet", "size": "2"}
    first = reviewer.get(PATH, params=query).json()
    assert (first["totalElements"], first["totalPages"], first["first"], first["last"]) == (3, 2, True, False)
    second = reviewer.get(PATH, params=query | {"page": "1"}).json()
    found = [one["id"] for one in (*first["content"], *second["content"])]
    assert sorted(found) == sorted(hold.id for hold in holds)
    assert {one["status"] for one in reviewer.get(PATH).json()["content"]} == {"PENDING"}
    by_task = reviewer.get(PATH, params={"taskId": holds[0].task_id}).json()
    assert [one["id"] for one in by_task["content"]] == [holds[0].id]
    reviewer.post(f"{PATH}/{holds[0].id}/resolve", json={"action": "REJECTED"})
    assert eventually(lambda: reviewer.get(f"{PATH}/{holds[0].id}").json()["completedAt"])
    done = reviewer.get(PATH, params={"status": "REJECTED", "policyName": "No violet"}).json()
    assert [one["id"] for one in done["content"]] == [holds[0].id]
    everything = reviewer.get(PATH, params={"status": "ALL", "policyName": "No violet"}).json()
    assert everything["totalElements"] == 3
    assert reviewer.get(PATH, params={"status": "MAYBE"}).status_code == 400
    backwards = {"startTime": "2026-02-01T00:00:00Z", "endTime": "2026-01-01T00:00:00Z"}
    refused = reviewer.get(PATH, params=backwards)
    assert (refused.status_code, refused.json()["message"]) == (400, "startTime: must be before endTime.")
    by_three = reviewer.get(PATH, params={"status": "ALL", "policyName": "No violet", "size": "3"}).json()
    by_fifty = reviewer.get(PATH, params={"status": "ALL", "policyName": "No violet", "size": "50"}).json()
    assert by_three["content"] == by_fifty["content"] == everything["content"]


def test_readers_may_not_decide_and_strangers_see_nothing(
    server: RunningServer, reader: httpx.Client, reviewer: httpx.Client
) -> None:
    hold = send_held(server)
    assert reader.get(f"{PATH}/{hold.id}").status_code == 200
    assert reader.post(f"{PATH}/{hold.id}/resolve", json={"action": "APPROVED"}).status_code == 403
    assert reader.post(f"{PATH}/{hold.id}/link").status_code == 403
    with server.client(server.create_key("stan")) as stan:
        assert stan.get(PATH).json()["content"] == []
        assert stan.get(f"{PATH}/{hold.id}").status_code == 404
        assert stan.post(f"{PATH}/{hold.id}/resolve", json={"action": "APPROVED"}).status_code == 404
        assert stan.post(f"{PATH}/{hold.id}/link").status_code == 404
    with server.client(server.api_key) as caller:
        assert caller.get(f"{PATH}/{hold.id}").status_code == 403
    assert reviewer.get(f"{PATH}/{hold.id}").json()["status"] == "PENDING"


@pytest.mark.parametrize(
    "body",
    [{}, {"action": "MAYBE"}, {"action": "APPROVED", "edits": {}}, {"action": "APPROVED", "message": 7}],
)
def test_invalid_decision_is_refused(server: RunningServer, reviewer: httpx.Client, body: Any) -> None:
    hold = send_held(server)
    assert reviewer.post(f"{PATH}/{hold.id}/resolve", json=body).status_code == 400
    assert reviewer.get(f"{PATH}/{hold.id}").json()["status"] == "PENDING"
