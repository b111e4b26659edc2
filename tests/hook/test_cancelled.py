"""Calls that are cancelled while they wait or begin: nobody is left behind who waits for them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver

from placet.client import PlacetClient
from placet.errors import ApprovalPending
from placet.hook import HumanInTheLoopHook, MemorySaver, ServerReviews, ToolCall, requires_approval
from placet.hook.checkpoint import Checkpoint
from placet.hook.frameworks.call_batches import AsyncCallBatches
from placet.hook.frameworks.langchain import ApprovalMiddleware, aresume
from placet.hook.gate import Gate
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, list_results, thread_config
from tests.server.running import RunningServer, running

PAY = ToolCall(id="c1", name="pay", arguments={"to": "Ann"})
HOOK = HumanInTheLoopHook({"pay": True})


class SlowSaver(MemorySaver):
    """Waits in the write that begins a call until it is told to go on."""

    blocking: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.writes, self.free = threading.Event(), threading.Event()

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        if lease_for is not None:
            self.writes.set()
            assert self.free.wait(60)
        super().put(checkpoint, lease_for=lease_for)


async def cancel_during_write(saver: SlowSaver, work: Awaitable[Any]) -> None:
    task = asyncio.ensure_future(work)
    await asyncio.to_thread(saver.writes.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    saver.free.set()
    with pytest.raises(asyncio.CancelledError):
        await task


def make_decided_gate(saver: MemorySaver) -> Gate:
    gate = Gate([HOOK], saver)
    gate.stop("k", [PAY])
    gate.answer("k", {"c1": "approve"})
    return gate


BEGIN: dict[str, Callable[[Gate], Awaitable[Any]]] = {
    "by itself": lambda gate: gate.abegin("k", "c1"),
    "alone": lambda gate: AsyncCallBatches(gate).begin("k", "c1", repeatable=False, is_only_call=True),
    "with others": lambda gate: AsyncCallBatches(gate).begin("k", "c1", repeatable=False),
}


@pytest.mark.parametrize("way", BEGIN)
def test_a_call_that_is_cancelled_while_it_begins_can_begin_at_once(way: str) -> None:
    saver = SlowSaver()
    gate = make_decided_gate(saver)

    async def played() -> None:
        await cancel_during_write(saver, BEGIN[way](gate))
        assert (await BEGIN[way](gate)).run

    asyncio.run(played())


def test_a_durable_function_that_is_cancelled_while_it_begins_runs_when_it_is_called_again() -> None:
    saver, ran = SlowSaver(), list[str]()

    @requires_approval(ask=lambda waiting: waiting.approve_all(), saver=saver, key=lambda call: "k")
    async def pay(to: str) -> str:
        ran.append(to)
        return f"paid {to}"

    async def played() -> str:
        await cancel_during_write(saver, pay("Ann"))
        return await pay("Ann")

    assert asyncio.run(played()) == "paid Ann"
    assert ran == ["Ann"]


def test_a_langchain_run_that_is_cancelled_while_a_call_begins_can_be_taken_up_at_once() -> None:
    saver, ran = SlowSaver(), list[str]()

    @langchain_tool
    async def pay(to: str) -> str:
        """Pay somebody."""
        ran.append(to)
        return f"paid {to}"

    approval = ApprovalMiddleware(HOOK, saver=saver)
    model, kept = ScriptedModel(scene=Scene(turns=((PAY,),))), InMemorySaver()
    agent: Any = create_agent(model, [pay], middleware=[approval], checkpointer=kept)

    async def played() -> Any:
        await agent.ainvoke(GO, thread_config("t"))
        await cancel_during_write(saver, aresume(agent, "t", {"c1": "approve"}))
        return await aresume(agent, "t", {"c1": "approve"})

    assert list_results(asyncio.run(played())["messages"]) == [("c1", "paid Ann")]
    assert ran == ["Ann"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[PlacetClient]:
    with PlacetClient(server.url, server.api_key) as client:
        yield client


class NotifyingReviews(ServerReviews):
    """Says when it has asked, and where."""

    def __init__(self, client: PlacetClient) -> None:
        super().__init__(client)
        self.asked, self.case_id = threading.Event(), ""

    def open_case(self, *args: Any, **named: Any) -> Any:
        case = super().open_case(*args, **named)
        self.case_id = case["case_id"]
        self.asked.set()
        return case


def test_a_function_that_nobody_waits_for_any_more_leaves_no_question_behind(client: PlacetClient) -> None:
    reviews = NotifyingReviews(client)

    @requires_approval(reviews=reviews, poll_interval=60)
    async def pay(to: str) -> None:
        raise AssertionError

    async def played() -> None:
        task = asyncio.ensure_future(pay("Ann"))
        assert await asyncio.to_thread(reviews.asked.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(played())
    assert client.status(reviews.case_id)["status"] == "cancelled"


def test_a_function_that_is_interrupted_while_it_waits_leaves_no_question_behind(
    client: PlacetClient,
) -> None:
    class Interrupted(NotifyingReviews):
        def poll_case(self, case: Any) -> Any:
            raise KeyboardInterrupt

    reviews = Interrupted(client)

    @requires_approval(reviews=reviews)
    def pay(to: str) -> None:
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        pay("Ann")
    assert client.status(reviews.case_id)["status"] == "cancelled"


def test_a_durable_function_goes_on_waiting_for_its_person(client: PlacetClient) -> None:
    reviews = NotifyingReviews(client)

    @requires_approval(reviews=reviews, saver=MemorySaver(), key=lambda call: "k")
    async def pay(to: str) -> None:
        raise AssertionError

    with pytest.raises(ApprovalPending):
        asyncio.run(pay("Ann"))
    assert client.status(reviews.case_id)["status"] == "pending"
