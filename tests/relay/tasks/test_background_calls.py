"""Calls that go on without their caller: told as working while somebody waits for them, then as failed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from placet.bootstrap.storage import open_memory_store
from placet.relay.a2a.call import A2ACall, parse_call
from placet.relay.a2a.dialects import RPC_1_0
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.exchange import ExchangeState
from placet.relay.runtime import background_calls
from placet.relay.runtime.background_calls import LEASE, BackgroundCalls
from placet.relay.task import Task, TaskStatus
from placet.relay.tasks.relay_tasks import ABANDONED, RelayTasks
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tenants import RegisteredAgent, RegisteredCaller, Subscription
from placet.relay.write_queue import WriteQueue
from placet.testing.clock import FakeClock
from tests.relay.fakes import NoHeldTasks

pytestmark = pytest.mark.anyio

ANN = Subscription(
    source=RegisteredCaller(name="ann"), sink=RegisteredAgent(id="errands", url="https://errands.example")
)


def build_call(method: str, **params: Any) -> A2ACall:
    document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    body = msgspec.json.encode(document)
    return parse_call(
        method="POST", path="", query="", version="1.0", content_type="application/json", body=body
    )


class BackgroundCallKit:
    """A task repository, a clock, and calls that are overdue."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        store = open_memory_store()
        self.repository = TaskRepository(store, now=self.clock, queue=WriteQueue(store))
        self.own = RelayTasks(self.repository, self.clock, held_tasks=NoHeldTasks())
        self.calls = BackgroundCalls(self.repository, self.clock)
        self.job: asyncio.Future[A2AReply | None] = asyncio.get_running_loop().create_future()

    async def keep(self) -> str:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        call = build_call("SendMessage", message=message)
        return (await self.calls.create_task(ANN, call, self.job, None, ExchangeState())).id

    async def get(self, task_id: str) -> dict[str, Any]:
        entry = await self.own.find(ANN, task_id)
        assert entry is not None
        found: dict[str, Any] = self.own.build_answer(build_call("GetTask", id=task_id), entry)["result"]
        return found


@pytest.fixture
async def kit(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BackgroundCallKit]:
    monkeypatch.setattr(background_calls, "LEASE_RENEWAL_S", 0.01)
    found = BackgroundCallKit()
    yield found
    await found.calls.aclose()
    await found.repository.aclose()


async def test_task_of_a_stopped_server_is_failed(kit: BackgroundCallKit) -> None:
    task_id = await kit.keep()
    await kit.calls.aclose()
    before = await kit.get(task_id)
    assert before["status"]["state"] == "TASK_STATE_WORKING"
    assert before["metadata"] == {"relay_reason": "TIMEOUT"}
    kit.clock.advance(LEASE)
    after = await kit.get(task_id)
    assert after["status"]["state"] == "TASK_STATE_FAILED"
    assert after["status"]["message"]["parts"] == [{"text": ABANDONED}]
    assert "metadata" not in after
    entry = await kit.own.find(ANN, task_id)
    assert entry is not None
    with pytest.raises(A2AError, match="has ended"):
        await kit.own.answer(ANN, build_call("CancelTask", id=task_id), entry)


async def test_a_server_that_stops_gives_up_the_call_itself(kit: BackgroundCallKit) -> None:
    await kit.keep()
    await asyncio.sleep(0)
    await kit.calls.aclose()
    assert kit.job.cancelled()


async def test_task_is_working_while_a_caller_waits(kit: BackgroundCallKit) -> None:
    task_id = await kit.keep()
    for _ in range(3):
        kit.clock.advance(LEASE - timedelta(seconds=1))
        entry = await kit.own.find(ANN, task_id)
        assert entry is not None
        assert not entry.is_abandoned(kit.clock())
        await wait_for_renewal(kit, task_id)
    assert (await kit.get(task_id))["status"]["state"] == "TASK_STATE_WORKING"
    kit.job.set_result(None)
    await kit.calls.wait(ANN, task_id)
    assert (await kit.get(task_id))["status"]["state"] == "TASK_STATE_FAILED"


async def wait_for_renewal(kit: BackgroundCallKit, task_id: str) -> None:
    for _ in range(3000):
        entry = await kit.own.find(ANN, task_id)
        if entry is not None and entry.until == kit.clock() + LEASE:
            return
        await asyncio.sleep(0.005)
    pytest.fail("nobody says any more that the call goes on")


async def test_a_status_keeps_the_time_at_which_it_began(kit: BackgroundCallKit) -> None:
    task_id = await kit.keep()
    kit.job.set_exception(A2AError("unreachable", "The agent cannot be reached."))
    await kit.calls.wait(ANN, task_id)
    ended = (await kit.get(task_id))["status"]["timestamp"]
    kit.clock.advance(timedelta(hours=1))
    assert (await kit.get(task_id))["status"]["timestamp"] == ended


async def test_a_late_answer_about_a_task_that_waits_for_a_person_leaves_it_waiting(
    kit: BackgroundCallKit,
) -> None:
    held = Task(
        id="held",
        owner="ann",
        status=TaskStatus.HELD,
        upstream_id="held",
        hold_id="h",
        hold_metadata={"relay_reason": "HITL_HELD"},
        approved=("a text",),
    )
    await kit.repository.write("default", "errands", "task", held)
    task_id = await kit.keep()
    task = {"id": "held", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    document = {"jsonrpc": "2.0", "id": 1, "result": {"task": task}}
    kit.job.set_result(A2AReply(dialect=RPC_1_0, operation="send", document=document))
    await kit.calls.wait(ANN, task_id)
    assert (await kit.get("held"))["metadata"] == {"relay_reason": "HITL_HELD"}
    entry = await kit.own.find(ANN, "held")
    assert entry is not None
    assert entry.approved == ("a text",)
