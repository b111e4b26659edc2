"""Code around an agent's steps: it sees and changes what it may, and never gets past a review."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from placet.errors import HookError
from placet.hook import AgentResult, AgentSteps, HumanInTheLoopHook, MemorySaver, ReactAgent, ToolCall, tool
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result

WRITE = call("a", "write_file", path="x")
SQL = call("b", "execute_sql", query="q")


class Recorder(AgentSteps):
    def __init__(self) -> None:
        self.saw: list[str] = []

    def before_agent(self, messages: Sequence[dict[str, Any]]) -> None:
        self.saw.append(f"before_agent {messages[-1]['content']}")

    async def after_agent(self, result: AgentResult) -> None:
        self.saw.append(f"after_agent {result.text}")

    def before_model(self, messages: Sequence[dict[str, Any]]) -> None:
        self.saw.append(f"before_model {len(messages)}")

    async def after_model(self, reply: Any) -> None:
        self.saw.append("after_model")


def agent(*steps: AgentSteps, calls: Any = (WRITE,), interceptors: Any = (), tools: Any = None) -> ReactAgent:
    return ReactAgent(
        "clerk",
        Scripted(list(calls), "done"),
        tools or Office().tools,
        [HumanInTheLoopHook({"write_file": True}, optional=["write_file"]), *steps],
        MemorySaver(),
        interceptors=interceptors,
    )


def go(made: ReactAgent, is_async: bool) -> AgentResult:
    """Invoke the agent, and approve what waits."""

    async def on_a_loop() -> Any:
        stopped = await made.ainvoke("go", thread_id="t")
        return stopped if isinstance(stopped, AgentResult) else await made.aresume("t", stopped.approve_all())

    if is_async:
        return expect_result(asyncio.run(on_a_loop()))
    stopped = made.invoke("go", thread_id="t")
    return expect_result(
        stopped if isinstance(stopped, AgentResult) else made.resume("t", stopped.approve_all())
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_hooks_act_before_and_after_the_agent_and_the_model(is_async: bool) -> None:
    steps = Recorder()
    assert go(agent(steps), is_async).text == "done"
    assert steps.saw == [
        "before_agent go",
        "before_model 1",
        "after_model",
        "before_model 3",
        "after_model",
        "after_agent done",
    ]


def test_what_the_model_reads_may_change_and_the_thread_does_not() -> None:
    class Trimmed(AgentSteps):
        def before_model(self, messages: Sequence[dict[str, Any]]) -> Any:
            return [*messages[-1:], {"role": "user", "content": "Be brief."}] if len(messages) < 2 else None

    made = agent(Trimmed())
    expect_interruption(made.invoke("go", thread_id="t"))
    model: Any = made._model.call
    assert model is not None
    saved = made.saver.get("t")
    assert saved is not None
    assert [message["role"] for message in saved.checkpoint.messages] == ["user", "assistant"]


def test_calls_that_a_hook_puts_into_a_reply_are_reviewed_too() -> None:
    class Meddler(AgentSteps):
        def after_model(self, reply: Any) -> Any:
            return {"content": "", "tool_calls": [WRITE]} if reply.get("tool_calls") else None

    office = Office()
    waiting = expect_interruption(agent(Meddler(), calls=[SQL], tools=office.tools).invoke("go"))
    assert [each.name for each in waiting.tool_feedbacks] == ["write_file"]
    assert office.ran == []


def test_a_hook_that_raises_ends_the_run_and_the_thread_can_continue() -> None:
    class Strict(AgentSteps):
        fails = True

        def before_model(self, messages: Sequence[dict[str, Any]]) -> None:
            if self.fails:
                raise ValueError("not today")

    strict = Strict()
    made = agent(strict)
    with pytest.raises(ValueError, match="not today"):
        made.invoke("go", thread_id="t")
    strict.fails = False
    assert go(made, is_async=False).text == "done"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("inner", ["sync", "async"])
def test_interceptors_run_around_each_call_the_first_one_outermost(is_async: bool, inner: str) -> None:
    saw: list[str] = []

    def shout(call: ToolCall, run: Callable[[], Any]) -> Any:
        saw.append(f"before {call.name}")
        answer = run()
        return f"{answer}!"

    async def ask(call: ToolCall, run: Callable[[], Any]) -> Any:
        return f"{await run()}?"

    def ask_now(call: ToolCall, run: Callable[[], Any]) -> Any:
        return f"{run()}?"

    made = agent(interceptors=[shout, ask if inner == "async" else ask_now])
    result = go(made, is_async)
    assert [message["content"] for message in result.messages if message["role"] == "tool"] == ["wrote x?!"]
    assert saw == ["before write_file"]


@pytest.mark.parametrize("is_async", [False, True])
def test_async_interceptors_and_tools_share_the_callers_event_loop(is_async: bool) -> None:
    loops: list[Any] = []

    async def write_file(path: str) -> str:
        loops.append(asyncio.get_running_loop())
        return path

    async def watch(call: ToolCall, run: Callable[[], Any]) -> Any:
        loops.append(asyncio.get_running_loop())
        return await run()

    assert go(agent(interceptors=[watch], tools=[write_file]), is_async).text == "done"
    assert len(loops) == 2
    assert not is_async or loops[0] is loops[1]


def retry(call: ToolCall, run: Callable[[], Any]) -> Any:
    """Try twice."""
    try:
        return run()
    except OSError:
        return run()


@pytest.mark.parametrize("repeatable", [False, True])
def test_only_a_repeatable_call_runs_again(repeatable: bool) -> None:
    tried: list[str] = []

    @tool(repeatable=repeatable)
    def write_file(path: str) -> str:
        tried.append(path)
        if len(tried) == 1:
            raise OSError("the line is busy")
        return "written"

    result = go(agent(interceptors=[retry], tools=[write_file]), is_async=False)
    [answer] = [message["content"] for message in result.messages if message["role"] == "tool"]
    assert len(tried) == 1 + repeatable
    assert ("written" in answer) is repeatable
    assert repeatable or "is not repeatable" in answer


def test_a_rejected_call_reaches_no_interceptor() -> None:
    saw: list[str] = []
    made = agent(interceptors=[lambda call, run: saw.append(call.name)])
    made.resume("t", expect_interruption(made.invoke("go", thread_id="t")).reject_all())
    assert saw == []


def test_what_is_no_interceptor_is_refused() -> None:
    with pytest.raises(ValueError, match="interceptors"):
        agent(interceptors=[Recorder()])
    with pytest.raises(ValueError, match="interceptors"):
        agent(interceptors=["log"])
    assert issubclass(HookError, Exception)
