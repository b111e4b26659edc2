"""The OpenAI Agents SDK with approval: the whole contract, and what only this framework can get wrong."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from agents import Agent, FunctionTool, RunContextWrapper, RunHooks, Runner, Tool, UserError, function_tool
from agents.result import RunResultBase
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext
from pydantic import BaseModel

from placet.errors import HookError, NothingToResume, ThreadBusy, ThreadPaused
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolCall, ToolConfig
from placet.hook.approval_rules import NewMessagePolicy
from placet.hook.frameworks.openai_agents.approval import (
    NO_DECISION,
    UNREADABLE_ARGUMENTS,
    OpenAIAgentsApproval,
    RepeatedResult,
)
from placet.hook.frameworks.thread_store import ClaimedThread, FrameworkThreads
from placet.hook.grants import MemoryGrants
from placet.hook.result_texts import CANCELLED_BY_MESSAGE, OUTCOME_UNKNOWN
from placet.testing.approvals import LAST_WORDS, Scene
from placet.testing.clock import FakeClock
from placet.testing.contracts.tool_approval import ToolApprovalContract
from tests.hook.frameworks.openai_agents_harness import QUIET, OpenAIAgents, ScriptedSdkModel

PAY = ToolCall(id="c0", name="pay", arguments={"to": "Ann", "amount": 5})
BOOK = ToolCall(id="c1", name="book", arguments={"day": "Monday"})
PAY2 = ToolCall(id="c7", name="pay", arguments=PAY.arguments)
LOOK = ToolCall(id="c2", name="look", arguments={})


class TestOpenAIAgentsKeepTheContract(ToolApprovalContract):
    harness = OpenAIAgents


class Shop:
    """An agent whose tools note what they did."""

    def __init__(self, *turns: tuple[ToolCall, ...], hook: HumanInTheLoopHook | None = None, **named: Any):
        self.did: list[str] = []
        self.clock = FakeClock()
        self.saver = MemorySaver(clock=self.clock)
        self.approval = OpenAIAgentsApproval(hook or usual(), saver=self.saver, clock=self.clock)
        tools = self.approval.gate_tools(named.pop("tools", None) or self.tools())
        named = {"model": ScriptedSdkModel(Scene(turns=turns)), "tools": tools, **named}
        self.agent: Agent[Any] = Agent(name="shop", **named)

    def tools(self) -> list[Tool]:
        def pay(to: str, amount: int = 1) -> str:
            """Pay somebody."""
            self.did.append(f"paid {to} {amount}")
            return self.did[-1]

        def book(day: str) -> str:
            """Book a day."""
            self.did.append(f"booked {day}")
            return self.did[-1]

        def look() -> str:
            """Look into the till."""
            self.did.append("looked")
            return "7"

        return [function_tool(pay), function_tool(book), function_tool(look)]

    def start(self, **options: Any) -> InterruptionMetadata:
        outcome = self.run("Go.", **options)
        assert isinstance(outcome, InterruptionMetadata)
        return outcome

    def run(self, prompt: str, **options: Any) -> Any:
        running = self.approval.run(self.agent, prompt, thread_id="t", run_config=QUIET, **options)
        return asyncio.run(running)

    def resume(self, feedback: Any = None, thread_id: str = "t", **options: Any) -> Any:
        return asyncio.run(self.approval.resume(self.agent, thread_id, feedback, run_config=QUIET, **options))

    def read_tool_results(self) -> list[tuple[str, str]]:
        items = [item for item in self.approval.messages("t") if item.get("type") == "function_call_output"]
        return [(item["call_id"], item["output"]) for item in items]


def usual(on_new_message: NewMessagePolicy = "refuse") -> HumanInTheLoopHook:
    rules = {"pay": True, "book": True}
    return HumanInTheLoopHook(rules, optional=rules, on_new_message=on_new_message)


def tool(function: Any, **named: Any) -> Tool:
    return function_tool(failure_error_function=None, **named)(function)


def test_results_stand_in_call_order_wherever_the_rejection_is() -> None:
    shop = Shop((LOOK, BOOK, PAY))
    shop.resume(shop.start().reject("c1", "not then").approve("c0"))
    assert [call_id for call_id, _ in shop.read_tool_results()] == ["c2", "c1", "c0"]
    assert sorted(shop.did) == ["looked", "paid Ann 5"]


def test_the_sdks_own_permanent_approval_opens_nothing() -> None:
    shop = Shop((PAY,), (ToolCall(id="c9", name="pay", arguments={"to": "Eve", "amount": 999}),))
    paused = asyncio.run(Runner.run(shop.agent, "Go.", run_config=QUIET))
    state = paused.to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    ended = asyncio.run(Runner.run(shop.agent, state, run_config=QUIET))
    items: list[Any] = list(ended.to_input_list())
    outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
    assert outputs == [NO_DECISION, NO_DECISION]
    assert shop.did == []


def test_no_approval_outlives_its_call() -> None:
    shop = Shop((PAY,), (ToolCall(id="c9", name="pay", arguments={"to": "Eve", "amount": 999}),))
    again = shop.resume(shop.start().approve_all())
    assert [waiting.arguments["to"] for waiting in again.undecided] == ["Eve"]


def test_a_tool_that_was_not_given_to_the_gate_does_not_slip_past_it() -> None:
    shop = Shop((PAY,))
    shop.agent.tools = shop.tools()
    with pytest.raises(HookError, match="is not gated"):
        shop.run("Go.")
    assert shop.did == []


def test_a_tool_that_needs_nobody_need_not_be_behind_the_gate() -> None:
    shop = Shop((LOOK,))
    shop.agent.tools = shop.tools()
    assert shop.run("Go.").final_output == LAST_WORDS


def test_a_call_with_defaults_is_not_stopped_if_nobody_needs_to_see_it() -> None:
    small = HumanInTheLoopHook({"pay": ToolConfig(when=lambda call, state: call.arguments["to"] == "Eve")})
    shop = Shop((ToolCall(id="c0", name="pay", arguments={"to": "Ann"}),), hook=small)
    assert shop.run("Go.").final_output == LAST_WORDS
    assert shop.did == ["paid Ann 1"]


def test_arguments_that_cannot_be_read_go_back_to_the_model_and_nobody_is_asked() -> None:
    model = ScriptedModel([[function_call("pay", "{oops", call_id="c7")], [assistant_message(LAST_WORDS)]])
    shop = Shop(model=model)
    assert shop.run("Go.").final_output == LAST_WORDS
    assert shop.read_tool_results() == [("c7", UNREADABLE_ARGUMENTS)]
    assert shop.did == []


@pytest.mark.parametrize(
    "arguments",
    [
        '{"to": "Eve", "to": "Ann"}',
        '{"to": "Ann", "to": "Eve"}',
        '{"to": {"name": "Eve", "name": "Ann"}}',
        '{"to": NaN}',
        "{'to': 'Eve'}",
        '[{"to": "Eve"}]',
    ],
)
@pytest.mark.parametrize("is_evaluated_by_call", [False, True])
def test_text_that_a_tool_could_read_as_other_arguments_than_a_rule_saw_does_not_run(
    arguments: str, is_evaluated_by_call: bool
) -> None:
    did: list[str] = []

    async def pay(context: ToolContext[Any], text: str) -> str:
        did.append(text)
        return "paid"

    schema = {"type": "object", "properties": {"to": {}}, "required": ["to"], "additionalProperties": False}
    rule = ToolConfig(when=lambda call, state: "Eve" in str(call.arguments.get("to", "")))
    shop = Shop(
        tools=[FunctionTool("pay", "Pay.", schema, pay)],
        hook=HumanInTheLoopHook({"pay": rule if is_evaluated_by_call else True}),
        model=ScriptedModel(
            [[function_call("pay", arguments, call_id="c7")], [assistant_message(LAST_WORDS)]]
        ),
    )
    assert shop.run("Go.").final_output == LAST_WORDS
    assert shop.read_tool_results() == [("c7", UNREADABLE_ARGUMENTS)]
    assert did == []


def test_a_tool_that_fails_is_not_tried_again_and_the_thread_goes_on() -> None:
    tries: list[int] = []

    def pay(to: str, amount: int) -> str:
        tries.append(1)
        raise OSError("no line")

    shop = Shop((PAY,), tools=[tool(pay)])
    decided = shop.start().approve_all()
    with pytest.raises(UserError, match="no line"):
        shop.resume(decided)
    assert shop.resume(decided).final_output == LAST_WORDS
    assert tries == [1]
    assert shop.read_tool_results() == [("c0", "The tool failed: OSError: no line")]


def test_a_process_that_died_in_a_call_leaves_it_alone_once_its_lease_is_over() -> None:
    shop = Shop((PAY,))
    decided = shop.start().approve_all()
    died = shop.approval.threads.take("t", decided)
    assert isinstance(died, ClaimedThread)
    assert shop.approval.threads.gate.begin(died.turn, "c0").run
    with pytest.raises(ThreadBusy):
        shop.resume(decided)
    shop.clock.advance(timedelta(hours=1))
    assert shop.resume(decided).final_output == LAST_WORDS
    assert shop.read_tool_results() == [("c0", OUTCOME_UNKNOWN)]
    assert shop.did == []


def test_a_tool_that_was_taken_away_meanwhile_leaves_the_thread_answerable() -> None:
    shop = Shop((PAY,))
    decided, tools = shop.start().approve_all(), shop.agent.tools
    shop.agent.tools = []
    with pytest.raises(Exception, match="pay"):
        shop.resume(decided)
    shop.agent.tools = tools
    assert shop.resume(decided).final_output == LAST_WORDS
    assert shop.did == ["paid Ann 5"]


def test_a_tool_that_asks_for_approval_by_itself_is_asked_about_too() -> None:
    did: list[str] = []

    def look() -> str:
        did.append("looked")
        return "7"

    shop = Shop((LOOK,), tools=[tool(look, needs_approval=True)])
    stopped = shop.start()
    assert did == []
    shop.resume(stopped.approve_all())
    assert did == ["looked"]


@dataclass
class Till:
    euros: int


def test_what_the_caller_hands_the_agent_reaches_condition_and_tool() -> None:
    seen: list[int] = []

    def pay(context: RunContextWrapper[Till], to: str, amount: int) -> str:
        seen.append(context.context.euros)
        return "paid"

    hook = HumanInTheLoopHook({"pay": ToolConfig(when=lambda call, state: state["context"].euros < 9)})
    shop = Shop((PAY,), hook=hook, tools=[tool(pay)])
    shop.resume(shop.start(context=Till(euros=3)).approve_all(), context=Till(euros=4))
    assert seen == [4]


class Hooks(RunHooks[Any]):
    def __init__(self) -> None:
        self.saw: list[str] = []

    async def on_tool_start(self, context: Any, agent: Any, tool: Tool) -> None:
        self.saw.append(f"start {tool.name}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Tool, result: object) -> None:
        self.saw.append(f"end {tool.name}")


def test_the_callers_own_hooks_are_still_called() -> None:
    shop, hooks = Shop((PAY,)), Hooks()
    shop.resume(shop.start(hooks=hooks).approve_all(), hooks=hooks)
    assert hooks.saw == ["start pay", "end pay"]


def test_calls_of_an_agent_inside_another_wait_too_and_run_once() -> None:
    shop = Shop((PAY,))
    ask = ToolCall(id="o1", name="ask_shop", arguments={"input": "pay"})
    inside = shop.agent.as_tool("ask_shop", "Ask the shop.", run_config=QUIET)
    shop.agent = Agent(
        name="outer", model=ScriptedSdkModel(Scene(turns=((ask,),))), tools=shop.approval.gate_tools([inside])
    )
    stopped = shop.start()
    assert [waiting.id for waiting in stopped.undecided] == ["c0"]
    for _ in range(2):
        assert shop.resume(stopped.approve_all()).final_output == LAST_WORDS
    assert shop.did == ["paid Ann 5"]
    assert shop.read_tool_results() == [("o1", LAST_WORDS)]


def test_an_agent_that_was_handed_the_thread_stops_and_goes_on() -> None:
    shop = Shop((PAY,))
    handing = ScriptedModel([[function_call("transfer_to_shop", {}, call_id="h1")]])
    shop.agent = Agent(name="desk", model=handing, handoffs=[shop.agent])
    assert shop.resume(shop.start().approve_all()).final_output == LAST_WORDS
    assert shop.did == ["paid Ann 5"]


class Receipt(BaseModel):
    paid: int


def test_a_second_delivery_gets_the_same_output() -> None:
    script = [[function_call("pay", PAY.arguments, call_id="c0")], [assistant_message('{"paid": 5}')]]
    shop = Shop(model=ScriptedModel(script), output_type=Receipt)
    decided = shop.start().approve_all()
    first, second = shop.resume(decided), shop.resume(decided)
    assert isinstance(second, RepeatedResult)
    assert first.final_output == second.final_output_as(Receipt) == Receipt(paid=5)
    assert shop.did == ["paid Ann 5"]


def test_a_thread_goes_on_with_all_it_has_said() -> None:
    shop = Shop((PAY,))
    shop.resume(shop.start().approve_all())
    shop.run("And now?")
    assert [item["content"] for item in shop.approval.messages("t") if item.get("role") == "user"] == [
        "Go.",
        "And now?",
    ]


def test_a_message_while_calls_wait_is_refused_unless_told_otherwise() -> None:
    shop = Shop((PAY,))
    shop.start()
    with pytest.raises(ThreadPaused):
        shop.run("Hurry!")


def list_user_messages(shop: Shop) -> list[Any]:
    return [item["content"] for item in shop.approval.messages("t") if item.get("role") == "user"]


def test_a_queued_message_is_handed_on_with_the_decisions() -> None:
    shop = Shop((PAY,), hook=usual("queue"))
    shop.start()
    assert isinstance(shop.run("And thank them."), InterruptionMetadata)
    shop.resume({"c0": "approve"})
    assert list_user_messages(shop) == ["Go.", "And thank them."]
    assert shop.did == ["paid Ann 5"]


def test_a_message_may_cancel_the_calls_that_wait() -> None:
    shop = Shop((PAY,), hook=usual("cancel"))
    shop.start()
    assert shop.run("No, stop.").final_output == LAST_WORDS
    assert list_user_messages(shop) == ["Go.", "No, stop."]
    assert shop.did == []
    assert CANCELLED_BY_MESSAGE in shop.read_tool_results()[0][1]


@pytest.fixture
def own_event_loop() -> Iterator[None]:
    """This thread's event loop, closed afterwards."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("own_event_loop")
