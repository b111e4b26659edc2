"""The drop-in behaves as LangChain's own middleware of the same name, and keeps what that one loses."""

import inspect
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware as LangChainMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import ValidationError

from placet.errors import HookError
from placet.hook import MemorySaver, ToolCall
from placet.hook.frameworks.langchain import HumanInTheLoopMiddleware, interruption_of, resume
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, thread_config
from tests.hook.opened_cases import OpenedCases

PAY = ToolCall(id="c1", name="pay", arguments={"to": "Ann", "amount": 3})
MAIL = ToolCall(id="c2", name="mail", arguments={"to": "Bo"})
LOOK = ToolCall(id="c3", name="look", arguments={"at": "till"})
THREAD = thread_config("t")
APPROVE = {"type": "approve"}
EDIT = {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "Cy", "amount": 1}}}
RULES: dict[str, Any] = {
    "pay": True,
    "mail": {"allowed_decisions": ["approve", "reject"], "description": "Sends mail"},
    "look": False,
}
BATCHES = [
    [APPROVE, APPROVE],
    [EDIT, {"type": "reject", "message": "no mail"}],
    [{"type": "reject"}, APPROVE],
    [{"type": "respond", "message": "paid in cash"}, {"type": "reject"}],
    [{"type": "edit", "edited_action": {"name": "look", "args": {"at": "safe"}}}, APPROVE],
]


class Counter:
    """An agent with one of the two middlewares, and what its tools did."""

    def __init__(self, kind: type[Any], *turn: ToolCall, rules: Any = None, **options: Any) -> None:
        self.ran: list[tuple[Any, ...]] = []

        @tool
        def pay(to: str, amount: int) -> str:
            """Pay somebody."""
            self.ran.append(("pay", to, amount))
            return f"paid {amount} to {to}"

        @tool
        def mail(to: str) -> str:
            """Send a mail."""
            self.ran.append(("mail", to))
            return f"mailed {to}"

        @tool
        def look(at: str) -> str:
            """Look."""
            self.ran.append(("look", at))
            return f"looked at {at}"

        self.agent: Any = create_agent(
            ScriptedModel(scene=Scene(turns=(turn or (PAY, MAIL, LOOK),))),
            [pay, mail, look],
            middleware=[kind(rules or RULES, **options)],
            checkpointer=InMemorySaver(),
        )

    def start(self) -> Sequence[Any]:
        interrupts: Sequence[Any] = self.agent.invoke(GO, THREAD)["__interrupt__"]
        return interrupts

    def answer(self, said: Any) -> Any:
        return self.agent.invoke(Command(resume=said), THREAD)

    def outcome(self, final: Any) -> Any:
        results = [each for each in final["messages"] if isinstance(each, ToolMessage)]
        return sorted(self.ran), {each.tool_call_id: (each.status, each.content) for each in results}


def test_the_constructor_is_langchains() -> None:
    theirs = inspect.signature(LangChainMiddleware).parameters
    ours = inspect.signature(HumanInTheLoopMiddleware).parameters
    assert list(theirs) == list(ours)[: len(theirs)]
    assert [each.default for each in theirs.values()] == [ours[name].default for name in theirs]
    assert issubclass(HumanInTheLoopMiddleware, LangChainMiddleware)


@pytest.mark.parametrize("options", [{}, {"edit_notice": None, "description_prefix": "Look:"}], ids=str)
@pytest.mark.parametrize("said", BATCHES, ids=str)
def test_a_batch_ends_as_with_langchains_middleware(said: Any, options: Any) -> None:
    counters = [Counter(kind, **options) for kind in (LangChainMiddleware, HumanInTheLoopMiddleware)]
    theirs, ours = [counter.start()[0].value for counter in counters]
    assert [
        {name: each[name] for name in ("name", "args", "description")} for each in ours["action_requests"]
    ] == theirs["action_requests"]
    assert ours["review_configs"] == theirs["review_configs"]
    answer = {"decisions": said}
    expected, found = [counter.outcome(counter.answer(answer)) for counter in counters]
    assert found == expected


