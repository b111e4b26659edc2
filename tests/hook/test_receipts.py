"""Execution receipts: what became of approved calls reaches their case, whatever happens in between."""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from placet import Placet
from placet.client import PlacetClient
from placet.errors import Unavailable
from placet.hook import (
    Approver,
    EmbeddedReviews,
    HumanInTheLoopHook,
    MemorySaver,
    ReactAgent,
    Run,
    ServerReviews,
    SqliteSaver,
    ToolCall,
    aresume_pending,
    resume_pending,
)
from placet.hook.case_outcome import CaseOutcome
from placet.hook.gate import Gate
from placet.hook.interruption import InterruptionMetadata
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result
from tests.server.running import RunningServer, running

WAIT_S = 60.0


class DecidedReviews:
    """Cases that are decided as the test says, and what was reported to them."""

    def __init__(self, **decisions: Any) -> None:
        self.decisions = decisions
        self.reported: list[tuple[str, str]] = []
        self.is_down = False

    def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> dict[str, Any]:
        return {"case_id": interruption.id, "review_url": "", "expires_at": ""}

    def poll_case(self, case: Mapping[str, Any]) -> CaseOutcome | None:
        return CaseOutcome(status="decided", decisions=self.decisions) if self.decisions else None

    def withdraw(self, case: Mapping[str, Any], reason: str) -> None:
        return None

    def report_calls(self, case: Mapping[str, Any], receipts: Sequence[Mapping[str, str]]) -> None:
        if self.is_down:
            raise Unavailable
        self.reported += [(receipt["call_id"], receipt["outcome"]) for receipt in receipts]


def agent_for(reviews: Any, *calls: dict[str, Any], tools: Any = None, saver: Any = None) -> ReactAgent:
    return ReactAgent(
        "clerk",
        Scripted(list(calls), "done"),
        tools or Office().tools,
        [HumanInTheLoopHook({"*": True})],
        saver or MemorySaver(),
        reviews=reviews,
    )


def run(agent: ReactAgent) -> None:
    expect_interruption(agent.invoke("go", thread_id="t"))
    expect_result(agent.resume("t"))
    assert agent.outbox.wait_until_sent(WAIT_S)


WRITE = call("a", "write_file", path="x")
SQL = call("b", "execute_sql", query="q")


def test_a_call_reports_that_it_ran_and_a_rejected_one_reports_nothing() -> None:
    reviews = DecidedReviews(a="approve", b="reject")
    run(agent_for(reviews, WRITE, SQL))
    assert reviews.reported == [("a", "ran")]


def test_a_call_that_fails_or_times_out_reports_that_it_failed() -> None:
    def execute_sql(query: str) -> str:
        raise ValueError(query)

    reviews = DecidedReviews(b={"decision": "edit", "arguments": {"query": "z"}})
    run(agent_for(reviews, SQL, tools=[execute_sql]))
    assert reviews.reported == [("b", "failed")]


def test_a_call_of_an_inner_agent_is_reported_under_its_id_in_the_case() -> None:
    office = Office()
    inner = ReactAgent(
        "inner",
        Scripted([SQL], "inner is done"),
        office.tools,
        [HumanInTheLoopHook({"execute_sql": True})],
        MemorySaver(),
    )
    reviews = DecidedReviews(**{"o/b": "approve"})
    outer = ReactAgent(
        "outer",
        Scripted([call("o", "inner", task="clean up")], "done"),
        [inner.as_tool("Does things.")],
        saver=MemorySaver(),
        reviews=reviews,
    )
    run(outer)
    assert office.ran == [("execute_sql", "q")]
    assert reviews.reported == [("o/b", "ran")]


def test_reviews_that_are_down_delay_nothing_and_get_the_receipts_later(tmp_path: Path) -> None:
    reviews = DecidedReviews(a="approve")
    reviews.is_down = True
    saver = SqliteSaver(tmp_path / "threads.db")
    run(agent_for(reviews, WRITE, saver=saver))
    assert reviews.reported == []
    reviews.is_down = False
    later = agent_for(reviews, WRITE, saver=SqliteSaver(tmp_path / "threads.db"))
    assert resume_pending(later) == {}
    assert reviews.reported == [("a", "ran")]
    assert resume_pending(later) == {}
    assert reviews.reported == [("a", "ran")]
    saver.close()


def test_what_could_not_be_sent_is_sent_after_the_next_receipt() -> None:
    """A function, or a client of MCP, has no threads to resume."""
    reviews = DecidedReviews(a="approve")
    approver = Approver(HumanInTheLoopHook({"*": True}), saver=MemorySaver(), reviews=reviews)
    for key, is_down in (("k", True), ("l", False)):
        reviews.is_down = is_down
        assert isinstance(approver.ask(key, PAY), Run)
        approver.finish(key, PAY, "paid")
        assert approver.gate.outbox.wait_until_sent(WAIT_S)
    assert reviews.reported == [("a", "ran"), ("a", "ran")]


