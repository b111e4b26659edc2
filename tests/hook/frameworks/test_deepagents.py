"""Deep agents, from their own package: no call of theirs or of a subagent runs past the approval."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from placet.errors import AlreadyDecided, HookError, ThreadPaused
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolCall
from placet.hook.frameworks.langchain import (
    ApprovalMiddleware,
    aresume,
    interruption_of,
    interruptions_of,
    resume,
)
from placet.hook.result_texts import CANCELLED_BY_MESSAGE
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, list_results, thread_config

SQL = ToolCall(id="s1", name="execute_sql", arguments={"query": "DROP"})
LOOK = ToolCall(id="l1", name="look", arguments={"at": "the tables"})
WRITE = ToolCall(id="w1", name="write_file", arguments={"file_path": "/note", "content": "hello"})
SHELL = ToolCall(id="x1", name="execute", arguments={"command": "echo hello > note"})
REFUSED = "Calls of execute_sql need a review, but an inner agent calls it without. Give that agent approval"
STOPS_SQL = HumanInTheLoopHook({"execute_sql": True}, optional=["execute_sql"])
Run = Callable[[Any], Any]


def build_task(subagent: str = "dba", call_id: str = "t1") -> ToolCall:
    return ToolCall(id=call_id, name="task", arguments={"description": "clean up", "subagent_type": subagent})


class SharedModel(ScriptedModel):
    """The model of an agent and of the subagent that a deep agent has by default."""

    inside: Scene

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if "go" in [message.text for message in messages]:
            return super()._generate(messages, *args, **kwargs)
        return ScriptedModel(scene=self.inside)._generate(messages, *args, **kwargs)


def build_model(*turns: tuple[ToolCall, ...], inside: Sequence[tuple[ToolCall, ...]] = ()) -> ScriptedModel:
    if not inside:
        return ScriptedModel(scene=Scene(turns=turns))
    return SharedModel(scene=Scene(turns=turns), inside=Scene(turns=tuple(inside)))


def build_approval(hook: HumanInTheLoopHook = STOPS_SQL, **named: Any) -> list[ApprovalMiddleware]:
    return [ApprovalMiddleware(hook, saver=MemorySaver(), **named)]


class Database:
    """Tools that record what they did, and deep agents that have them."""

    def __init__(self) -> None:
        self.did: list[str] = []

        @tool
        def execute_sql(query: str) -> str:
            """Run SQL."""
            self.did.append(query)
            return "ok"

        @tool
        def look(at: str) -> str:
            """Look."""
            self.did.append(f"looked at {at}")
            return "seen"

        self.tools = [execute_sql, look]

    def build(self, *turns: tuple[ToolCall, ...], **named: Any) -> Any:
        given = {"tools": self.tools, "middleware": build_approval(), "checkpointer": InMemorySaver()}
        return create_deep_agent(named.pop("model", None) or build_model(*turns), **{**given, **named})

    def subagent(self, *turns: tuple[ToolCall, ...], name: str = "dba", **named: Any) -> Any:
        spec = {"name": name, "description": "Knows SQL", "system_prompt": "", "tools": self.tools}
        return {**spec, "model": build_model(*turns or ((SQL,),)), **named}

    def compiled(self, middleware: Any = (), *, build: Any = create_agent) -> Any:
        runnable = build(build_model((SQL,)), self.tools, middleware=middleware)
        return {"name": "dba", "description": "Knows SQL", "runnable": runnable}

    def nested(self, middleware: Any = ()) -> Any:
        """Return a deep agent without the tool, with a subagent that has it."""
        inside = [self.subagent(middleware=middleware, name="leaf")]
        runnable = create_deep_agent(build_model((build_task("leaf", "n1"),)), subagents=inside)
        return {"name": "dba", "description": "Knows SQL", "runnable": runnable}


@pytest.fixture
def database() -> Database:
    return Database()


def invoke(agent: Any) -> Any:
    return agent.invoke(GO, thread_config("t"))


def ainvoke(agent: Any) -> Any:
    return asyncio.run(agent.ainvoke(GO, thread_config("t")))


def stream(agent: Any) -> Any:
    return list(agent.stream(GO, thread_config("t"), stream_mode="values"))[-1]


def astream(agent: Any) -> Any:
    async def last() -> Any:
        chunks = agent.astream(GO, thread_config("t"), stream_mode=["updates", "values"], subgraphs=True)
        return [chunk async for chunk in chunks][-1]

    return asyncio.run(last())


def approve(agent: Any, result: Any, is_async: bool = False) -> Any:
    stopped = interruption_of(result)
    assert stopped is not None
    answer = stopped.approve_all()
    return asyncio.run(aresume(agent, "t", answer)) if is_async else resume(agent, "t", answer)


def list_waiting(result: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(call.name, call.path) for stopped in interruptions_of(result) for call in stopped.undecided]


@pytest.mark.parametrize("run", [invoke, ainvoke, stream])
@pytest.mark.parametrize("call", [SQL, WRITE, SHELL], ids=["own", "file", "shell"])
def test_own_and_built_in_tools_of_a_deep_agent_wait(
    call: ToolCall, run: Run, database: Database, tmp_path: Path
) -> None:
    backend, hook = LocalShellBackend(tmp_path, virtual_mode=True), HumanInTheLoopHook({call.name: True})
    agent = database.build((call,), backend=backend, middleware=build_approval(hook))
    result = run(agent)
    assert list_waiting(result) == [(call.name, ())]
    assert (database.did, list(tmp_path.iterdir())) == ([], [])
    approve(agent, result, is_async=run is ainvoke)
    written = [path.read_text().strip() for path in tmp_path.iterdir()]
    assert (database.did, written) == ((["DROP"], []) if call is SQL else ([], ["hello"]))


def test_a_rejected_built_in_tool_does_not_run(database: Database, tmp_path: Path) -> None:
    backend, hook = LocalShellBackend(tmp_path, virtual_mode=True), HumanInTheLoopHook({"execute": True})
    agent = database.build((SHELL,), backend=backend, middleware=build_approval(hook))
    invoke(agent)
    resume(agent, "t", {"x1": "reject"})
    assert list(tmp_path.iterdir()) == []


UNGATED: dict[str, Callable[[Database], Any]] = {
    "custom": lambda database: database.build((build_task(),), subagents=[database.subagent()]),
    "compiled": lambda database: database.build((build_task(),), subagents=[database.compiled()]),
    "compiled deep": lambda database: database.build(
        (build_task(),), subagents=[database.compiled(build=create_deep_agent)]
    ),
    "nested": lambda database: database.build((build_task(),), subagents=[database.nested()]),
    "general-purpose": lambda database: database.build(
        model=build_model((build_task("general-purpose"),), inside=[(LOOK,), (SQL,)])
    ),
    "second of the turn": lambda database: database.build(
        (build_task("idle", "t0"), build_task(), build_task(call_id="t2")),
        subagents=[database.subagent(), database.subagent((LOOK,), name="idle")],
    ),
    "in parallel": lambda database: database.build(
        (build_task(), build_task(call_id="t2")),
        subagents=[database.subagent()],
        middleware=build_approval(parallel=["task"]),
    ),
    "below a gated one": lambda database: database.build(
        (build_task("outer"),),
        subagents=[
            {
                "name": "outer",
                "description": "Asks others",
                "runnable": database.build((build_task(),), subagents=[database.subagent()]),
            }
        ],
    ),
}


@pytest.mark.each_value
@pytest.mark.parametrize("run", [invoke, ainvoke, stream, astream])
@pytest.mark.parametrize("build", UNGATED.values(), ids=UNGATED)
def test_a_subagent_without_the_middleware_does_not_run_a_gated_tool(
    build: Callable[[Database], Any], run: Run, database: Database
) -> None:
    agent = build(database)
    with pytest.raises(HookError, match=REFUSED):
        run(agent)
    assert "DROP" not in database.did


def test_the_default_subagent_does_not_run_a_gated_built_in_tool(database: Database, tmp_path: Path) -> None:
    model = build_model((build_task("general-purpose"),), inside=[(SHELL,)])
    backend, hook = LocalShellBackend(tmp_path, virtual_mode=True), HumanInTheLoopHook({"execute": True})
    agent = database.build(model=model, backend=backend, middleware=build_approval(hook))
    with pytest.raises(HookError, match="Calls of execute need a review, but an inner agent"):
        invoke(agent)
    assert list(tmp_path.iterdir()) == []


def test_a_subagent_whose_middleware_says_nothing_of_a_tool_does_not_run_it(database: Database) -> None:
    other = build_approval(HumanInTheLoopHook({"look": True}))
    agent = database.build((build_task(),), subagents=[database.subagent(middleware=other)])
    with pytest.raises(HookError, match=REFUSED):
        invoke(agent)
    assert database.did == []


def test_a_subagent_whose_middleware_exempts_a_tool_runs_it(database: Database) -> None:
    other = build_approval(HumanInTheLoopHook({"execute_sql": False}))
    agent = database.build((build_task(),), subagents=[database.subagent(middleware=other)])
    assert list_results(invoke(agent)["messages"]) == [("t1", "done")]
    assert database.did == ["DROP"]


@pytest.mark.parametrize("run", [invoke, ainvoke])
@pytest.mark.parametrize("name", ["dba", "general-purpose"])
def test_subagents_run_tools_that_need_nobody(name: str, run: Run, database: Database) -> None:
    tasks = (build_task(name), build_task(name, "t2"))
    agent = database.build(tasks, subagents=[database.subagent((LOOK,), (LOOK,), name=name)])
    assert list_results(run(agent)["messages"]) == [("t1", "done"), ("t2", "done")]
    assert database.did == ["looked at the tables"] * 4


SHARED = build_approval()
GATED: dict[str, Callable[[Database], Any]] = {
    "custom": lambda database: database.build(
        (build_task(),), subagents=[database.subagent(middleware=build_approval())]
    ),
    "instead of general-purpose": lambda database: database.build(
        (build_task("general-purpose"),),
        subagents=[database.subagent(middleware=build_approval(), name="general-purpose")],
    ),
    "compiled": lambda database: database.build(
        (build_task(),), subagents=[database.compiled(build_approval())]
    ),
    "the same middleware": lambda database: database.build(
        (build_task(),), subagents=[database.subagent(middleware=SHARED)], middleware=SHARED
    ),
    "nested": lambda database: database.build((build_task(),), subagents=[database.nested(build_approval())]),
}


@pytest.mark.each_value
@pytest.mark.parametrize("run", [invoke, ainvoke, stream, astream])
@pytest.mark.parametrize("build", GATED.values(), ids=GATED)
def test_a_subagent_with_the_middleware_waits_and_runs_once(
    build: Callable[[Database], Any], run: Run, database: Database
) -> None:
    agent, is_async = build(database), run in (ainvoke, astream)
    result = run(agent)
    [(name, path)] = list_waiting(result)
    assert (name, set(path)) == ("execute_sql", {"tools"})
    assert database.did == []
    for _ in range(2):
        ended = approve(agent, result, is_async)
        assert list_results(ended["messages"]) == [("t1", "done")]
        assert database.did == ["DROP"]


@pytest.mark.filterwarnings("ignore:.*forked subagents.*")
def test_a_forked_subagent_has_the_middleware_of_its_parent(database: Database) -> None:
    forked = {"name": "dba", "description": "Knows SQL", "mode": "fork", "model": build_model((SQL,))}
    agent = database.build((build_task(),), subagents=[forked])
    result = invoke(agent)
    assert list_waiting(result) == [("execute_sql", ("tools",))]
    assert database.did == []
    approve(agent, result)
    assert database.did == ["DROP"]


@pytest.mark.parametrize("parallel", [(), ("task",)], ids=["in order", "parallel"])
@pytest.mark.parametrize("run", [invoke, ainvoke])
def test_several_tasks_of_a_turn_wait_and_each_call_runs_once(
    run: Run, parallel: tuple[str, ...], database: Database
) -> None:
    agent = database.build(
        (build_task(), build_task(call_id="t2")),
        subagents=[database.subagent(middleware=build_approval())],
        middleware=build_approval(parallel=parallel),
    )
    result = run(agent)
    assert len(list_waiting(result)) == (2 if parallel else 1)
    result = approve(agent, result, run is ainvoke)
    assert len(list_waiting(result)) == 1
    assert database.did == ["DROP"]
    result = approve(agent, result, run is ainvoke)
    assert list_results(result["messages"]) == [("t1", "done"), ("t2", "done")]
    assert database.did == ["DROP", "DROP"]


def test_a_task_and_the_call_inside_it_are_decided_one_after_the_other(database: Database) -> None:
    rules = HumanInTheLoopHook({"execute_sql": True, "task": True})
    inside = [database.subagent(middleware=build_approval())]
    agent = database.build((build_task(),), subagents=inside, middleware=build_approval(rules))
    result = invoke(agent)
    assert list_waiting(result) == [("task", ())]
    result = approve(agent, result)
    assert list_waiting(result) == [("execute_sql", ("tools",))]
    assert list_results(approve(agent, result)["messages"]) == [("t1", "done")]
    assert database.did == ["DROP"]


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_beside_a_task_run_once_while_the_call_inside_it_waits(
    is_async: bool, database: Database
) -> None:
    later = ToolCall(id="s2", name="execute_sql", arguments={"query": "VACUUM"})
    beside = ToolCall(id="s1", name="execute_sql", arguments={"query": "SELECT"})
    inside = [database.subagent((LOOK,), (SQL,), middleware=build_approval())]
    agent = database.build((beside, build_task(), later), subagents=inside)
    result = approve(agent, (ainvoke if is_async else invoke)(agent), is_async)
    assert list_waiting(result) == [("execute_sql", ("tools",))]
    assert database.did == ["SELECT", "looked at the tables"]
    result = approve(agent, result, is_async)
    assert list_results(result["messages"]) == [("s1", "ok"), ("t1", "done"), ("s2", "ok")]
    assert database.did == ["SELECT", "looked at the tables", "DROP", "VACUUM"]


def test_a_later_contradiction_of_what_a_subagent_ran_is_an_error(database: Database) -> None:
    saver = MemorySaver()
    outer, inner = ([ApprovalMiddleware(STOPS_SQL, saver=saver)] for _ in range(2))
    inside = [database.subagent(middleware=inner)]
    agent = database.build((build_task(),), subagents=inside, middleware=outer)
    stopped = interruption_of(invoke(agent))
    assert stopped is not None
    ended = resume(agent, "t", stopped.approve_all())
    with pytest.raises(AlreadyDecided) as refused:
        resume(agent, "t", stopped.reject_all())
    assert refused.value.outcome == ended
    assert database.did == ["DROP"]


def test_a_deep_agent_that_is_built_again_takes_up_what_waits_in_a_subagent(database: Database) -> None:
    graph, outer, inner = InMemorySaver(), MemorySaver(), MemorySaver()

    def build() -> Any:
        middleware = [[ApprovalMiddleware(STOPS_SQL, saver=saver)] for saver in (outer, inner)]
        inside = [database.subagent(middleware=middleware[1])]
        return database.build((build_task(),), subagents=inside, middleware=middleware[0], checkpointer=graph)

    stopped = invoke(build())
    assert list_results(approve(build(), stopped)["messages"]) == [("t1", "done")]
    assert database.did == ["DROP"]


@pytest.mark.parametrize("rule", ["execute_sql", "execute_sqll"])
def test_a_rule_for_a_tool_that_only_a_subagent_has_must_be_optional(rule: str, database: Database) -> None:
    outer = build_approval(HumanInTheLoopHook({rule: True}))
    inside = [database.subagent(middleware=build_approval())]
    agent = database.build((build_task(),), subagents=inside, tools=[], middleware=outer)
    with pytest.raises(HookError) as refused:
        invoke(agent)
    assert f"{rule} matches no tool, so it stops nothing." in refused.value.message
    assert "or only another agent has it, name its rule in optional=[…]" in refused.value.message
    assert database.did == []


@pytest.mark.parametrize("has_middleware", [True, False])
def test_an_optional_rule_for_a_tool_that_only_a_subagent_has_stops_it(
    has_middleware: bool, database: Database
) -> None:
    middleware = build_approval() if has_middleware else []
    inside = [database.subagent(middleware=middleware)]
    agent = database.build((build_task(),), subagents=inside, tools=[])
    if has_middleware:
        assert list_waiting(invoke(agent)) == [("execute_sql", ("tools",))]
    else:
        with pytest.raises(HookError, match=REFUSED):
            invoke(agent)
    assert database.did == []


def send(agent: Any, text: str, is_async: bool = False) -> InterruptionMetadata | None:
    said = {"messages": [("user", text)]}
    if is_async:
        return interruption_of(asyncio.run(agent.ainvoke(said, thread_config("t"))))
    return interruption_of(agent.invoke(said, thread_config("t")))


def list_message_types(result: Any) -> list[str]:
    return [message.type for message in result["messages"]]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_message_to_a_deep_agent_that_waits_is_refused(is_async: bool, database: Database) -> None:
    agent = database.build((LOOK, SQL))
    stopped = invoke(agent)
    for _ in range(2):
        with pytest.raises(ThreadPaused):
            send(agent, "never mind", is_async)
    result = approve(agent, stopped, is_async)
    assert list_message_types(result) == ["human", "ai", "tool", "tool", "ai"]
    assert list_results(result["messages"]) == [("l1", "seen"), ("s1", "ok")]
    assert database.did == ["looked at the tables", "DROP"]


def test_a_queued_message_to_a_deep_agent_comes_after_the_results(database: Database) -> None:
    hook = HumanInTheLoopHook({"execute_sql": True}, on_new_message="queue")
    agent = database.build((SQL,), middleware=build_approval(hook))
    invoke(agent)
    assert send(agent, "and hurry") is not None
    stopped = send(agent, "please")
    assert stopped is not None
    result = resume(agent, "t", stopped.approve_all())
    assert list_message_types(result) == ["human", "ai", "tool", "human", "human", "ai"]
    assert list_results(result["messages"]) == [("s1", "ok")]


def test_a_message_to_a_deep_agent_may_cancel_what_waits(database: Database) -> None:
    hook = HumanInTheLoopHook({"execute_sql": True}, on_new_message="cancel")
    agent = database.build((SQL,), middleware=build_approval(hook))
    invoke(agent)
    assert send(agent, "stop that") is None
    values = agent.get_state(thread_config("t")).values
    assert list_message_types(values) == ["human", "ai", "tool", "human", "ai"]
    assert list_results(values["messages"]) == [("s1", CANCELLED_BY_MESSAGE)]
    assert database.did == []
