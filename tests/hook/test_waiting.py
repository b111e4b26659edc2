"""Waiting for decisions: threads of every kind continue as soon as their case is decided."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import Placet
from placet.client import PlacetClient
from placet.errors import ServerRefused
from placet.hook import (
    Approver,
    EmbeddedReviews,
    HumanInTheLoopHook,
    MemorySaver,
    ReactAgent,
    Run,
    ServerReviews,
    ToolCall,
    ToolConfig,
    Wait,
    aresume_as_decided,
    requires_approval,
    resume_as_decided,
    resume_pending,
)
from placet.hook.gate import Gate
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result
from tests.server.running import RunningServer, eventually, running

WAIT_S = 10.0
WRITE = call("a", "write_file", path="x")
PAY = ToolCall(id="a", name="pay")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("waiting")) as found:
        yield found


@pytest.fixture
def client(server: RunningServer) -> Iterator[PlacetClient]:
    with PlacetClient(server.url, server.api_key) as client:
        yield client


def agent_for(reviews: Any, name: str = "clerk", saver: Any = None) -> tuple[ReactAgent, Office]:
    office, hook = Office(), HumanInTheLoopHook({"*": True})
    model = Scripted([WRITE], "done")
    return ReactAgent(name, model, office.tools, [hook], saver or MemorySaver(), reviews=reviews), office


def approve(server: RunningServer, case: Any) -> None:
    with server.page(dict(case)) as page:
        assert page.post("respond", {"action": "approve"}).response.status_code == 200


def in_background(work: Any) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def is_followed(server: RunningServer) -> bool:
    return len(server.parts.streams) > 0


def test_threads_continue_when_their_case_is_decided_and_others_go_on_waiting(
    server: RunningServer, client: PlacetClient
) -> None:
    agent, office = agent_for(ServerReviews(client))
    cases = [expect_interruption(agent.invoke("go", thread_id=one)).case for one in ("t", "u")]
    moved: list[str] = []

    def follow() -> None:
        for thread_id, _ in resume_as_decided(agent, timeout=WAIT_S):
            moved.append(thread_id)

    thread = in_background(follow)
    eventually(lambda: is_followed(server))
    approve(server, cases[1])
    eventually(lambda: moved == ["u"])
    assert len(office.ran) == 1
    approve(server, cases[0])
    thread.join(WAIT_S)
    assert moved == ["u", "t"]


def test_nothing_that_waits_ends_at_once_and_a_limit_ends_the_waiting(client: PlacetClient) -> None:
    agent, _ = agent_for(ServerReviews(client))
    assert list(resume_as_decided(agent)) == []
    agent.invoke("go", thread_id="t")
    assert list(resume_as_decided(agent, timeout=0.05)) == []


def test_an_approvers_turns_are_resumed_like_an_agents(server: RunningServer, client: PlacetClient) -> None:
    approver = Approver(HumanInTheLoopHook({"*": True}), saver=MemorySaver(), reviews=ServerReviews(client))
    waiting = approver.ask("k", PAY)
    assert isinstance(waiting, Wait)
    ran: list[str] = []

    def go_on(key: str) -> str:
        if isinstance(approver.ask(key, PAY), Run):
            ran.append(key)
            return approver.finish(key, PAY, "paid")
        return "waits"

    threads = approver.threads_of(go_on)
    approve(server, waiting.interruption.case)
    assert approver.wait_for_decisions("k", timeout=WAIT_S).undecided == ()
    assert dict(resume_as_decided(threads, timeout=WAIT_S)) == {"k": "paid"}
    assert ran == ["k"]


def test_a_gate_waits_for_a_decision_and_not_longer(server: RunningServer, client: PlacetClient) -> None:
    gate = Gate([HumanInTheLoopHook({"*": True})], MemorySaver(), reviews=ServerReviews(client))
    stopped = gate.stop("k", [PAY])
    assert stopped is not None
    assert gate.wait_for_decisions("k", timeout=0.0).undecided
    decided: list[Any] = []
    thread = in_background(lambda: decided.append(gate.wait_for_decisions("k")))
    eventually(lambda: is_followed(server))
    approve(server, stopped.case)
    thread.join(WAIT_S)
    assert [one.undecided for one in decided] == [()]


def test_a_gate_without_reviews_notices_answers_and_the_end_of_the_time() -> None:
    gate = Gate([HumanInTheLoopHook({"*": ToolConfig(timeout=0.05)})], MemorySaver())
    gate.stop("k", [PAY])
    decided = gate.wait_for_decisions("k", poll_interval=0.01)
    assert [str(one.not_run) for one in decided.tool_feedbacks] == ["timed_out"]


def test_a_decorated_function_waits_for_its_case(server: RunningServer, client: PlacetClient) -> None:
    @requires_approval(reviews=ServerReviews(client))
    def pay(amount: int) -> str:
        return f"paid {amount}"

    results: list[str] = []
    thread = in_background(lambda: results.append(pay(3)))
    eventually(lambda: is_followed(server))
    [waiting] = client.cases(status="pending", limit=1)["cases"]
    case_id = waiting["poll"]["case_id"]
    with server.client(server.api_key):
        server.run(approve_in_process(server, case_id))
    thread.join(WAIT_S)
    assert results == ["paid 3"]


async def approve_in_process(server: RunningServer, case_id: str) -> None:
    from placet.desk.answer import Answer

    data = {"decisions": {"call": {"decision": "approve"}}}
    await server.parts.desk.answer(
        case_id, Answer(action="approve", data=data, path="browser_submit", actor="person")
    )


def test_an_embedded_desk_wakes_the_agent(tmp_path: Path) -> None:
    async def play() -> None:
        placet = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"))
        agent, office = agent_for(EmbeddedReviews(placet))
        async with placet.lifespan():
            case = expect_interruption(await agent.ainvoke("go", thread_id="t")).case
            assert case is not None

            async def follow() -> list[tuple[str, Any]]:
                return [moved async for moved in aresume_as_decided(agent, timeout=WAIT_S)]

            following = asyncio.create_task(follow())
            assert not await placet.wait_for_end(case["case_id"], at_most=0.05)
            await placet.cancel(case["case_id"], reason="no")
            [(thread_id, outcome)] = await following
            assert thread_id == "t"
            expect_result(outcome)
            assert office.ran == []

    asyncio.run(play())


def test_a_gate_uses_an_embedded_desk_from_its_worker_threads(tmp_path: Path) -> None:
    async def play() -> None:
        placet = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"))
        hook = HumanInTheLoopHook({"*": True})
        approver = Approver(hook, saver=MemorySaver(), reviews=EmbeddedReviews(placet))
        async with placet.lifespan():
            waiting = await approver.aask("k", PAY)
            assert isinstance(waiting, Wait)
            assert waiting.interruption.case is not None
            deciding = asyncio.create_task(approver.await_decisions("k", timeout=WAIT_S))
            await placet.cancel(waiting.interruption.case["case_id"])
            assert [str(one.not_run) for one in (await deciding).tool_feedbacks] == ["withdrawn"]

    asyncio.run(play())


def test_two_agents_on_one_saver_resume_only_their_own_threads(
    server: RunningServer, client: PlacetClient
) -> None:
    saver = MemorySaver()
    one, office = agent_for(ServerReviews(client), "one", saver)
    other, others = agent_for(ServerReviews(client), "other", saver)
    case = expect_interruption(one.invoke("go", thread_id="t")).case
    approve(server, case)
    assert resume_pending(other) == {}
    assert list(resume_pending(one)) == ["t"]
    assert (len(office.ran), others.ran) == (1, [])


def test_a_client_that_is_closed_ends_the_streams_it_follows(
    server: RunningServer, client: PlacetClient
) -> None:
    agent, _ = agent_for(ServerReviews(client))
    case = expect_interruption(agent.invoke("go", thread_id="closing")).case
    assert case is not None
    other = PlacetClient(server.url, server.api_key)
    ended: list[str] = []

    def follow() -> None:
        try:
            other.wait_for_end(case["case_id"], at_most=WAIT_S)
        except Exception as error:
            ended.append(type(error).__name__)
        else:
            ended.append("closed")

    thread = in_background(follow)
    eventually(lambda: is_followed(server))
    other.close()
    thread.join(WAIT_S)
    assert ended
    with pytest.raises(ServerRefused):
        client.wait_for_end("review_" + "0" * 32, at_most=1)
