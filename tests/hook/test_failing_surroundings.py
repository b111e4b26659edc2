"""Agents beside what goes wrong: threads that fail, notebooks with a loop of their own, odd storages."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.errors import ThreadBusy
from placet.hook import (
    FeedbackResult,
    FileSaver,
    HumanInTheLoopHook,
    MemorySaver,
    ReactAgent,
    ToolConfig,
    aresume_pending,
    resume_pending,
)
from placet.hook.checkpoint import Checkpoint, Stage
from placet.hook.feedback import Verdict
from placet.hook.heartbeat import Heartbeat
from placet.testing.clock import FakeClock
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result
from tests.waiting import eventually


def test_a_thread_whose_model_breaks_does_not_hold_up_the_others() -> None:
    office, saver = Office(), MemorySaver()
    hook = HumanInTheLoopHook({"execute_sql": True})

    def model(messages: list[dict[str, Any]]) -> Any:
        if messages[-1]["role"] == "user":
            return {"tool_calls": [call("c1", "execute_sql", query=messages[0]["content"])]}
        if messages[0]["content"] == "bad":
            raise LookupError("no such model")
        return "done"

    agent = ReactAgent("office", model, office.tools, [hook], saver)
    for name in ("bad", "good"):
        expect_interruption(agent.invoke(name, thread_id=name))
        kept = saver.get(name)
        assert kept is not None
        approved = {"c1": Verdict(decision=FeedbackResult.APPROVED)}
        died = kept.checkpoint.next(stage="running", verdicts=approved, started=("c1",))
        saver.put(died)  # its process died
    assert list(resume_pending(agent)) == ["good"]


def test_async_models_and_tools_work_in_a_notebook() -> None:
    async def look() -> str:
        return "seen"

    model = Scripted([call("1", "look"), call("2", "look")], "done")

    async def thinks(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        return model(messages, tools)

    async def cell() -> str:
        return expect_result(ReactAgent("notebook", thinks, [look], saver=MemorySaver()).invoke("go")).text

    assert asyncio.run(cell()) == "done"
    assert model.results() == ["seen", "seen"]


def test_a_storage_that_fails_oddly_once_does_not_end_the_heartbeat() -> None:
    beats = threading.Semaphore(0)

    class Odd(MemorySaver):
        def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
            beats.release()
            raise LookupError

    with Heartbeat(timedelta(milliseconds=3)).renewing(Odd(), Checkpoint(thread_id="t")):
        assert all(beats.acquire(timeout=60) for _ in range(3))


def test_a_tool_that_changes_what_it_was_given_is_not_told_as_a_persons_edit() -> None:
    def pack(items: list[str]) -> str:
        items.clear()
        return "packed"

    model = Scripted([call("1", "pack", items=["a"])], "done")
    agent = ReactAgent("packer", model, [pack], [HumanInTheLoopHook({"pack": True})], saver=MemorySaver())
    waiting = expect_interruption(agent.invoke("go", thread_id="t"))
    ended = expect_result(agent.resume("t", waiting.approve_all()))
    assert model.results() == ["packed"]
    assert ended.messages[1]["tool_calls"][0]["arguments"] == {"items": ["a"]}


def test_a_tool_or_a_model_that_runs_out_of_something_does_not_hang_the_event_loop() -> None:
    def first(items: list[str]) -> str:
        return next(iter(items))

    def forgets(messages: list[dict[str, Any]]) -> Any:
        return next(iter([]))

    async def played() -> None:
        async with asyncio.timeout(60):
            model = Scripted([call("1", "first", items=[])], "done")
            expect_result(await ReactAgent("a", model, [first], saver=MemorySaver()).ainvoke("go"))
            assert "StopIteration" in model.results()[0]
            with pytest.raises(RuntimeError, match="StopIteration"):
                await ReactAgent("a", forgets, saver=MemorySaver()).ainvoke("go")

    asyncio.run(played())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_tool_whose_error_cannot_say_what_it_is_has_failed_and_nothing_else(asynchronous: bool) -> None:
    class NoMessage(Exception):
        def __str__(self) -> str:
            raise LookupError

    def breaks() -> None:
        raise NoMessage

    model = Scripted([call("1", "breaks")], "done")
    agent = ReactAgent("a", model, [breaks], saver=MemorySaver())
    expect_result(asyncio.run(agent.ainvoke("go")) if asynchronous else agent.invoke("go"))
    assert model.results() == ["The tool failed: NoMessage: (NoMessage)"]


def test_a_model_that_rewrites_what_it_is_given_changes_nothing_that_is_kept() -> None:
    def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        for message in messages:
            for each in message.get("tool_calls", ()):
                each["function"] = {"name": each["name"], "arguments": str(each.pop("arguments"))}
        tools[0]["parameters"].pop("additionalProperties", None)
        tools.clear()
        said = sum(message["role"] == "assistant" for message in messages)
        return "done" if said == 2 else {"tool_calls": [call(f"c{said}", "execute_sql", query="q")]}

    office = Office()
    agent = ReactAgent(
        "a", model, [office.execute_sql], [HumanInTheLoopHook({"*": True})], saver=MemorySaver()
    )
    first = expect_interruption(agent.invoke("go", thread_id="t"))
    second = expect_interruption(agent.resume("t", first.approve_all()))
    assert second.tool_feedbacks[0].schema == first.tool_feedbacks[0].schema
    ended = expect_result(agent.resume("t", second.approve_all()))
    assert ended.messages[1]["tool_calls"] == [call("c0", "execute_sql", query="q")]
    assert len(office.ran) == 2


Thinks = Callable[[list[dict[str, Any]], threading.Event], Any]


def in_one_piece(messages: list[dict[str, Any]], leave: threading.Event) -> Any:
    if messages[-1]["role"] == "user":
        return {"tool_calls": [call("1", "read_data")]}
    assert leave.wait(60)
    return "done"


def in_pieces(messages: list[dict[str, Any]], leave: threading.Event) -> Iterator[Any]:
    if messages[-1]["role"] == "user":
        yield {"tool_calls": [call("1", "read_data")]}
    assert leave.wait(60)
    yield "done"


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("thinks", [in_one_piece, in_pieces])
def test_a_model_that_thinks_long_keeps_its_thread(thinks: Thinks, asynchronous: bool, streams: bool) -> None:
    leave, clock, lease_for = threading.Event(), FakeClock(), timedelta(milliseconds=60)
    saver = MemorySaver(clock=clock)
    agent = ReactAgent(
        "a",
        lambda messages: thinks(messages, leave),
        [Office().read_data],
        saver=saver,
        lease_for=lease_for,
        clock=clock,
    )

    async def told() -> list[Any]:
        return [event async for event in agent.astream("go", thread_id="t")]

    def run() -> Any:
        if streams:
            return asyncio.run(told())[-1] if asynchronous else [*agent.stream("go", thread_id="t")][-1]
        if asynchronous:
            return asyncio.run(agent.ainvoke("go", thread_id="t"))
        return agent.invoke("go", thread_id="t")

    def held_until() -> Any:
        kept = saver.get("t")
        answered = kept is not None and kept.checkpoint.messages[-1]["role"] == "tool"
        return kept.leased_until if kept is not None and answered else None

    outcomes: list[Any] = []
    running = threading.Thread(target=lambda: outcomes.append(run()))
    running.start()
    first = eventually(held_until)
    clock.advance(lease_for * 2 / 3)
    eventually(lambda: held_until() > first)
    clock.advance(lease_for * 2 / 3)
    with pytest.raises(ThreadBusy):
        agent.resume("t")
    leave.set()
    running.join(60)
    assert expect_result(outcomes[0]).text == "done"


FORKED = """
import os, sys, threading
from datetime import timedelta
from placet.hook import MemorySaver
from placet.hook.checkpoint import Checkpoint
from placet.hook.heartbeat import Heartbeat