def test_another_agents_receipts_are_left_to_it(tmp_path: Path) -> None:
    reviews, others = DecidedReviews(a="approve"), DecidedReviews()
    reviews.is_down = True
    saver = MemorySaver()
    run(agent_for(reviews, WRITE, saver=saver))
    other = ReactAgent("other", Scripted("done"), [], saver=saver, reviews=others)
    resume_pending(other)
    assert others.reported == []


def test_a_saver_that_fails_does_not_fail_the_tool() -> None:
    class RefusingSaver(MemorySaver):
        def put(self, checkpoint: Any, **named: Any) -> None:
            if checkpoint.thread_id.startswith("receipts:"):
                raise Unavailable
            super().put(checkpoint, **named)

    reviews = DecidedReviews(a="approve")
    run(agent_for(reviews, WRITE, saver=RefusingSaver()))
    assert reviews.reported == [("a", "ran")]


def test_reviews_that_take_no_receipts_get_none() -> None:
    class OldReviews(DecidedReviews):
        report_calls = None  # type: ignore[assignment]

    saver = MemorySaver()
    run(agent_for(OldReviews(a="approve"), WRITE, saver=saver))
    assert saver.list_threads("running") == []


PAY, SEND = ToolCall(id="a", name="pay"), ToolCall(id="b", name="send")


def report_of(gate: Gate, reviews: DecidedReviews) -> list[tuple[str, str]]:
    assert gate.outbox.wait_until_sent(WAIT_S)
    return sorted(reviews.reported)


def test_an_adapters_calls_report_that_they_ran_failed_or_were_not_claimed() -> None:
    reviews = DecidedReviews(a="approve", b="approve", c="approve")
    approver = Approver(HumanInTheLoopHook({"*": True}), saver=MemorySaver(), reviews=reviews)
    calls = (PAY, SEND, ToolCall(id="c", name="wipe"))
    for each in calls[:2]:
        assert isinstance(approver.ask("k", each, turn=calls), Run)
    approver.finish("k", PAY, "paid")
    approver.finish("k", PAY, "paid again")
    approver.fail("k", SEND, ValueError("no"))
    approver.release("k")
    assert report_of(approver.gate, reviews) == [("a", "ran"), ("b", "failed"), ("c", "not_claimed")]


def test_a_call_that_made_way_reports_that_it_was_superseded() -> None:
    reviews = DecidedReviews(a="approve", b="approve")
    gate = Gate([HumanInTheLoopHook({"*": True})], MemorySaver(), reviews=reviews)
    gate.stop("k", [PAY, SEND])
    gate.answer("k", None)
    gate.begin("k", "a")
    gate.supersede("k", ["a", "b"], "Something else came.")
    gate.finish("k", "a", "paid")
    assert report_of(gate, reviews) == [("a", "ran"), ("b", "superseded")]


def test_a_slow_report_does_not_keep_the_next_call_waiting() -> None:
    class SlowReviews(DecidedReviews):
        def report_calls(self, case: Any, receipts: Any) -> None:
            assert released.wait(WAIT_S)
            super().report_calls(case, receipts)

    released = threading.Event()
    reviews = SlowReviews(a="approve", b="approve")
    agent = agent_for(reviews, WRITE, SQL)
    expect_interruption(agent.invoke("go", thread_id="t"))
    expect_result(agent.resume("t"))
    assert reviews.reported == []
    released.set()
    assert agent.outbox.wait_until_sent(WAIT_S)
    assert sorted(reviews.reported) == [("a", "ran"), ("b", "ran")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("receipts")) as found:
        yield found


def test_the_page_on_the_server_says_that_the_call_ran(server: RunningServer) -> None:
    with PlacetClient(server.url, server.api_key) as client:
        agent = agent_for(ServerReviews(client), WRITE)
        case = expect_interruption(agent.invoke("go", thread_id="t")).case
        assert case is not None
        with server.page(dict(case)) as page:
            assert page.post("respond", {"action": "approve"}).response.status_code == 200
        expect_result(agent.resume("t"))
        assert agent.outbox.wait_until_sent(WAIT_S)
        with server.client(follow_redirects=True) as anyone:
            assert "It ran" in anyone.get(case["review_url"]).text
        assert agent.saver.list_threads("running") == []


def test_an_embedded_desk_gets_receipts_on_its_event_loop(tmp_path: Path) -> None:
    async def play() -> None:
        placet = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"))
        agent = agent_for(EmbeddedReviews(placet), WRITE)
        async with placet.lifespan():
            case = expect_interruption(await agent.ainvoke("go", thread_id="t")).case
            assert case is not None
            await placet.cancel(case["case_id"], reason="decided in code")
            await agent.aresume("t", {"a": "approve"})
            assert await asyncio.to_thread(agent.outbox.wait_until_sent, WAIT_S)
            assert await aresume_pending(agent) == {}
            events = await (await placet.parts()).desk.list_events(case["case_id"])
            assert [event.type for event in events][-1] == "calls.reported"

    asyncio.run(play())