@pytest.mark.parametrize(("pay", "mail"), BATCHES[:4], ids=str)
def test_calls_one_by_one_end_as_with_langchains_middleware(pay: Any, mail: Any) -> None:
    outcomes = []
    for kind in (LangChainMiddleware, HumanInTheLoopMiddleware):
        counter = Counter(kind, interrupt_mode="per_call")
        asked = {each.value["tool_call_id"]: each for each in counter.start()}
        values = {key: each.value for key, each in asked.items()}
        schemas = {key: {**each.response_schema} for key, each in asked.items()}
        for schema in schemas.values():
            schema.pop("x-placet-interruption", None)
        [left] = counter.answer({asked["c1"].id: pay})["__interrupt__"]
        outcomes.append((values, schemas, counter.outcome(counter.answer({left.id: mail}))))
    assert outcomes[1] == outcomes[0]


@pytest.mark.anyio
async def test_an_async_run_is_reviewed() -> None:
    counter = Counter(HumanInTheLoopMiddleware, PAY)
    await counter.agent.ainvoke(GO, THREAD)
    final = await counter.agent.ainvoke(Command(resume={"decisions": [EDIT]}), THREAD)
    assert counter.ran == [("pay", "Cy", 1)]
    assert "a human reviewer replaced this tool call" in counter.outcome(final)[1]["c1"][1]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_wrong_answer_is_not_stored(mode: str) -> None:
    counter = Counter(HumanInTheLoopMiddleware, MAIL, interrupt_mode=mode)
    [asked] = counter.start()
    for wrong in ({"type": "respond", "message": "x"}, {"type": "edit"}, {"type": "?"}, "yes"):
        with pytest.raises(ValidationError):
            counter.answer({asked.id: wrong if mode == "per_call" else {"decisions": [wrong]}})
    assert counter.ran == []
    counter.answer({asked.id: APPROVE if mode == "per_call" else {"decisions": [APPROVE]}})
    assert counter.ran == [("mail", "Bo")]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_rejection_stays_one_when_the_condition_changes(mode: str) -> None:
    verdicts = iter([True, False, False])
    rules = {"mail": {"allowed_decisions": ["approve", "reject"], "when": lambda request: next(verdicts)}}
    counter = Counter(HumanInTheLoopMiddleware, MAIL, rules=rules, interrupt_mode=mode)
    [asked] = counter.start()
    counter.answer({asked.id: {"decisions": [{"type": "reject"}]}})
    assert counter.ran == []


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_condition_sees_the_call_and_one_that_fails_asks(mode: str) -> None:
    seen = []

    def is_large(request: Any) -> bool:
        seen.append((request.tool_call["name"], request.tool_call["args"], request.state["messages"][0].text))
        return bool(request.tool_call["args"]["amount"] > 5)

    def describe(call: Any, state: Any, runtime: Any) -> str:
        return f"{call['name']} after {len(state['messages'])} messages"

    rules = {"pay": {"allowed_decisions": ["approve"], "when": is_large, "description": describe}}
    small = Counter(HumanInTheLoopMiddleware, PAY, rules=rules, interrupt_mode=mode)
    assert "__interrupt__" not in small.agent.invoke(GO, THREAD)
    assert seen == [("pay", PAY.arguments, "go")]
    strange = ToolCall(id="c1", name="pay", arguments={"to": "Ann", "amount": None})
    [asked] = Counter(HumanInTheLoopMiddleware, strange, rules=rules, interrupt_mode=mode).start()
    request = asked.value if mode == "per_call" else asked.value["action_requests"][0]
    assert request["description"] == "pay after 2 messages"


def test_an_edit_into_another_reviewed_tool_is_reviewed() -> None:
    counter = Counter(HumanInTheLoopMiddleware, PAY)
    counter.start()
    mail = {"type": "edit", "edited_action": {"name": "mail", "args": {"to": "Bo"}}}
    [again] = counter.answer({"decisions": [mail]})["__interrupt__"]
    assert counter.ran == []
    counter.answer({"decisions": [APPROVE], "digest": again.value["digest"]})
    assert counter.ran == [("mail", "Bo")]


