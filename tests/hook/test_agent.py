"""The agent's loop: model, hook, tools, model; each test names what someone would have seen go wrong."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.errors import (
    AlreadyDecided,
    CheckpointConflict,
    InvalidFeedback,
    ModelMisbehaved,
    NothingToResume,
    ThreadBusy,
    ThreadPaused,
)
from placet.hook import HumanInTheLoopHook, MemorySaver, ReactAgent, ToolConfig, tool
from placet.hook.checkpoint import Checkpoint
from placet.hook.events import ModelReplied, TextDelta, ToolAnswered
from placet.hook.result_texts import CANCELLED_BY_MESSAGE, OUTCOME_UNKNOWN
from placet.testing.clock import FakeClock
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result
from tests.waiting import eventually

GATED = {"write_file": "Writing needs approval", "execute_sql": "SQL needs approval"}


def agent(model: Any, office: Office, hook: HumanInTheLoopHook | None = None, **options: Any) -> ReactAgent:
    options = {"saver": MemorySaver(), **options}
    return ReactAgent("clerk", model, office.tools, [hook or HumanInTheLoopHook(GATED)], **options)


def four_calls() -> Scripted:
    return Scripted(
        [
            call("a", "write_file", path="x.txt"),
            call("b", "read_data"),
            call("c", "execute_sql", query="DELETE FROM records"),
            call("d", "execute_sql", query="DROP TABLE records"),
        ],
        "all done",
    )


def test_an_agent_whose_tools_need_nobody_simply_finishes() -> None:
    office, model = Office(), Scripted([call("a", "read_data")], "three rows")
    outcome = expect_result(agent(model, office).invoke("how many rows?", thread_id="t"))
    assert outcome.text == "three rows"
    assert [message["role"] for message in outcome.messages] == ["user", "assistant", "tool", "assistant"]
    assert model.results() == ['{"rows": 3}']


def test_nothing_of_a_turn_runs_before_the_person_has_decided() -> None:
    office = Office()
    waiting = expect_interruption(agent(four_calls(), office).invoke("clean up", thread_id="t"))
    assert office.ran == []
    assert [(one.id, one.name, one.description) for one in waiting.tool_feedbacks] == [
        ("a", "write_file", "Writing needs approval"),
        ("c", "execute_sql", "SQL needs approval"),
        ("d", "execute_sql", "SQL needs approval"),
    ]
    assert [one.id for one in waiting.tools_automatically_approved] == ["b"]
    assert waiting.node == "HITL"
    assert waiting.state["messages"][0] == {"role": "user", "content": "clean up"}
    assert waiting.tool_feedbacks[1].arguments == {"query": "DELETE FROM records"}


def test_results_come_back_in_the_order_of_the_calls_however_they_were_decided() -> None:
    office, model = Office(), four_calls()
    mine = agent(model, office)
    waiting = expect_interruption(mine.invoke("clean up", thread_id="t"))
    answered = (
        waiting.approve("a")
        .edit("c", {"query": "DELETE FROM old_records"})
        .reject("d", "Archive it instead.")
    )
    assert expect_result(mine.resume("t", answered)).text == "all done"
    assert model.results() == [
        "wrote x.txt",
        '{"rows": 3}',
        "A person changed this call before it ran; it ran as "
        'execute_sql({"query": "DELETE FROM old_records"}). Its result: ran DELETE FROM old_records',
        "A person rejected this call. Their reason: Archive it instead.",
    ]
    assert ("execute_sql", "DELETE FROM old_records") in office.ran
    assert len(office.ran) == 3


def test_rejecting_everything_goes_back_to_the_model_and_runs_nothing() -> None:
    office = Office()
    model = Scripted([call("a", "execute_sql", query="DROP TABLE t")], "then I will not")
    mine = agent(model, office)
    waiting = expect_interruption(mine.invoke("drop it", thread_id="t"))
    assert expect_result(mine.resume("t", waiting.reject_all("not safe"))).text == "then I will not"
    assert office.ran == []


def test_the_reason_may_be_given_as_the_description() -> None:
    office, model = Office(), Scripted([call("a", "execute_sql", query="DROP")], "ok")
    mine = agent(model, office)
    expect_interruption(mine.invoke("drop it", thread_id="t"))
    mine.resume("t", {"a": {"decision": "reject", "reason": "use archive"}})
    assert model.results() == ["A person rejected this call. Their reason: use archive"]


def test_editing_one_tool_by_name_approves_the_others() -> None:
    office, model = Office(), four_calls()
    mine = agent(model, office)
    waiting = expect_interruption(mine.invoke("clean up", thread_id="t"))
    mine.resume("t", waiting.edit_tool("execute_sql", '{"query": "SELECT 1"}'))
    assert office.ran.count(("execute_sql", "SELECT 1")) == 2
    assert ("write_file", "x.txt", "") in office.ran


def test_a_person_may_answer_in_the_tools_place_where_that_is_allowed() -> None:
    office, model = Office(), Scripted([call("a", "execute_sql", query="SELECT price")], "it is 5")
    hook = HumanInTheLoopHook({"execute_sql": ToolConfig(allowed_decisions=("approve", "respond"))})
    mine = agent(model, office, hook)
    waiting = expect_interruption(mine.invoke("price?", thread_id="t"))
    with pytest.raises(InvalidFeedback):
        mine.resume("t", waiting.reject_all("no"))
    mine.resume("t", waiting.respond("a", "The price is 5."))
    assert model.results() == ["The price is 5."]
    assert office.ran == []


def test_half_an_answer_waits_for_the_other_half_and_runs_nothing() -> None:
    office, model = Office(), four_calls()
    mine = agent(model, office)
    waiting = expect_interruption(mine.invoke("clean up", thread_id="t"))
    half = expect_interruption(mine.resume("t", {"a": "approve", "c": "approve"}))
    assert half.id == waiting.id
    assert [one.id for one in half.undecided] == ["d"]
    assert office.ran == []
    expect_result(mine.resume("t", {"d": "reject"}))
    assert len(office.ran) == 3


def test_a_wrong_answer_is_refused_and_the_thread_can_still_be_answered() -> None:
    office, model = Office(), four_calls()
    mine = agent(model, office)
    waiting = expect_interruption(mine.invoke("clean up", thread_id="t"))
    wrong_answers: tuple[Any, ...] = (
        {"zzz": "approve"},
        {"a": "yes"},
        {"a": None},
        {"c": {"decision": "edit", "arguments": {}}},
    )
    for wrong in wrong_answers:
        with pytest.raises(InvalidFeedback):
            mine.resume("t", wrong)
    expect_result(mine.resume("t", waiting.approve_all()))
    assert len(office.ran) == 4


def test_a_second_resume_brings_back_the_outcome_and_runs_nothing_twice() -> None:
    office, model = Office(), four_calls()
    mine = agent(model, office)
    answered = expect_interruption(mine.invoke("clean up", thread_id="t")).approve_all()
    first = expect_result(mine.resume("t", answered))
    assert mine.resume("t", answered) == first
    assert mine.resume("t", {"a": "approve", "c": "approve", "d": "approve"}) == first
    assert len(office.ran) == 4


def test_an_old_answer_does_not_answer_the_next_question() -> None:
    office = Office()
    model = Scripted(
        [call("a", "execute_sql", query="one")], [call("a", "execute_sql", query="two")], "both done"
    )
    mine = agent(model, office)
    first = expect_interruption(mine.invoke("go", thread_id="t"))
    second = expect_interruption(mine.resume("t", first.approve_all()))
    assert second.id != first.id
    assert expect_interruption(mine.resume("t", first.approve_all())).id == second.id
    assert office.ran == [("execute_sql", "one")]
    expect_result(mine.resume("t", second.approve_all()))
    assert office.ran == [("execute_sql", "one"), ("execute_sql", "two")]


def test_two_resumes_at_once_run_the_tool_once() -> None:
    office, entered, leave = Office(), threading.Event(), threading.Event()

    def deploy() -> str:
        entered.set()
        assert leave.wait(60)
        office.ran.append("deploy")
        return "deployed"

    mine = ReactAgent(
        "clerk",
        Scripted([call("a", "deploy")], "done"),
        [deploy],
        [HumanInTheLoopHook({"deploy": True})],
        saver=MemorySaver(),
    )
    answered = expect_interruption(mine.invoke("deploy", thread_id="t")).approve_all()
    outcomes: list[Any] = []
    first = threading.Thread(target=lambda: outcomes.append(mine.resume("t", answered)))
    first.start()
    assert entered.wait(60)
    with pytest.raises(ThreadBusy):
        mine.resume("t", answered)
    leave.set()
    first.join(60)
    assert office.ran == ["deploy"]
    assert expect_result(outcomes[0]).text == "done"


def test_a_new_message_while_the_person_is_asked_is_refused_unless_chosen_otherwise() -> None:
    office, model = Office(), four_calls()
    mine = agent(model, office)
    waiting = expect_interruption(mine.invoke("clean up", thread_id="t"))
    with pytest.raises(ThreadPaused):
        mine.invoke("never mind", thread_id="t")
    expect_result(mine.resume("t", waiting.approve_all()))


def test_a_queued_message_is_taken_up_after_the_calls_were_decided() -> None:
    office = Office()
    model = Scripted([call("a", "execute_sql", query="one")], "first done", "second done")
    mine = agent(model, office, HumanInTheLoopHook(GATED, on_new_message="queue"))
    waiting = expect_interruption(mine.invoke("first", thread_id="t"))
    assert expect_interruption(mine.invoke("second", thread_id="t")).id == waiting.id
    outcome = expect_result(mine.resume("t", waiting.approve_all()))
    assert outcome.text == "second done"
    said = [message["content"] for message in outcome.messages if message["role"] == "user"]
    assert said == ["first", "second"]


def test_cancelling_by_a_new_message_leaves_no_call_unanswered() -> None:
    office, model = (
        Office(),
        Scripted([call("a", "execute_sql", query="one"), call("b", "read_data")], "as you wish"),
    )
    mine = agent(model, office, HumanInTheLoopHook(GATED, on_new_message="cancel"))
    waiting = expect_interruption(mine.invoke("first", thread_id="t"))
    assert expect_result(mine.invoke("leave it", thread_id="t")).text == "as you wish"
    assert model.results() == [CANCELLED_BY_MESSAGE, CANCELLED_BY_MESSAGE]
    assert office.ran == []
    with pytest.raises(AlreadyDecided):
        mine.resume("t", waiting.approve_all())
    assert office.ran == [], "an approval that comes after the cancelling runs nothing"


def test_timeout_rejects_the_calls_and_tells_the_model() -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    office, model = Office(), Scripted([call("a", "execute_sql", query="one")], "nobody there")
    hook = HumanInTheLoopHook({"execute_sql": ToolConfig(timeout=timedelta(minutes=5))})
    mine = agent(model, office, hook, clock=lambda: now[0])
    waiting = expect_interruption(mine.invoke("go", thread_id="t"))
    assert waiting.expires_at == now[0] + timedelta(minutes=5)
    assert expect_interruption(mine.resume("t")).undecided
    now[0] += timedelta(minutes=5)
    with pytest.raises(InvalidFeedback):
        mine.resume("t", waiting.approve_all())
    assert expect_result(mine.resume("t")).text == "nobody there"
    assert model.results() == ["This call was not run. Nobody decided in time."]


def test_invalid_calls_are_not_reviewed() -> None:
    office = Office()
    model = Scripted(
        [
            {"id": "a", "name": "no_such_tool", "arguments": {}},
            {"id": "b", "name": "execute_sql", "arguments": "{not json"},
            {"id": "c", "name": "execute_sql", "arguments": {"qery": "x"}},
            {"id": "d", "name": "execute_sql", "arguments": [1]},
        ],
        "sorry",
    )
    assert expect_result(agent(model, office).invoke("go", thread_id="t")).text == "sorry"
    assert office.ran == []
    assert all("othing was run" in result for result in model.results())


def count(to: int) -> Iterator[str]:
    """Count."""
    yield from map(str, range(to))


async def count_async(to: int) -> AsyncIterator[str]:
    """Count."""
    for number in range(to):
        yield str(number)


def measure(times: int) -> Iterator[int]:
    """Measure."""
    yield from range(times)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_answers_piece_by_piece_runs_to_its_end(is_async: bool) -> None:
    asked = [call("1", "count", to=3), call("2", "count_async", to=2), call("3", "measure", times=2)]
    model = Scripted(asked, "done")
    agent = ReactAgent("a", model, [count, count_async, measure], saver=MemorySaver())
    expect_result(asyncio.run(agent.ainvoke("go")) if is_async else agent.invoke("go"))
    assert model.results() == ["012", "01", "[0, 1]"]


def test_calls_without_ids_or_with_the_same_id_are_told_apart() -> None:
    office = Office()
    model = Scripted(
        [
            {"name": "write_file", "arguments": '{"path": "1"}'},
            {"id": "x", "name": "write_file", "arguments": {"path": "2"}},
            {"id": "x", "name": "write_file", "arguments": {"path": "3"}},
        ],
        "done",
    )
    mine = agent(model, office)
    waiting = expect_interruption(mine.invoke("go", thread_id="t"))
    assert len({one.id for one in waiting.tool_feedbacks}) == 3
    expect_result(mine.resume("t", waiting.approve_all()))
    assert sorted(path for _, path, _ in office.ran) == ["1", "2", "3"]


def test_calls_of_parallel_tools_run_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=60)

    @tool(parallel=True)
    def left() -> str:
        meeting.wait()
        return "left"

    @tool(parallel=True)
    def right() -> str:
        meeting.wait()
        return "right"

    model = Scripted([call("a", "left"), call("b", "right")], "met")
    assert (
        expect_result(ReactAgent("clerk", model, [left, right], saver=MemorySaver()).invoke("go")).text
        == "met"
    )
    assert model.results() == ["left", "right"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_tool_that_hangs_does_not_hold_up_the_others(asynchronous: bool) -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    def hangs() -> str:
        release.wait(30)
        return "too late"

    model = Scripted([call("a", "hangs"), call("b", "quick")], "on we go")

    def quick() -> str:
        return "quick"

    mine = ReactAgent("clerk", model, [hangs, quick], saver=MemorySaver())
    outcome = asyncio.run(mine.ainvoke("go")) if asynchronous else mine.invoke("go")
    release.set()
    assert expect_result(outcome).text == "on we go"
    assert "did not finish within 0.05 seconds" in model.results()[0]
    assert model.results()[1] == "quick"


def test_a_tool_that_raises_is_answered_with_its_error() -> None:
    def breaks() -> str:
        raise ValueError("no such table")

    model = Scripted([call("a", "breaks")], "I see")
    expect_result(ReactAgent("clerk", model, [breaks], saver=MemorySaver()).invoke("go"))
    assert model.results() == ["The tool failed: ValueError: no such table"]


def test_an_edit_into_another_gated_tool_asks_again() -> None:
    office, model = Office(), Scripted([call("a", "execute_sql", query="one")], "written")
    mine = agent(model, office)
    waiting = expect_interruption(mine.invoke("go", thread_id="t"))
    again = expect_interruption(mine.resume("t", waiting.edit("a", {"path": "x"}, name="write_file")))
    assert [(one.name, one.arguments) for one in again.undecided] == [("write_file", {"path": "x"})]
    assert office.ran == []
    expect_result(mine.resume("t", again.approve_all()))
    assert office.ran == [("write_file", "x", "")]


class ProcessKilled(BaseException):
    """What kill -9 does to a tool, as far as this process can show it."""


class DyingSaver(MemorySaver):
    """The storage of a process that dies: it keeps nothing after that, until the next one has begun."""

    dead = False

    def die(self) -> None:
        self.dead = True
        raise ProcessKilled

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        if self.dead:
            raise ProcessKilled
        super().put(checkpoint, lease_for=lease_for)


def test_a_call_whose_process_died_is_reported_as_unknown_and_not_run_again() -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    tries: list[str] = []
    saver = DyingSaver(clock=lambda: now[0])

    def pay() -> None:
        tries.append("pay")
        saver.die()

    model = Scripted([call("a", "pay")], "I will check")
    mine = ReactAgent("clerk", model, [pay], [HumanInTheLoopHook({"pay": True})], saver, clock=lambda: now[0])
    answered = expect_interruption(mine.invoke("pay", thread_id="t")).approve_all()
    with pytest.raises(ProcessKilled):
        mine.resume("t", answered)
    saver.dead = False
    with pytest.raises(ThreadBusy):
        mine.resume("t", answered)
    now[0] += timedelta(minutes=6)
    assert expect_result(mine.resume("t", answered)).text == "I will check"
    assert model.results() == [OUTCOME_UNKNOWN]
    assert tries == ["pay"]


def test_a_repeatable_call_whose_process_died_runs_again_with_the_same_key() -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    keys: list[str] = []

    @tool(repeatable=True)
    def pay(amount: int, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise ProcessKilled
        return f"paid {amount}"

    model = Scripted([call("a", "pay", amount=5)], "paid")
    saver = MemorySaver(clock=lambda: now[0])
    mine = ReactAgent("clerk", model, [pay], [HumanInTheLoopHook({"pay": True})], saver, clock=lambda: now[0])
    answered = expect_interruption(mine.invoke("pay", thread_id="t")).approve_all()
    with pytest.raises(ProcessKilled):
        mine.resume("t", answered)
    now[0] += timedelta(minutes=6)
    expect_result(mine.resume("t"))
    assert model.results() == ["paid 5"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_a_model_that_fails_after_the_tools_ran_is_asked_again_and_the_tools_are_not() -> None:
    office = Office()
    calls_left = [True]

    def flaky(messages: list[dict], tools: list[dict]) -> dict:
        if messages[-1]["role"] == "user":
            return {"tool_calls": [call("a", "execute_sql", query="one")]}
        if calls_left.pop() if calls_left else False:
            raise ConnectionError("model away")
        return {"content": "done"}

    mine = agent(flaky, office)
    answered = expect_interruption(mine.invoke("go", thread_id="t")).approve_all()
    with pytest.raises(ConnectionError):
        mine.resume("t", answered)
    assert expect_result(mine.resume("t")).text == "done"
    assert office.ran == [("execute_sql", "one")]


def test_a_long_call_keeps_its_thread_while_it_runs() -> None:
    leave, clock, lease_for = threading.Event(), FakeClock(), timedelta(milliseconds=150)
    saver = MemorySaver(clock=clock)

    def slow() -> str:
        assert leave.wait(60)
        return "slow"

    def leased_until() -> datetime | None:
        kept = saver.get("t")
        return None if kept is None else kept.leased_until

    model = Scripted([call("a", "slow")], "done")
    mine = ReactAgent("clerk", model, [slow], saver=saver, lease_for=lease_for, clock=clock)
    outcomes: list[Any] = []
    running = threading.Thread(target=lambda: outcomes.append(mine.invoke("go", thread_id="t")))
    running.start()
    first = eventually(leased_until)
    clock.advance(lease_for * 2 / 3)
    eventually(lambda: (now := leased_until()) is not None and now > first)
    clock.advance(lease_for * 2 / 3)
    assert clock() > first, "without its heartbeat, it would have lost the thread by now"
    with pytest.raises(ThreadBusy):
        mine.resume("t")
    leave.set()
    running.join(60)
    assert expect_result(outcomes[0]).text == "done"


def test_what_an_agent_inside_stops_surfaces_with_the_way_to_it() -> None:
    office = Office()
    inner_model = Scripted([call("a", "execute_sql", query="one"), call("b", "read_data")], "inner done")
    inner = ReactAgent("dba", inner_model, office.tools, [HumanInTheLoopHook(GATED)], saver=MemorySaver())
    outer_model = Scripted(
        [call("x", "dba", task="clean"), call("y", "dba", task="clean more")], "outer done"
    )
    saver = MemorySaver()
    outer = ReactAgent(
        "boss", outer_model, [inner.as_tool("Knows the database.", parallel=True)], saver=saver
    )
    waiting = expect_interruption(outer.invoke("go", thread_id="t"))
    assert [(one.id, one.path, one.name) for one in waiting.tool_feedbacks] == [
        ("x/a", ("dba",), "execute_sql"),
        ("y/a", ("dba",), "execute_sql"),
    ]
    assert office.ran == []
    half = expect_interruption(outer.resume("t", {"x/a": "approve"}))
    assert [one.id for one in half.undecided] == ["y/a"]
    assert (
        expect_result(outer.resume("t", {"y/a": {"decision": "reject", "reason": "enough"}})).text
        == "outer done"
    )
    assert office.ran.count(("execute_sql", "one")) == 1
    assert outer_model.results() == ["inner done", "inner done"]
    assert saver.list_threads("paused") == []
    assert saver.list_threads("ready") == ["t"], "the threads inside are forgotten"


def test_streaming_shows_replies_results_and_the_interruption() -> None:
    office, model = Office(), four_calls()
    mine = agent(model, office)
    events = list(mine.stream("clean up", thread_id="t"))
    assert [type(event).__name__ for event in events] == ["ModelReplied", "InterruptionMetadata"]
    events = list(mine.stream_resume("t", expect_interruption(events[-1]).approve_all()))
    assert [type(event).__name__ for event in events] == ["ToolAnswered"] * 4 + [
        "ModelReplied",
        "AgentResult",
    ]
    answered = [event.call.id for event in events if isinstance(event, ToolAnswered)]
    assert answered == ["a", "b", "c", "d"]


def test_a_model_that_speaks_in_pieces_is_heard_in_pieces() -> None:
    def speaks(messages: list[dict]):
        yield "Hel"
        yield "lo"

    async def speaks_and_calls(messages: list[dict]):
        yield "Hm"
        yield {"content": "Hm", "tool_calls": []}

    assert [
        event
        for event in ReactAgent("clerk", speaks, saver=MemorySaver()).stream("hi")
        if isinstance(event, TextDelta)
    ] == [
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
    ]
    assert expect_result(ReactAgent("clerk", speaks, saver=MemorySaver()).invoke("hi")).text == "Hello"
    assert expect_result(ReactAgent("clerk", speaks_and_calls, saver=MemorySaver()).invoke("hi")).text == "Hm"


def test_the_same_loop_runs_on_an_event_loop() -> None:
    office, model = Office(), four_calls()

    async def thinks(messages: list[dict], tools: list[dict]) -> dict:
        return model(messages, tools)

    async def played() -> None:
        mine = agent(thinks, office)
        waiting = expect_interruption(await mine.ainvoke("clean up", thread_id="t"))
        events = [event async for event in mine.astream_resume("t", waiting.approve_all())]
        assert expect_result(events[-1]).text == "all done"
        assert expect_result(await mine.aresume("t", waiting.approve_all())).text == "all done"
        events = [event async for event in mine.astream("again")]
        assert isinstance(events[0], ModelReplied)

    asyncio.run(played())
    assert len(office.ran) == 4


@pytest.mark.parametrize("reply", [None, 5, [], {"tool_calls": "x"}, {"tool_calls": [{"id": "a"}]}])
def test_a_reply_that_is_no_message_is_an_error_and_leaves_the_thread_as_it_was(reply: object) -> None:
    office = Office()
    mine = agent(lambda messages: reply, office)
    with pytest.raises(ModelMisbehaved):
        mine.invoke("go", thread_id="t")
    assert mine.saver.get("t") is None


def test_a_model_that_never_stops_is_stopped() -> None:
    model = Scripted(*[[call("a", "read_data")]] * 5)
    with pytest.raises(ModelMisbehaved, match="3 turns"):
        agent(model, Office(), max_turns=3).invoke("go")


def test_threads_that_are_not_ours_or_do_not_exist_are_not_resumed() -> None:
    office, saver = Office(), MemorySaver()
    waiting = expect_interruption(agent(four_calls(), office, saver=saver).invoke("go", thread_id="t"))
    other = ReactAgent("other", four_calls(), office.tools, saver=saver)
    with pytest.raises(NothingToResume, match="clerk"):
        other.resume("t", waiting.approve_all())
    with pytest.raises(NothingToResume):
        other.resume("no such thread", waiting.approve_all())


def test_a_thread_that_someone_else_moved_on_is_not_overwritten() -> None:
    saver = MemorySaver()
    saver.put(Checkpoint(thread_id="t", rev=1))
    with pytest.raises(CheckpointConflict):
        saver.put(Checkpoint(thread_id="t", rev=1))


def test_instructions_reach_the_model_and_not_the_thread() -> None:
    model = Scripted("hello")
    outcome = expect_result(
        ReactAgent("clerk", model, instructions="Be brief.", saver=MemorySaver()).invoke("hi")
    )
    assert model.saw[0][0] == {"role": "system", "content": "Be brief."}
    assert outcome.messages[0]["role"] == "user"