def test_everything_works_without_an_event_loop() -> None:
    shop = Shop((PAY,))
    stopped = shop.approval.run_sync(shop.agent, "Go.", thread_id="t", run_config=QUIET)
    assert isinstance(stopped, InterruptionMetadata)
    assert shop.approval.waiting("t") == stopped
    assert [message.get("type", "said") for message in stopped.state["messages"]] == ["said", "function_call"]
    ended = shop.approval.resume_sync(shop.agent, "t", stopped.approve_all(), run_config=QUIET)
    assert isinstance(ended, RunResultBase)
    assert shop.did == ["paid Ann 5"]


def test_a_stream_tells_the_sdks_events_and_then_the_outcome() -> None:
    shop = Shop((PAY,))

    async def listen(feedback: Any = None) -> list[Any]:
        if feedback is None:
            events = shop.approval.stream(shop.agent, "Go.", thread_id="t", run_config=QUIET)
        else:
            events = shop.approval.resume_stream(shop.agent, "t", feedback, run_config=QUIET)
        return [event async for event in events]

    *events, stopped = asyncio.run(listen())
    assert "run_item_stream_event" in {event.type for event in events}
    *events, ended = asyncio.run(listen(stopped.approve_all()))
    assert "tool_output" in {event.name for event in events if event.type == "run_item_stream_event"}
    assert ended.final_output == LAST_WORDS


