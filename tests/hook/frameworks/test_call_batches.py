"""Calls of one turn that begin at once: one write for all of them, and each still runs once."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from placet.errors import NothingToResume, ThreadBusy
from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from placet.hook.checkpoint import Checkpoint
from placet.hook.feedback import CallDecision
from placet.hook.frameworks.call_batches import AsyncCallBatches, ThreadedCallBatches
from placet.hook.gate import Gate
from placet.hook.result_texts import OUTCOME_UNKNOWN
from tests.waiting import eventually

CALLS = [ToolCall(id=f"c{number}", name="pay", arguments={"cents": number}) for number in range(4)]
EVERYONE: dict[str, CallDecision] = {call.id: "approve" for call in CALLS}


class CountingSaver(MemorySaver):
    """Counts what is written, and waits before it writes if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.free = threading.Event()
        self.free.set()

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        self.writes += 1
        assert self.free.wait(60)
        super().put(checkpoint, lease_for=lease_for)


def make_decided_gate(saver: MemorySaver, **named: Any) -> Gate:
    gate = Gate([HumanInTheLoopHook({"pay": True})], saver, **named)
    gate.stop("k", CALLS)
    gate.answer("k", EVERYONE)
    return gate


def test_calls_that_begin_in_one_turn_of_the_loop_are_marked_in_one_write() -> None:
    saver = CountingSaver()
    marks = AsyncCallBatches(make_decided_gate(saver))
    before = saver.writes

    async def turn() -> None:
        begun = await asyncio.gather(*(marks.begin("k", call.id, repeatable=False) for call in CALLS))
        assert [one.run for one in begun] == [True] * 4
        assert saver.writes == before + 1
        await asyncio.gather(*(marks.finish("k", call.id, f"paid {call.id}") for call in CALLS))

    asyncio.run(turn())
    assert saver.writes == before + 2
    kept = saver.get("k")
    assert kept is not None
    assert kept.checkpoint.results == {call.id: f"paid {call.id}" for call in CALLS}
    assert kept.leased_until is None


def test_of_two_who_begin_the_same_call_in_one_turn_of_the_loop_one_may_run_it() -> None:
    marks = AsyncCallBatches(make_decided_gate(MemorySaver()))

    async def twice() -> list[Any]:
        begin = [marks.begin("k", "c0", repeatable=False) for _ in range(2)]
        return await asyncio.gather(*begin, return_exceptions=True)

    outcomes = asyncio.run(twice())
    assert sorted(type(one).__name__ for one in outcomes) == ["CallStart", "ThreadBusy"]


def test_single_call_is_marked_without_waiting_for_the_loop() -> None:
    saver = CountingSaver()
    marks = AsyncCallBatches(make_decided_gate(saver))
    before, turns = saver.writes, list[int]()

    async def turn() -> None:
        asyncio.get_running_loop().call_soon(turns.append, 1)
        assert (await marks.begin("k", "c0", repeatable=False, is_only_call=True)).run
        assert saver.writes == before + 1
        await marks.finish("k", "c0", "paid c0", is_only_call=True)
        assert (await marks.begin("k", "c0", repeatable=False, is_only_call=True)).result == "paid c0"
        assert turns == []

    asyncio.run(turn())
    assert saver.writes == before + 2


def test_of_two_who_begin_a_call_that_is_alone_in_its_turn_one_may_run_it() -> None:
    marks = AsyncCallBatches(make_decided_gate(MemorySaver()))

    async def twice() -> list[Any]:
        begin = [marks.begin("k", "c0", repeatable=False, is_only_call=True) for _ in range(2)]
        return await asyncio.gather(*begin, return_exceptions=True)

    outcomes = asyncio.run(twice())
    assert sorted(type(one).__name__ for one in outcomes) == ["CallStart", "ThreadBusy"]


def test_a_call_that_is_cancelled_while_it_begins_leaves_the_others_alone() -> None:
    marks = AsyncCallBatches(make_decided_gate(MemorySaver()))

    async def turn() -> Any:
        first, second = (asyncio.create_task(marks.begin("k", id, repeatable=False)) for id in ("c0", "c1"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(turn()).run


def test_calls_that_begin_in_threads_line_up_and_write_as_one() -> None:
    saver = CountingSaver()
    queue = ThreadedCallBatches(make_decided_gate(saver))
    before = saver.writes
    saver.free.clear()
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(queue.begin, "k", "c0", repeatable=False)
        eventually(lambda: saver.writes > before)
        rest = [threads.submit(queue.begin, "k", id, repeatable=False) for id in ("c1", "c2", "c3")]
        eventually(lambda: len(getattr(queue._pending.get(("begin", "k", None)), "arguments", ())) == 3)
        saver.free.set()
        assert all(one.result(60).run for one in (first, *rest))
    assert saver.writes == before + 2


def test_of_threads_that_begin_the_same_call_one_may_run_it() -> None:
    queue = ThreadedCallBatches(make_decided_gate(MemorySaver()))
    together = threading.Barrier(8)

    def begin(_: int) -> bool:
        together.wait(60)
        try:
            return queue.begin("k", "c0", repeatable=False).run
        except ThreadBusy:
            return False

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(begin, range(8))) == 1


def test_failed_batch_write_is_raised_to_every_caller() -> None:
    queue = ThreadedCallBatches(Gate([], MemorySaver()))
    with pytest.raises(NothingToResume):
        queue.begin("nowhere", "c0", repeatable=False)
    with pytest.raises(NothingToResume):
        queue.begin("nowhere", "c0", repeatable=False)


def test_of_calls_that_a_dead_process_had_begun_only_the_repeatable_run_again() -> None:
    gate = make_decided_gate(MemorySaver(), lease_for=timedelta(microseconds=1))
    gate.begin_all("k", {"c0": False, "c1": True})
    again = gate.begin_all("k", {"c0": False, "c1": True, "c2": False})
    assert {call_id: getattr(one, "run", None) for call_id, one in again.items()} == {
        "c0": False,
        "c1": True,
        "c2": True,
    }
    assert getattr(again["c0"], "result", None) == OUTCOME_UNKNOWN
