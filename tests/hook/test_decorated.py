"""`requires_approval` in unusual cases: mutable arguments, generators, errors, long calls."""

import asyncio
import io
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest

from placet.errors import CallRejected, InvalidFeedback, ThreadBusy
from placet.hook import InterruptionMetadata, MemorySaver, requires_approval
from placet.hook.terminal import ask_in_terminal
from tests.hook.scripted_model import Person


def test_what_was_changed_while_the_person_decided_runs_as_it_was_shown() -> None:
    ran: list[Any] = []

    def decides(waiting: InterruptionMetadata) -> InterruptionMetadata:
        payees.append("Mallory")
        return waiting.approve_all()

    @requires_approval(ask=decides)
    def pay(names: list[str]) -> None:
        ran.append(names)

    payees = ["Ada"]
    pay(payees)
    assert ran == [["Ada"]]


def test_an_answer_in_the_terminal_never_counts_for_another_call() -> None:
    talk = threading.Lock()

    def reads(prompt: str) -> str:
        assert talk.acquire(blocking=False), "two calls are asked about at once"
        try:
            os.sched_yield()
            return "a"
        finally:
            talk.release()

    @requires_approval(ask=lambda waiting: ask_in_terminal(waiting, read=reads, out=io.StringIO()))
    async def delete(table: str) -> str:
        return table

    async def played() -> list[str]:
        return await asyncio.gather(*(delete(str(number)) for number in range(20)))

    assert asyncio.run(played()) == [str(number) for number in range(20)]


def test_functions_whose_types_only_a_checker_knows_are_gated() -> None:
    person = Person({"decision": "approve"}, {"decision": "edit", "arguments": {"count": "many"}})

    class Box:
        @requires_approval(ask=person)
        def add(self, other: "Box | None" = None, count: int = 1) -> "Box":
            self.count = count
            return self

    assert Box().add(count=2).count == 2
    with pytest.raises(InvalidFeedback, match="count"):
        Box().add()


def test_a_function_that_fails_without_a_word_is_told_as_failed_when_it_is_called_again() -> None:
    class NoMessage(Exception):
        def __str__(self) -> str:
            raise LookupError

    @requires_approval(ask=Person({"decision": "approve"}), saver=MemorySaver(), key=lambda call: "k")
    def breaks() -> None:
        raise NoMessage

    with pytest.raises(NoMessage):
        breaks()
    with pytest.raises(CallRejected, match="failed: NoMessage"):
        breaks()


def test_a_person_who_has_nothing_more_to_say_does_not_hang_the_event_loop() -> None:
    answers: Iterator[InterruptionMetadata] = iter(())

    @requires_approval(ask=lambda waiting: next(answers))
    async def delete() -> None:
        raise AssertionError

    async def played() -> None:
        async with asyncio.timeout(60):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await delete()

    asyncio.run(played())


def test_an_async_generator_waits_for_its_person_and_holds_up_nobody() -> None:
    decide, told = threading.Event(), list[str]()

    def person(waiting: InterruptionMetadata) -> InterruptionMetadata:
        assert decide.wait(60), "the event loop stood still while the person was asked"
        return waiting.approve_all()

    @requires_approval(ask=person)
    async def read(book: str) -> AsyncIterator[str]:
        told.append(book)
        yield f"{book}, page 1"
        yield f"{book}, page 2"

    async def played() -> list[str]:
        pages = read("Emma")
        asyncio.get_running_loop().call_later(0, decide.set)
        return [page async for page in pages]

    assert asyncio.run(played()) == ["Emma, page 1", "Emma, page 2"]
    assert told == ["Emma"]


def test_an_async_generator_that_was_rejected_or_answered_yields_nothing_of_its_own() -> None:
    person = Person({"decision": "reject", "reason": "Not now."}, {"decision": "respond", "answer": "Later."})

    @requires_approval(ask=person, allowed_decisions=("reject", "respond"))
    async def read(book: str) -> AsyncIterator[str]:
        raise AssertionError
        yield

    async def played() -> list[str]:
        with pytest.raises(CallRejected, match="Not now"):
            [page async for page in read("Emma")]
        return [page async for page in read("Emma")]

    assert asyncio.run(played()) == ["Later."]


def test_generator_function_refuses_a_key() -> None:
    def pages(book: str) -> Iterator[str]:
        yield book

    async def apages(book: str) -> AsyncIterator[str]:
        yield book

    for function in (pages, apages):
        with pytest.raises(ValueError, match="yields"):
            requires_approval(saver=MemorySaver(), key=lambda call: "k")(function)


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_call_that_cannot_be_made_again_leaves_nothing_behind(decision: str) -> None:
    saver = MemorySaver()

    @requires_approval(ask=Person({"decision": decision}), saver=saver)
    def delete() -> None:
        return None

    @requires_approval(ask=Person({"decision": decision}), saver=saver)
    async def adelete() -> None:
        return None

    with nullcontext() if decision == "approve" else pytest.raises(CallRejected):
        delete()
    with nullcontext() if decision == "approve" else pytest.raises(CallRejected):
        asyncio.run(adelete())
    assert [*saver.list_threads("ready"), *saver.list_threads("paused"), *saver.list_threads("running")] == []


def test_a_call_that_nobody_was_there_to_decide_leaves_nothing_behind() -> None:
    saver = MemorySaver()

    def nobody(waiting: InterruptionMetadata) -> InterruptionMetadata:
        raise EOFError

    @requires_approval(ask=nobody, saver=saver)
    def delete() -> None:
        return None

    @requires_approval(ask=nobody, saver=saver)
    async def adelete() -> None:
        return None

    with pytest.raises(EOFError):
        delete()
    with pytest.raises(EOFError):
        asyncio.run(adelete())
    assert [*saver.list_threads("ready"), *saver.list_threads("paused"), *saver.list_threads("running")] == []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_durable_call_that_runs_long_is_not_taken_for_one_whose_process_died(asynchronous: bool) -> None:
    begun, leave, renewed = threading.Event(), threading.Event(), threading.Semaphore(0)

    class Watched(MemorySaver):
        def renew(self, *args: Any, **named: Any) -> None:
            super().renew(*args, **named)
            renewed.release()

    gated = requires_approval(
        ask=lambda waiting: waiting.approve_all(),
        saver=Watched(),
        key=lambda call: "k",
        lease_for=timedelta(seconds=3),
    )

    def works() -> str:
        begun.set()
        assert leave.wait(60)
        return "done"

    async def aworks() -> str:
        return await asyncio.to_thread(works)

    ended: list[str] = []
    sync, task = gated(works), gated(aworks)
    call = (lambda: asyncio.run(task())) if asynchronous else sync
    running = threading.Thread(target=lambda: ended.append(call()))
    running.start()
    assert begun.wait(60)
    assert renewed.acquire(timeout=60), "its lease runs out while it works"
    with pytest.raises(ThreadBusy):
        call()
    leave.set()
    running.join(60)
    assert [*ended, call()] == ["done", "done"]