def test_decisions_survive_the_process_and_count_once() -> None:
    saver = MemorySaver()
    first = Counter(HumanInTheLoopMiddleware, PAY, MAIL, saver=saver)
    stopped = interruption_of(first.agent.invoke(GO, THREAD))
    assert stopped is not None
    resume(first.agent, "t", stopped.approve("c1"))
    second = Counter(HumanInTheLoopMiddleware, saver=saver)
    second.agent.checkpointer = first.agent.checkpointer
    final = resume(second.agent, "t", {"c2": "reject"})
    assert (first.ran, second.ran) == ([], [("pay", "Ann", 3)])
    assert second.outcome(second.answer({"decisions": [APPROVE, APPROVE]})) == second.outcome(final)


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_placets_own_answers_work_too(mode: str) -> None:
    counter = Counter(HumanInTheLoopMiddleware, PAY, interrupt_mode=mode)
    stopped = interruption_of(counter.agent.invoke(GO, THREAD))
    assert stopped is not None
    assert stopped.undecided[0].name == "pay"
    resume(counter.agent, "t", stopped.edit("c1", {"to": "Cy", "amount": 1}))
    assert counter.ran == [("pay", "Cy", 1)]


@pytest.mark.parametrize("rules", [{"mail": True}, {"mail": True, "pay": True}, {"pay": False}], ids=str)
def test_calls_of_an_agent_inside_are_reviewed(rules: Any) -> None:
    inner = Counter(HumanInTheLoopMiddleware, PAY, rules=rules)

    @tool
    def clerk(task: str) -> str:
        """Do a task."""
        return str(inner.agent.invoke({"messages": [HumanMessage(task)]})["messages"][-1].text)

    task = ToolCall(id="o1", name="clerk", arguments={"task": "pay"})
    agent: Any = create_agent(
        ScriptedModel(scene=Scene(turns=((task,),))),
        [clerk],
        middleware=[HumanInTheLoopMiddleware({"pay": True})],
        checkpointer=InMemorySaver(),
    )
    inner.agent.checkpointer = None  # that of the agent around it
    if "pay" not in rules:
        with pytest.raises(HookError, match="inner agent"):
            agent.invoke(GO, THREAD)
        assert inner.ran == []
        return
    result = agent.invoke(GO, THREAD)
    if rules["pay"]:
        assert inner.ran == []
        [asked] = result["__interrupt__"]
        assert asked.value["action_requests"][0]["name"] == "pay"
        agent.invoke(Command(resume={"decisions": [APPROVE]}), THREAD)
    assert inner.ran == [("pay", "Ann", 3)]


def test_each_turn_opens_a_case() -> None:
    reviews = OpenedCases()
    counter = Counter(HumanInTheLoopMiddleware, reviews=reviews)
    [asked] = counter.start()
    assert asked.value["case"]["case_id"] == reviews.opened[0]


def test_calls_with_the_same_id_are_decided_one_by_one() -> None:
    twins = [ToolCall(id="", name="mail", arguments={"to": name}) for name in ("Bo", "Di")]
    counter = Counter(HumanInTheLoopMiddleware, *twins)
    counter.start()
    counter.answer({"decisions": [{"type": "reject"}, APPROVE]})
    assert counter.ran == [("mail", "Di")]


def test_outside_a_graph_no_call_is_approved() -> None:
    call = {"id": "c1", "name": "mail", "args": {"to": "Bo"}}
    state: Any = {"messages": [HumanMessage("go"), AIMessage("", tool_calls=[call])]}
    with pytest.raises(RuntimeError, match="outside of a runnable context"):
        HumanInTheLoopMiddleware(RULES).after_model(state, Runtime())


def test_wrong_settings_are_refused() -> None:
    kind: Any = HumanInTheLoopMiddleware
    rules: Any
    for rules in ({"pay": {"when": lambda request: True}}, {"pay": {"allowed_decisions": []}}):
        with pytest.raises(ValueError, match="pay"):
            kind(rules)
    with pytest.raises(ValueError, match="interrupt_mode"):
        kind(RULES, interrupt_mode="sometimes")
    with pytest.raises(TypeError, match="reviewers"):
        kind(RULES, reviewers=None)
