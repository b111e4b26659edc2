"""What goes wrong with LangChain's own approval, and with agents in agents, does not go wrong here."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import ValidationError

from placet.errors import InvalidFeedback, NothingToResume, ThreadPaused
from placet.hook import HumanInTheLoopHook, MemoryGrants, MemorySaver, ToolCall
from placet.hook.frameworks.langchain import (
    ApprovalMiddleware,
    aresume,
    interruption_of,
    interruptions_of,
    resume,
)
from placet.hook.result_texts import CANCELLED_BY_MESSAGE, OUTCOME_UNKNOWN
from placet.testing.approvals import Scene
from placet.testing.clock import FakeClock
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, list_results, thread_config

SQL = ToolCall(id="c1", name="execute_sql", arguments={"query": "DELETE"})
MAIL = ToolCall(id="c2", name="send_email", arguments={"to": "all"})
APPROVE = {"decisions": {"c1": "approve"}}


class Office:
    """Tools that remember their runs, and agents that use them."""

    def __init__(self, **policy: Any) -> None:
        self.ran: list[str] = []
        self.clock = FakeClock()
        self.saver = MemorySaver(clock=self.clock)
        rules = {"execute_sql": True, "send_email": True}
        self.hook = HumanInTheLoopHook(rules, optional=rules, **policy)
        self.model = ScriptedModel(scene=Scene(turns=()))

    def tools(self) -> list[Any]:
        def execute_sql(query: str) -> str:
            """Run a query."""
            self.ran.append(query)
            return f"rows of {query}"

        def send_email(to: str) -> str:
            """Send an email."""
            self.ran.append(to)
            return f"sent to {to}"

        return [execute_sql, send_email]

    def approval(self, **named: Any) -> ApprovalMiddleware:
        return ApprovalMiddleware(self.hook, saver=self.saver, clock=self.clock, **named)

    def agent(self, *turns: tuple[ToolCall, ...], tools: Any = None, **named: Any) -> Any:
        self.model = ScriptedModel(scene=Scene(turns=turns))
        named = {"middleware": [self.approval()], "checkpointer": InMemorySaver(), **named}
        return create_agent(self.model, self.tools() if tools is None else tools, **named)


@pytest.fixture
def office() -> Office:
    return Office()


def user_message(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def list_message_types(messages: list[Any]) -> list[str]:
    return [message.type for message in messages]


@pytest.mark.parametrize("answer", [APPROVE, {"c1": "approve"}, {"c1": {"decision": "approve"}}], ids=str)
def test_langgraphs_own_command_resumes(office: Office, answer: Any) -> None:
    agent = office.agent((SQL,))
    result = agent.invoke(GO, thread_config("t"))
    [asked] = result["__interrupt__"]
    assert asked.value["tool_feedbacks"][0]["id"] == "c1"
    assert asked.value["thread_id"] == "t"
    agent.invoke(Command(resume=answer), thread_config("t"))
    assert office.ran == ["DELETE"]


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize(
    "wrong",
    ["yes", True, ["approve"], {"decisions": []}, {"decisions": [{"type": "ask"}]}, {"c9": "approve"}],
)
def test_a_wrong_command_does_not_brick_the_thread(office: Office, wrong: Any, by_id: bool) -> None:
    agent = office.agent((SQL,))
    [asked] = agent.invoke(GO, thread_config("t"))["__interrupt__"]
    for _ in range(2):
        with pytest.raises(ValidationError, match=r"."):
            agent.invoke(Command(resume={asked.id: wrong} if by_id else wrong), thread_config("t"))
    assert interruption_of(agent.get_state(thread_config("t"))) is not None, "it is still there to answer"
    agent.invoke(Command(resume=APPROVE), thread_config("t"))
    assert office.ran == ["DELETE"]


def test_half_an_answer_by_command_shows_the_other_half(office: Office) -> None:
    agent = office.agent((SQL, MAIL))
    first = agent.invoke(GO, thread_config("t"))["__interrupt__"]
    half = agent.invoke(Command(resume=APPROVE), thread_config("t"))
    assert half["__interrupt__"][0].id == first[0].id
    stopped = interruption_of(half)
    assert stopped is not None
    assert [waiting.id for waiting in stopped.undecided] == ["c2"]
    agent.invoke(None, thread_config("t"))
    assert office.ran == [], "nothing was decided by asking again"
    agent.invoke(Command(resume={"decisions": {"c2": "reject"}}), thread_config("t"))
    assert office.ran == ["DELETE"]


def test_the_checkpoint_holds_plain_json(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    agent = office.agent((SQL, MAIL))
    stopped = interruption_of(agent.invoke(GO, thread_config("t")))
    assert stopped is not None
    half = resume(agent, "t", stopped.approve("c1"))
    resume(agent, "t", [stopped.tool_feedbacks[1].reject("no")])
    assert json.loads(json.dumps(half["__interrupt__"][0].value)) == half["__interrupt__"][0].value
    assert [record.message for record in caplog.records] == []
    assert office.ran == ["DELETE"]


def test_the_second_version_of_results_and_streams_is_read_too(office: Office) -> None:
    agent = office.agent((SQL,))
    assert interruption_of(agent.invoke(GO, thread_config("t"), version="v2")) is not None
    chunks = list(agent.stream(GO, thread_config("u"), version="v2", stream_mode="updates", subgraphs=True))
    assert [stopped.thread_id for chunk in chunks if (stopped := interruption_of(chunk))] == ["u"]


def test_a_refused_message_leaves_no_trace(office: Office) -> None:
    agent = office.agent((SQL,))
    agent.invoke(GO, thread_config("t"))
    for _ in range(2):
        with pytest.raises(ThreadPaused):
            agent.invoke(user_message("never mind"), thread_config("t"))
    with pytest.raises(ThreadPaused):
        agent.invoke(None, thread_config("t"))
    with pytest.raises(InvalidFeedback):
        resume(agent, "t", {"c9": "approve"})
    result = agent.invoke(Command(resume=APPROVE), thread_config("t"))
    assert list_message_types(result["messages"]) == ["human", "ai", "tool", "ai"]
    assert office.ran == ["DELETE"]


def test_a_queued_message_comes_after_the_results() -> None:
    office = Office(on_new_message="queue")
    agent = office.agent((SQL,))
    agent.invoke(GO, thread_config("t"))
    again = agent.invoke(user_message("and hurry"), thread_config("t"))
    assert interruption_of(again) is not None
    result = resume(agent, "t", {"c1": "approve"})
    assert (
        list_message_types(office.model.saw[-1])
        == list_message_types(result["messages"])[:-1]
        == ["human", "ai", "tool", "human"]
    )
    assert office.ran == ["DELETE"]


def test_a_message_may_cancel_what_waits() -> None:
    office = Office(on_new_message="cancel")
    agent = office.agent((SQL, MAIL), (MAIL,))
    agent.invoke(GO, thread_config("t"))
    result = agent.invoke(user_message("stop that"), thread_config("t"))
    assert list_message_types(result["messages"]) == ["human", "ai", "tool", "tool", "human", "ai"]
    assert list_results(result["messages"]) == [("c1", CANCELLED_BY_MESSAGE), ("c2", CANCELLED_BY_MESSAGE)]
    assert list_message_types(office.model.saw[-1]) == ["human", "ai", "tool", "tool", "human"]
    again = interruption_of(result)
    assert again is not None, "the model asked again"
    resume(agent, "t", again.approve_all())
    assert office.ran == ["all"]


def test_going_back_in_time_runs_nothing_twice(office: Office) -> None:
    agent = office.agent((SQL,))
    agent.invoke(GO, thread_config("t"))
    resume(agent, "t", {"c1": "approve"})
    earlier = next(each for each in agent.get_state_history(thread_config("t")) if each.next == ("tools",))
    result = agent.invoke(None, earlier.config)
    assert list_results(result["messages"]) == [("c1", "rows of DELETE")]
    assert office.ran == ["DELETE"]


def test_a_tool_that_failed_is_not_tried_again(office: Office) -> None:
    @tool
    def execute_sql(query: str) -> str:
        """Run a query."""
        office.ran.append(query)
        raise OSError("disk full")

    agent = office.agent((SQL,), tools=[execute_sql])
    agent.invoke(GO, thread_config("t"))
    with pytest.raises(OSError, match="disk full"):
        resume(agent, "t", {"c1": "approve"})
    result = resume(agent, "t", {"c1": "approve"})
    assert list_results(result["messages"]) == [("c1", "The tool failed: OSError: disk full")]
    assert office.ran == ["DELETE"]


class ProcessKilled(BaseException):
    """The end of the process, as far as a tool can tell."""


@pytest.mark.parametrize(
    ("repeatable", "text", "runs"), [((), OUTCOME_UNKNOWN, 1), (("execute_sql",), "ok", 2)]
)
def test_a_call_whose_process_died_runs_again_only_if_it_may(
    office: Office, repeatable: tuple[str, ...], text: str, runs: int
) -> None:
    @tool
    def execute_sql(query: str) -> str:
        """Run a query."""
        office.ran.append(query)
        if len(office.ran) == 1:
            raise ProcessKilled
        return "ok"

    named = {"middleware": [office.approval(repeatable=repeatable)], "tools": [execute_sql]}
    agent = office.agent((SQL,), **named)
    agent.invoke(GO, thread_config("t"))
    with pytest.raises(ProcessKilled):
        resume(agent, "t", {"c1": "approve"})
    office.clock.advance(timedelta(hours=1))
    result = resume(agent, "t", {"c1": "approve"})
    assert list_results(result["messages"]) == [("c1", text)]
    assert len(office.ran) == runs


def test_when_a_tool_that_ends_the_run_is_rejected_the_model_goes_on(office: Office) -> None:
    @tool(return_direct=True)
    def execute_sql(query: str) -> str:
        """Run a query."""
        return "never"

    agent = office.agent((SQL,), tools=[execute_sql])
    agent.invoke(GO, thread_config("t"))
    result = resume(agent, "t", {"c1": "reject"})
    assert list_message_types(result["messages"]) == ["human", "ai", "tool", "ai"]


def test_a_tool_may_change_the_state_and_its_edit_is_told(office: Office) -> None:
    @tool
    def execute_sql(query: str) -> Command:
        """Run a query."""
        blocks: list[Any] = [{"type": "text", "text": query}]
        return Command(update={"messages": [ToolMessage(content=blocks, tool_call_id="c1")]})

    agent = office.agent((SQL,), tools=[execute_sql])
    agent.invoke(GO, thread_config("t"))
    result = resume(agent, "t", {"c1": {"decision": "edit", "arguments": {"query": "SELECT 1"}}})
    [(_, text)] = list_results(result["messages"])
    assert text.startswith("A person changed this call")
    assert text.endswith("SELECT 1")


class MeddlingMiddleware(AgentMiddleware[Any, Any, Any]):
    """Changes calls after they were reviewed."""

    def __init__(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        super().__init__()
        self.change = change

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(tool_call=self.change(request.tool_call)))


def test_what_runs_is_what_was_approved_whatever_other_middleware_does(office: Office) -> None:
    meddler = MeddlingMiddleware(lambda call: {**call, "args": {"query": "DROP"}})
    agent = office.agent((SQL,), middleware=[meddler, office.approval()])
    agent.invoke(GO, thread_config("t"))
    resume(agent, "t", {"c1": "approve"})
    assert office.ran == ["DELETE"]


def test_a_call_that_other_middleware_wrote_is_stopped_before_it_runs(office: Office) -> None:
    read = ToolCall(id="c3", name="read_data", arguments={})

    @tool
    def read_data() -> str:
        """Read."""
        return "data"

    meddler = MeddlingMiddleware(lambda call: {**call, "name": "send_email", "args": {"to": "spy"}})
    tools = [*office.tools(), read_data]
    agent = office.agent((read,), tools=tools, middleware=[meddler, office.approval()])
    stopped = interruption_of(agent.invoke(GO, thread_config("t")))
    assert stopped is not None
    assert stopped.tool_feedbacks[0].arguments == {"to": "spy"}
    resume(agent, "t", stopped.reject_all())
    assert office.ran == []


def test_a_tool_that_asks_a_person_itself_is_asked_once_and_runs_to_its_end(office: Office) -> None:
    @tool
    def execute_sql(query: str) -> str:
        """Run a query."""
        name = interrupt("which database?")
        office.ran.append(name)
        return f"ran on {name}"

    agent = office.agent((SQL,), tools=[execute_sql])
    agent.invoke(GO, thread_config("t"))
    asked = resume(agent, "t", {"c1": "approve"})
    assert interruption_of(asked) is None
    assert asked["__interrupt__"][0].value == "which database?"
    with pytest.raises(NothingToResume):
        resume(agent, "t", {"c1": "approve"})
    result = agent.invoke(Command(resume="test"), thread_config("t"))
    assert list_results(result["messages"]) == [("c1", "ran on test")]
    assert office.ran == ["test"]


def test_an_agent_inside_a_tool_asks_with_its_path_and_takes_wrong_answers_well(office: Office) -> None:
    inner = office.agent((SQL,), checkpointer=None)

    @tool
    def send_email(to: str) -> str:
        """Have an assistant do it."""
        return inner.invoke(GO)["messages"][-1].text

    outer = office.agent((MAIL,), tools=[send_email])
    outer.invoke(GO, thread_config("t"))
    asked = interruption_of(resume(outer, "t", {"c2": "approve"}))
    assert asked is not None
    assert [(waiting.id, waiting.path) for waiting in asked.tool_feedbacks] == [("c1", ("tools",))]
    with pytest.raises(InvalidFeedback):
        resume(outer, "t", {"c9": "approve"})
    result = resume(outer, "t", asked.approve_all())
    assert list_results(result["messages"]) == [("c2", "done")]
    assert office.ran == ["DELETE"]


def build_parallel_agents(office: Office) -> Any:
    """Two agents that work side by side in one graph."""
    graph = StateGraph(MessagesState)
    graph.add_node("dba", office.agent((SQL,), checkpointer=None))
    graph.add_node("clerk", office.agent((MAIL,), checkpointer=None))
    graph.add_edge(START, "dba")
    graph.add_edge(START, "clerk")
    return graph.compile(checkpointer=InMemorySaver())


def test_agents_side_by_side_are_answered_together(office: Office) -> None:
    graph = build_parallel_agents(office)
    both = interruptions_of(graph.invoke(GO, thread_config("t")))
    assert sorted(each.tool_feedbacks[0].path for each in both) == [("clerk",), ("dba",)]
    with pytest.raises(InvalidFeedback):
        resume(graph, "t", {"c1": "approve", "c9": "approve"})
    resume(graph, "t", {"c1": "approve", "c2": "reject"})
    assert office.ran == ["DELETE"]


def test_agents_side_by_side_are_answered_one_after_the_other(office: Office) -> None:
    graph = build_parallel_agents(office)
    first, second = interruptions_of(graph.invoke(GO, thread_config("t")))
    left = interruption_of(resume(graph, "t", first.approve_all()))
    assert left is not None
    assert left.id == second.id
    resume(graph, "t", list(second.approve_all().tool_feedbacks))
    assert sorted(office.ran) == ["DELETE", "all"]


def test_a_call_that_was_granted_before_uses_its_grant_once(office: Office) -> None:
    grants = MemoryGrants(clock=office.clock)
    grants.add(SQL, agent="agent", uses=2, lasts_for=timedelta(hours=1), granted_by="Ada")
    agent = office.agent((SQL,), middleware=[office.approval(grants=grants)])
    assert [interruption_of(agent.invoke(GO, thread_config(name))) is None for name in "abc"] == [
        True,
        True,
        False,
    ]
    assert office.ran == ["DELETE", "DELETE"]


@pytest.mark.anyio
async def test_an_async_agent_refuses_queues_and_goes_on(office: Office) -> None:
    agent = office.agent((SQL,))
    await agent.ainvoke(GO, thread_config("t"))
    with pytest.raises(ThreadPaused):
        await agent.ainvoke(user_message("never mind"), thread_config("t"))
    with pytest.raises(InvalidFeedback):
        await aresume(agent, "t", {"c1": "yes"})  # type: ignore[dict-item]
    result = await aresume(agent, "t", {"c1": "approve"})
    assert list_message_types(result["messages"]) == ["human", "ai", "tool", "ai"]
    assert await aresume(agent, "t", {"c1": "approve"}) == result
    assert office.ran == ["DELETE"]


def test_the_same_reply_in_two_threads_is_judged_in_each(office: Office) -> None:
    reply = AIMessage(
        content="", id="same", tool_calls=[{"id": "c1", "name": "execute_sql", "args": {"query": "x"}}]
    )
    agent = office.agent((SQL,))
    seeded = {"messages": [HumanMessage("go", id="h"), reply]}
    for thread in ("a", "b"):
        agent.update_state(thread_config(thread), seeded, as_node="model")
        assert interruption_of(agent.invoke(None, thread_config(thread))) is not None
    resume(agent, "a", {"c1": "approve"})
    assert office.ran == ["x"]
    resume(agent, "b", {"c1": "reject"})
    assert office.ran == ["x"]


@pytest.mark.parametrize(
    ("argument", "others"),
    [
        (float("nan"), ()),
        (float("inf"), ()),
        ("half a character: \ud800", ()),
        (float("nan"), (MAIL,)),
        ([float("-inf")], (MAIL,)),
    ],
)
def test_arguments_that_no_page_could_show_are_refused_and_the_model_is_told(
    office: Office, argument: Any, others: tuple[ToolCall, ...]
) -> None:
    call = ToolCall(id="c1", name="execute_sql", arguments={"query": argument})
    agent = office.agent((call, *others))
    result = agent.invoke(GO, thread_config("t"))
    if others:
        waiting = interruption_of(result)
        assert waiting is not None
        assert [each.id for each in waiting.tool_feedbacks] == ["c2"]
        result = resume(agent, "t", waiting.approve_all())
    told, *rest = list_results(result["messages"])
    assert told[0] == "c1"
    assert told[1].startswith("Nothing was run: the arguments are not JSON")
    assert rest == [("c2", "sent to all") for _ in others]
    assert office.ran == ["all" for _ in others]


def test_a_tool_that_needs_nobody_gets_a_number_that_json_lacks() -> None:
    ran: list[str] = []

    def set_limit(limit: float) -> str:
        """Set a limit."""
        ran.append(str(limit))
        return "set"

    call = ToolCall(id="c1", name="set_limit", arguments={"limit": float("nan")})
    agent: Any = create_agent(
        ScriptedModel(scene=Scene(turns=((call,),))),
        [tool(set_limit)],
        middleware=[ApprovalMiddleware(HumanInTheLoopHook({"set_limit": False}), saver=MemorySaver())],
        checkpointer=InMemorySaver(),
    )
    assert list_results(agent.invoke(GO, thread_config("t"))["messages"]) == [("c1", "set")]
    assert ran == ["nan"]