def test_what_the_saver_lists_as_paused_can_be_resumed_by_that_name() -> None:
    shop = Shop((PAY,))
    shop.start()
    [turn] = shop.saver.list_threads("paused")
    listed = shop.approval.waiting(turn)
    assert listed is not None
    assert listed.thread_id == "t"
    for _ in range(2):
        ended = shop.resume({"c0": "approve"}, thread_id=turn)
        assert ended.final_output == LAST_WORDS
    assert shop.did == ["paid Ann 5"]
    assert (shop.saver.list_threads("paused"), shop.saver.list_threads("running")) == ([], [])


def test_a_thread_whose_name_looks_like_a_turn_is_its_own() -> None:
    shop = Shop((PAY,))
    shop.start()
    assert shop.approval.waiting("t#1") is None
    with pytest.raises(NothingToResume):
        shop.resume({"c0": "approve"}, thread_id="t#1")
    assert shop.did == []


def test_what_a_person_allowed_before_runs_unasked_and_the_rest_still_waits() -> None:
    shop = Shop((PAY, LOOK), (PAY2, BOOK))
    grants = MemoryGrants(clock=shop.clock)
    grants.add(PAY, agent="agent", uses=2, lasts_for=timedelta(hours=1), granted_by="Ada")
    shop.approval.threads = FrameworkThreads([usual()], shop.saver, grants=grants, clock=shop.clock)
    stopped = shop.start()
    assert sorted(shop.did) == ["looked", "paid Ann 5"]
    assert [waiting.id for waiting in stopped.undecided] == ["c1"]
    assert [call.id for call in stopped.tools_automatically_approved] == ["c7"]
    assert shop.resume(stopped.reject_all()).final_output == LAST_WORDS
    assert shop.did.count("paid Ann 5") == 2
    assert [call_id for call_id, _ in shop.read_tool_results()] == ["c0", "c2", "c7", "c1"]


def test_nothing_waits_in_a_thread_that_only_talked() -> None:
    shop = Shop()
    assert shop.run("Hello.").final_output == LAST_WORDS
    assert shop.approval.waiting("t") is None
    with pytest.raises(NothingToResume):
        shop.resume({"c0": "approve"})