class Counts(MemorySaver):
    def renew(self, *args, **named):
        beats.release()

beats = threading.Semaphore(0)
heartbeat = Heartbeat(timedelta(milliseconds=3))
with heartbeat.renewing(Counts(), Checkpoint(thread_id="t")):
    assert beats.acquire(timeout=60)
    child = os.fork()
    if child == 0:
        beats = threading.Semaphore(0)
        with heartbeat.renewing(Counts(), Checkpoint(thread_id="u")):
            os._exit(0 if beats.acquire(timeout=60) else 1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_keeps_the_threads_that_it_works_on() -> None:
    program = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    subprocess.run(program, check=True, timeout=60)


def test_a_damaged_file_does_not_hold_up_the_other_threads_of_its_folder(tmp_path: Path) -> None:
    saver, clock = FileSaver(tmp_path), FakeClock()
    hook = HumanInTheLoopHook({"execute_sql": ToolConfig(timeout=60)})
    model = Scripted([call("1", "execute_sql", query="q")], "done")
    agent = ReactAgent("a", model, Office().tools, [hook], saver, clock=clock)
    for name in ("bad", "good"):
        expect_interruption(agent.invoke("go", thread_id=name))
    (damaged,) = tmp_path.glob("bad-*.thread")
    damaged.write_bytes(b"")
    clock.advance(timedelta(hours=1))
    assert list(resume_pending(agent)) == ["good"]


def test_a_storage_that_takes_its_time_does_not_hold_up_the_event_loop() -> None:
    class Slow(MemorySaver):
        blocking = True

        def list_threads(self, stage: Stage) -> Sequence[str]:
            assert others_go_on.wait(60)
            return super().list_threads(stage)

    others_go_on = threading.Event()

    async def played() -> None:
        agent = ReactAgent("a", Scripted("done"), saver=Slow())
        looking = asyncio.create_task(aresume_pending(agent))
        await asyncio.sleep(0)
        others_go_on.set()
        assert await looking == {}

    asyncio.run(played())
