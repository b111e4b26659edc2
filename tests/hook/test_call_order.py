"""Calls of one turn run one after another in call order, unless their tools are declared parallel."""

import asyncio
import threading
from typing import Any

import pytest

from placet.hook import HumanInTheLoopHook, MemorySaver, ReactAgent, tool
from tests.hook.scripted_model import Scripted, call, expect_interruption, expect_result

GATED = HumanInTheLoopHook({"*": True})


class Workshop:
    """Tools that record when they begin and end; a slow one ends when it was overtaken, or after a moment."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.overtaken = threading.Event()

    def write(self, file: str) -> str:
        """Write a file, slowly."""
        self.events.append(f"write {file}")
        self.overtaken.wait(0.05)
        self.events.append(f"wrote {file}")
        return file

    def run(self, file: str) -> str:
        """Run a file."""
        self.events.append(f"run {file}")
        self.overtaken.set()
        return f"ran {file}"

    async def awrite(self, file: str) -> str:
        """Write a file, slowly."""
        self.events.append(f"write {file}")
        await asyncio.sleep(0.02)
        self.events.append(f"wrote {file}")
        return file

    def fail(self) -> str:
        """Fail."""
        self.events.append("fail")
        raise ValueError("no")


WRITE_THEN_RUN = [call("a", "write", file="x"), call("b", "run", file="x")]


def run_agent(tools: list[Any], calls: list[Any], hook: HumanInTheLoopHook | None, is_async: bool) -> Any:
    model = Scripted(calls, "done")
    agent = ReactAgent("clerk", model, tools, [hook] if hook else [], MemorySaver())

    async def main() -> Any:
        outcome = await agent.ainvoke("go", thread_id="t")
        return outcome if hook is None else await agent.aresume("t", outcome.approve_all())  # type: ignore[union-attr]

    if is_async:
        expect_result(asyncio.run(main()))
    elif hook is None:
        expect_result(agent.invoke("go", thread_id="t"))
    else:
        expect_result(agent.resume("t", expect_interruption(agent.invoke("go", thread_id="t")).approve_all()))
    return model.results()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("hook", [GATED, None], ids=["approved", "ungated"])
def test_a_file_is_written_before_it_is_run(hook: HumanInTheLoopHook | None, is_async: bool) -> None:
    shop = Workshop()
    results = run_agent([shop.write, shop.run], WRITE_THEN_RUN, hook, is_async)
    assert shop.events == ["write x", "wrote x", "run x"]
    assert results == ["x", "ran x"]


@pytest.mark.parametrize("is_async", [False, True])
def test_coroutines_and_tools_with_a_timeout_keep_the_order_too(is_async: bool) -> None:
    shop = Workshop()
    write = tool(name="write", timeout=60)(shop.awrite.__func__)  # type: ignore[attr-defined]

    @tool(timeout=60)
    async def written(file: str) -> str:
        """Write a file, slowly."""
        return str(await write(shop, file))

    calls = [call("a", "written", file="x"), call("b", "run", file="x"), call("c", "written", file="y")]
    run_agent([written, shop.run], calls, GATED, is_async)
    assert shop.events == ["write x", "wrote x", "run x", "write y", "wrote y"]


@pytest.mark.parametrize("is_async", [False, True])
def test_parallel_tools_run_at_the_same_time_between_the_others(is_async: bool) -> None:
    shop, both = Workshop(), threading.Barrier(2, timeout=60)

    @tool(parallel=True)
    def meet(file: str) -> str:
        """Wait for the other one."""
        both.wait()
        shop.events.append("met")
        return file

    calls = [
        call("a", "write", file="x"),
        call("b", "meet", file="1"),
        call("c", "meet", file="2"),
        call("d", "run", file="x"),
    ]
    results = run_agent([shop.write, meet, shop.run], calls, GATED, is_async)
    assert shop.events == ["write x", "wrote x", "met", "met", "run x"]
    assert results == ["x", "1", "2", "ran x"]


def test_a_call_after_one_that_failed_still_runs_and_the_model_reads_both() -> None:
    shop = Workshop()
    results = run_agent([shop.fail, shop.run], [call("a", "fail"), call("b", "run", file="x")], GATED, False)
    assert results == ["The tool failed: ValueError: no", "ran x"]


def test_a_call_that_was_never_started_runs_after_the_process_died() -> None:
    class Killed(BaseException):
        pass

    ran: list[str] = []

    def dies() -> str:
        """Die."""
        ran.append("dies")
        raise Killed

    def later() -> str:
        """Run later."""
        ran.append("later")
        return "ok"

    saver, model = MemorySaver(), Scripted([call("a", "dies"), call("b", "later")], "done")
    agent = ReactAgent("clerk", model, [dies, later], [GATED], saver)
    waiting = expect_interruption(agent.invoke("go", thread_id="t"))
    with pytest.raises(Killed):
        agent.resume("t", waiting.approve_all())
    assert ran == ["dies"]
    expect_result(agent.resume("t"))
    assert ran == ["dies", "later"]
    assert "unknown" in model.results()[0]
    assert model.results()[1] == "ok"


def test_calls_after_an_inner_agent_that_asks_wait_for_it_and_run_as_they_were_decided() -> None:
    shop = Workshop()
    inner_hook = HumanInTheLoopHook({"write": True})
    clerk = ReactAgent(
        "clerk", Scripted([call("i", "write", file="in")], "ok"), [shop.write], [inner_hook], MemorySaver()
    )
    calls = [
        call("a", "clerk", task="go"),
        call("b", "run", file="original"),
        call("c", "run", file="rejected"),
        call("d", "run", file="d"),
    ]
    model = Scripted(calls, "done")
    hook = HumanInTheLoopHook({"run": True})
    chief = ReactAgent("chief", model, [clerk.as_tool("Helps."), shop.run], [hook], MemorySaver())
    asked = expect_interruption(chief.invoke("go", thread_id="t"))
    decided = asked.edit("b", {"file": "edited"}).reject("c", "no").approve("d")
    inside = expect_interruption(chief.resume("t", decided))
    assert shop.events == []
    assert [each.id for each in inside.tool_feedbacks] == ["a/i"]
    expect_result(chief.resume("t", inside.approve_all()))
    assert shop.events == ["write in", "wrote in", "run edited", "run d"]
    results = model.results()
    assert results[0] == "ok"
    assert "it ran as run" in results[1]
    assert "rejected" in results[2]
    assert results[3] == "ran d"
