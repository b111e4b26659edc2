"""Pydantic AI with approval: the whole contract, and what only this framework can get wrong."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, AgentRunResult, DeferredToolRequests, ModelRetry, RunContext, UserError
from pydantic_ai.messages import (
    DeferredToolRequestsEvent,
    FunctionToolCallEvent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from placet.errors import HookError, NothingToResume, ThreadBusy, ThreadPaused
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolCall, ToolConfig
from placet.hook.approval_rules import NewMessagePolicy
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.hook.frameworks.thread_store import ClaimedThread, FrameworkThreads
from placet.hook.grants import MemoryGrants
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.testing.approvals import LAST_WORDS, Scene
from placet.testing.clock import FakeClock
from placet.testing.contracts.tool_approval import ToolApprovalContract
from tests.hook.frameworks.pydantic_ai_harness import PydanticAI, make_scripted_model

PAY = ToolCall(id="c0", name="pay", arguments={"to": "Ann", "amount": 5})
BOOK = ToolCall(id="c1", name="book", arguments={"on": "2026-01-01"})
PAY2 = ToolCall(id="c7", name="pay", arguments=PAY.arguments)
LOOK = ToolCall(id="c2", name="look", arguments={})


class TestPydanticAIKeepsTheContract(ToolApprovalContract):
    harness = PydanticAI


class Shop:
    """An agent whose tools note what they did."""

    def __init__(self, *turns: tuple[ToolCall, ...], hook: HumanInTheLoopHook | None = None, **named: Any):
        self.did: list[str] = []
        self.clock = FakeClock()
        self.saver = MemorySaver(clock=self.clock)
        self.approval = PydanticAIApproval(hook or usual(), saver=self.saver, clock=self.clock)
        named = {"tools": [self.pay, self.book, self.look], **named}
        self.agent: Agent[Any, Any] = Agent(
            named.pop("model", None) or make_scripted_model(Scene(turns=turns)),
            capabilities=[self.approval],
            **named,
        )

    def pay(self, to: str, amount: int) -> str:
        """Pay somebody."""
        self.did.append(f"paid {to} {amount}")
        return self.did[-1]

    def book(self, on: date) -> str:
        """Book a day."""
        self.did.append(f"booked {on:%d %B}")
        return self.did[-1]

    def look(self) -> dict[str, int]:
        """Look into the till."""
        self.did.append("looked")
        return {"till": 7}

    def start(self, **options: Any) -> InterruptionMetadata:
        outcome = self.run("Go.", **options)
        assert isinstance(outcome, InterruptionMetadata)
        return outcome

    def run(self, prompt: str, **options: Any) -> Any:
        return asyncio.run(self.approval.run(self.agent, prompt, thread_id="t", **options))

    def resume(self, feedback: Any = None, thread_id: str = "t", **options: Any) -> Any:
        return asyncio.run(self.approval.resume(self.agent, thread_id, feedback, **options))

    def read_tool_results(self) -> list[tuple[str, Any]]:
        parts = [part for message in self.approval.messages("t") for part in message.parts]
        return [(part.tool_call_id, part.content) for part in parts if isinstance(part, ToolReturnPart)]


def usual(on_new_message: NewMessagePolicy = "refuse") -> HumanInTheLoopHook:
    rules = {"pay": True, "book": True}
    return HumanInTheLoopHook(rules, optional=rules, on_new_message=on_new_message)


def test_results_stand_in_call_order_wherever_the_rejection_is() -> None:
    shop = Shop((LOOK, PAY, BOOK))
    shop.resume(shop.start().reject("c0", "too much").approve("c1"))
    assert [call_id for call_id, _ in shop.read_tool_results()] == ["c2", "c0", "c1"]
    assert shop.read_tool_results()[0][1] == {"till": 7}, "a result stays what the tool returned"
    assert sorted(shop.did) == ["booked 01 January", "looked"]


def test_edited_arguments_become_the_tools_own_types() -> None:
    shop = Shop((BOOK,))
    shop.resume(shop.start().edit("c1", {"on": "2026-02-03"}))
    assert shop.did == ["booked 03 February"]


def test_the_frameworks_own_approval_runs_nothing_that_a_person_has_not_decided() -> None:
    shop = Shop((PAY,), output_type=[str, DeferredToolRequests])
    paused = asyncio.run(shop.agent.run("Go."))
    results = paused.output.build_results(approve_all=True)
    again = asyncio.run(shop.agent.run(conversation=paused.conversation, deferred_tool_results=results))
    assert isinstance(again.output, DeferredToolRequests)
    assert shop.did == []


def test_an_agent_run_without_a_thread_stops_too() -> None:
    shop = Shop((PAY,))
    with pytest.raises(UserError, match="DeferredToolRequests"):
        asyncio.run(shop.agent.run("Go."))
    assert shop.did == []


def test_a_turn_that_waits_is_not_judged_anew_when_its_history_is_run_again() -> None:
    asks = [True, False]
    hook = HumanInTheLoopHook({"pay": ToolConfig(when=lambda call, state: asks.pop(0))})
    shop = Shop((PAY,), hook=hook, output_type=[str, DeferredToolRequests])
    shop.start()
    again = asyncio.run(shop.agent.run(message_history=shop.approval.messages("t")))
    assert isinstance(again.output, DeferredToolRequests)
    assert (shop.did, asks) == ([], [])


def test_a_call_whose_arguments_do_not_fit_goes_back_to_the_model_and_nobody_is_asked() -> None:
    bad = ToolCall(id="c9", name="pay", arguments={"to": "Ann"})
    shop = Shop((bad, LOOK), (PAY,))
    assert [waiting.id for waiting in shop.start().tool_feedbacks] == ["c0"]
    assert shop.did == ["looked"]


def test_a_tool_that_fails_is_not_tried_again_and_the_thread_goes_on() -> None:
    shop = Shop((PAY,), tools=[])
    tries: list[int] = []

    @shop.agent.tool_plain
    def pay(to: str, amount: int) -> str:
        tries.append(1)
        raise OSError("no line")

    decided = shop.start().approve_all()
    with pytest.raises(OSError, match="no line"):
        shop.resume(decided)
    assert shop.resume(decided).output == LAST_WORDS
    assert tries == [1]
    assert shop.read_tool_results() == [("c0", "The tool failed: OSError: no line")]


def test_a_tool_that_wants_another_try_gets_a_new_call_that_waits_again() -> None:
    shop = Shop((PAY,), (ToolCall(id="c8", name="pay", arguments=PAY.arguments),), tools=[])

    @shop.agent.tool_plain
    def pay(to: str, amount: int) -> str:
        raise ModelRetry("Say it in cents.")

    again = shop.resume(shop.start().approve_all())
    assert [waiting.id for waiting in again.tool_feedbacks] == ["c8"]


def test_a_process_that_died_in_a_call_leaves_it_alone_once_its_lease_is_over() -> None:
    shop = Shop((PAY,))
    decided = shop.start().approve_all()
    died = shop.approval.threads.take("t", decided)
    assert isinstance(died, ClaimedThread)
    assert shop.approval.threads.gate.begin(died.turn, "c0").run
    with pytest.raises(ThreadBusy):
        shop.resume(decided)
    shop.clock.advance(timedelta(hours=1))
    assert shop.resume(decided).output == LAST_WORDS
    assert shop.read_tool_results() == [("c0", OUTCOME_UNKNOWN)]
    assert shop.did == []


def test_a_tool_that_asks_for_approval_by_itself_is_asked_about_too() -> None:
    shop = Shop((LOOK,), tools=[])
    shop.agent.tool_plain(requires_approval=True)(shop.look)
    stopped = shop.start()
    assert shop.did == []
    shop.resume(stopped.approve_all())
    assert shop.did == ["looked"]


def test_tools_from_any_toolset_wait() -> None:
    shop = Shop((PAY,), tools=[])
    outcome = shop.start(toolsets=[FunctionToolset([shop.pay])])
    shop.resume(outcome.approve_all(), toolsets=[FunctionToolset([shop.pay])])
    assert shop.did == ["paid Ann 5"]


def test_what_the_caller_hands_the_agent_reaches_condition_and_tool() -> None:
    hook = HumanInTheLoopHook({"pay": ToolConfig(when=lambda call, state: state["deps"] == "careful")})
    shop = Shop((PAY,), hook=hook, tools=[], deps_type=str)

    @shop.agent.tool
    def pay(ctx: RunContext[str], to: str, amount: int) -> str:
        shop.did.append(ctx.deps)
        return "paid"

    shop.resume(shop.start(deps="careful").approve_all(), deps="handed again")
    assert shop.did == ["handed again"]


class Receipt(BaseModel):
    paid: int


def _receipt(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("pay", PAY.arguments, "c0")])
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"paid": 5}, "out")])


def test_a_second_delivery_gets_the_same_typed_output() -> None:
    shop = Shop(model=FunctionModel(_receipt), output_type=Receipt)
    decided = shop.start().approve_all()
    first, second = shop.resume(decided), shop.resume(decided)
    assert first.output == second.output == Receipt(paid=5)
    assert shop.did == ["paid Ann 5"]


def test_a_thread_goes_on_with_all_it_has_said() -> None:
    shop = Shop((PAY,))
    shop.resume(shop.start().approve_all())
    result = shop.run("And now?")
    assert isinstance(result, AgentRunResult)
    assert len([part for part in parts(result, TextPart) if part.content == LAST_WORDS]) == 2
    assert result.usage.requests == 3


def parts(result: AgentRunResult[Any], kind: type[Any]) -> list[Any]:
    return [part for message in result.all_messages() for part in message.parts if isinstance(part, kind)]


def test_a_message_while_calls_wait_is_refused_unless_told_otherwise() -> None:
    shop = Shop((PAY,))
    shop.start()
    with pytest.raises(ThreadPaused):
        shop.run("Hurry!")


def test_a_queued_message_is_handed_on_with_the_decisions() -> None:
    shop = Shop((PAY,), hook=usual("queue"))
    shop.start()
    assert isinstance(shop.run("And thank them."), InterruptionMetadata)
    assert "And thank them." in prompts(shop.resume({"c0": "approve"}))
    assert shop.did == ["paid Ann 5"]


def test_a_message_may_cancel_the_calls_that_wait() -> None:
    shop = Shop((PAY,), hook=usual("cancel"))
    shop.start()
    assert "No, stop." in prompts(shop.run("No, stop."))
    assert shop.did == []


def prompts(result: AgentRunResult[Any]) -> list[str]:
    return [part.content for part in parts(result, UserPromptPart)]


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
    stopped = shop.approval.run_sync(shop.agent, "Go.", thread_id="t")
    assert isinstance(stopped, InterruptionMetadata)
    assert shop.approval.waiting("t") == stopped
    assert [message["kind"] for message in stopped.state["messages"]] == ["request", "response"]
    ended = shop.approval.resume_sync(shop.agent, "t", stopped.approve_all())
    assert isinstance(ended, AgentRunResult)
    assert shop.did == ["paid Ann 5"]


async def listen(shop: Shop, feedback: Any = None) -> list[Any]:
    if feedback is None:
        return [event async for event in shop.approval.stream(shop.agent, "Go.", thread_id="t")]
    return [event async for event in shop.approval.resume_stream(shop.agent, "t", feedback)]


def test_a_stream_tells_the_frameworks_events_and_then_the_outcome() -> None:
    shop = Shop((PAY,))
    *events, stopped = asyncio.run(listen(shop))
    assert isinstance(stopped, InterruptionMetadata)
    assert any(isinstance(event, DeferredToolRequestsEvent) for event in events)
    *events, ended = asyncio.run(listen(shop, stopped.approve_all()))
    assert any(isinstance(event, FunctionToolCallEvent) for event in events)
    assert ended.output == LAST_WORDS


def test_an_agent_is_not_named_after_a_variable_of_ours() -> None:
    shop = Shop((PAY,))
    *_, stopped = asyncio.run(listen(shop))
    shop.resume(stopped.approve_all())
    assert shop.agent.name is None


def test_closing_a_stream_releases_the_thread() -> None:
    shop = Shop((LOOK,), (PAY,))

    async def hear(enough: Callable[[Any], bool]) -> None:
        events = shop.approval.stream(shop.agent, "Go.", thread_id="t")
        async for event in events:
            if enough(event):
                break
        await events.aclose()

    asyncio.run(hear(lambda event: isinstance(event, FunctionToolCallEvent)))
    assert isinstance(shop.run("Once more."), InterruptionMetadata)


def test_what_the_saver_lists_as_paused_can_be_resumed_by_that_name() -> None:
    shop = Shop((PAY,))
    shop.start()
    [turn] = shop.saver.list_threads("paused")
    listed = shop.approval.waiting(turn)
    assert listed is not None
    assert listed.thread_id == "t"
    for _ in range(2):
        ended = shop.resume({"c0": "approve"}, thread_id=turn)
        assert ended.output == LAST_WORDS
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
    assert shop.resume(stopped.reject_all()).output == LAST_WORDS
    assert shop.did.count("paid Ann 5") == 2
    assert [call_id for call_id, _ in shop.read_tool_results()] == ["c0", "c2", "c7", "c1"]


def test_nothing_waits_in_a_thread_that_only_talked() -> None:
    shop = Shop()
    assert shop.run("Hello.").output == LAST_WORDS
    assert shop.approval.waiting("t") is None
    with pytest.raises(NothingToResume):
        shop.resume({"c0": "approve"})


@pytest.mark.parametrize("way", ["run_sync", "resume_sync", "stream", "resume_stream"])
def test_an_agent_whose_calls_nobody_would_stop_is_refused_before_anything_begins(way: str) -> None:
    shop = Shop((PAY,))
    unguarded = Agent(make_scripted_model(Scene(turns=((PAY,),))), tools=[shop.pay])
    given: Any = {"prompt": "Pay."} if way in ("run_sync", "stream") else {}
    with pytest.raises(HookError, match="capabilities="):
        getattr(shop.approval, way)(unguarded, thread_id="t", **given)
    assert shop.saver.get("t") is None
    assert shop.did == []


def test_approval_may_also_be_given_to_one_run_alone() -> None:
    shop = Shop((PAY,))
    unguarded = Agent(make_scripted_model(Scene(turns=((PAY,),))), tools=[shop.pay])
    shop.agent = unguarded
    stopped = shop.start(capabilities=[shop.approval])
    assert shop.did == []
    shop.resume(stopped.approve_all(), capabilities=[shop.approval])
    assert shop.did == ["paid Ann 5"]
