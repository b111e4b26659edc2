"""Calls that LangGraph starts at once begin in one write; whichever of them never comes is not lost."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from placet.errors import ThreadBusy
from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from placet.hook.answer_validation import Feedback
from placet.hook.checkpoint import Checkpoint
from placet.hook.frameworks.langchain import ApprovalMiddleware, aresume, interruption_of, resume
from placet.hook.frameworks.langchain.parallel_calls import MAX_PARALLEL_CALLS, ParallelCallStarts
from placet.hook.gate import Gate
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, list_results, thread_config

CALLS = tuple(
    ToolCall(id=f"c{number}", name="pay", arguments={"cents": number}) for number in range(MAX_PARALLEL_CALLS)
)
ONCE = {call.id: False for call in CALLS}
RUN, OTHER_RUN = object(), object()


class RecordingSaver(MemorySaver):
    """Remembers which calls had begun, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.began: list[tuple[str, ...]] = [()]

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        super().put(checkpoint, lease_for=lease_for)
        if checkpoint.started != self.began[-1]:
            self.began.append(checkpoint.started)


def make_decided_gate() -> Gate:
    gate = Gate([HumanInTheLoopHook({"pay": True})], MemorySaver())
    gate.stop("k", CALLS)
    gate.answer("k", {call.id: "approve" for call in CALLS})
    return gate


def begin(marks: ParallelCallStarts, call_id: str, owner: Any = RUN) -> bool:
    return marks.begin("k", call_id, repeatable=False, owner=owner, together=lambda: ONCE).run


def pay_all(*calls: ToolCall, parallel: tuple[str, ...] = (), **config: Any) -> RecordingSaver:
    """An agent that was allowed to make these calls, and made them."""
    saver = RecordingSaver()
    approval = ApprovalMiddleware(HumanInTheLoopHook({"pay": True}), saver=saver, parallel=parallel)

    def pay(cents: int) -> str:
        """Pay someone."""
        return f"paid {cents}"

    model = ScriptedModel(scene=Scene(turns=(calls,)))
    agent: Any = create_agent(model, [pay], middleware=[approval], checkpointer=InMemorySaver())
    stopped = interruption_of(agent.invoke(GO, thread_config("t")))
    assert stopped is not None
    done = resume(agent, "t", stopped.approve_all(), config=config)
    assert list_results(done["messages"]) == [(call.id, f"paid {call.arguments['cents']}") for call in calls]
    return saver


def test_calls_that_are_started_at_once_begin_in_one_write() -> None:
    assert pay_all(*CALLS, parallel=("pay",)).began == [(), tuple(ONCE)]


def test_calls_that_run_one_after_another_begin_one_by_one() -> None:
    assert [len(calls) for calls in pay_all(*CALLS).began] == [0, 1, 2, 3, 4]


def test_calls_that_are_started_one_by_one_begin_one_by_one() -> None:
    assert [len(calls) for calls in pay_all(*CALLS, parallel=("pay",), max_concurrency=1).began] == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_of_more_calls_than_there_may_be_threads_none_begins_before_its_time() -> None:
    many = [ToolCall(id=f"m{number}", name="pay", arguments={"cents": number}) for number in range(40)]
    assert len(pay_all(*many, parallel=("pay",)).began) > 2


def test_a_call_that_comes_twice_may_run_once() -> None:
    marks = ParallelCallStarts(make_decided_gate())
    assert begin(marks, "c0")
    with pytest.raises(ThreadBusy):
        begin(marks, "c0")
    assert begin(marks, "c1")


def test_only_one_run_works_on_the_turn() -> None:
    marks = ParallelCallStarts(make_decided_gate())
    assert begin(marks, "c0")
    for call in CALLS:
        with pytest.raises(ThreadBusy):
            begin(marks, call.id, OTHER_RUN)
    assert begin(marks, "c1")


def test_call_not_started_after_a_failure_can_run_later() -> None:
    marks = ParallelCallStarts(make_decided_gate())
    assert begin(marks, "c0")
    assert begin(marks, "c1")
    marks.undo_pending("k", RUN)
    for call_id in ("c0", "c1"):
        marks.finish("k", call_id, "failed")
    assert [begin(marks, call.id, OTHER_RUN) for call in CALLS] == [False, False, True, True]


def test_call_started_after_a_failure_begins_alone() -> None:
    gate = make_decided_gate()
    marks = ParallelCallStarts(gate)
    assert begin(marks, "c0")
    marks.undo_pending("k", RUN)
    gate.undo_begin("k", "c0")
    assert begin(marks, "c1")
    marks.finish("k", "c1", "paid")
    assert begin(marks, "c0", OTHER_RUN), "it was not begun for one that will not come"


def test_of_many_turns_at_once_every_call_runs() -> None:
    gate, turns = Gate([HumanInTheLoopHook({"pay": True})], MemorySaver()), range(300)
    marks = ParallelCallStarts(gate)
    for turn in turns:
        gate.stop(f"k{turn}", CALLS)
        gate.answer(f"k{turn}", {call.id: "approve" for call in CALLS})
    for call in CALLS:
        begun = [
            marks.begin(f"k{turn}", call.id, repeatable=False, owner=turn, together=lambda: ONCE).run
            for turn in turns
        ]
        assert all(begun)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_call_that_runs_long_is_not_taken_for_one_whose_process_died(asynchronous: bool) -> None:
    begun, leave, renewed = threading.Event(), threading.Event(), threading.Semaphore(0)

    class Renewed(MemorySaver):
        def renew(self, *args: Any, **named: Any) -> None:
            super().renew(*args, **named)
            renewed.release()

    def work(text: str) -> str:
        """Work long."""
        begun.set()
        assert leave.wait(60)
        return "done"

    checkpointer, saver = InMemorySaver(), Renewed()
    call = ToolCall(id="c1", name="work", arguments={"text": "x"})
    model, gated = ScriptedModel(scene=Scene(turns=((call,),))), tool(work)

    def process() -> Any:
        approval = ApprovalMiddleware(
            HumanInTheLoopHook({"work": True}),
            saver=saver,
            repeatable=["work"],
            lease_for=timedelta(seconds=3),
        )
        return create_agent(model, [gated], middleware=[approval], checkpointer=checkpointer)

    def go_on(agent: Any) -> Any:
        approved: Feedback = {"c1": "approve"}
        return asyncio.run(aresume(agent, "t", approved)) if asynchronous else resume(agent, "t", approved)

    first = process()
    first.invoke(GO, thread_config("t"))
    ended: list[Any] = []
    running = threading.Thread(target=lambda: ended.append(go_on(first)))
    running.start()
    assert begun.wait(60)
    assert renewed.acquire(timeout=60), "its lease runs out while it works"
    with pytest.raises(ThreadBusy):
        go_on(process())
    leave.set()
    running.join(60)
    assert list_results(ended[0]["messages"]) == [("c1", "done")]
