"""Pydantic AI with approval: tools that call tools, options of one run, external tools, pictures."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    Tool,
    ToolReturn,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ExternalToolset

from placet.errors import HookError, InvalidFeedback
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolCall, ToolConfig
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.testing.approvals import LAST_WORDS

ALWAYS = HumanInTheLoopHook({"pay": True})
SOMETIMES = HumanInTheLoopHook({"pay": ToolConfig(when=lambda call, state: True)})
PAY = ToolCallPart("pay", {"to": "Ann"}, "c0")
Turn = Callable[[AgentInfo], list[ToolCallPart]]


class Paid(BaseModel):
    amount: int


def output(info: AgentInfo) -> list[ToolCallPart]:
    return [ToolCallPart(info.output_tools[0].name, {"amount": 5}, "o1")]


def playing(*turns: list[ToolCallPart] | Turn) -> FunctionModel:
    """A model that makes these calls, turn by turn."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number = sum(isinstance(message, ModelResponse) and bool(message.run_id) for message in messages)
        if number >= len(turns):
            return ModelResponse(parts=[TextPart(LAST_WORDS)])
        turn = turns[number]
        return ModelResponse(parts=turn(info) if callable(turn) else turn)

    return FunctionModel(reply)


class Till:
    """An agent that pays, and notes it."""

    def __init__(self, *turns: list[ToolCallPart] | Turn, hook: HumanInTheLoopHook = ALWAYS, **named: Any):
        self.did: list[str] = []
        self.approval = PydanticAIApproval(hook, saver=MemorySaver(), grants=named.pop("grants", None))
        tools: Sequence[Any] = [self.pay, *named.pop("tools", ())]
        capabilities = [*named.pop("around", ()), self.approval]
        model = playing(*turns)
        self.agent: Agent[Any, Any] = Agent(model, tools=tools, capabilities=capabilities, **named)

    def pay(self, to: str) -> str:
        """Pay somebody."""
        self.did.append(f"paid {to}")
        return self.did[-1]

    def run(self, prompt: str = "Go.", **options: Any) -> Any:
        return asyncio.run(self.approval.run(self.agent, prompt, thread_id="t", **options))

    def resume(self, feedback: Any, **options: Any) -> Any:
        return asyncio.run(self.approval.resume(self.agent, "t", feedback, **options))

    def read_tool_results(self) -> list[Any]:
        parts = (part for message in self.approval.messages("t") for part in message.parts)
        return [part.content for part in parts if isinstance(part, ToolReturnPart)]


async def program(ctx: RunContext[Any]) -> str:
    """Call another tool, as programs that models write do."""
    assert ctx.tool_manager is not None
    return str(await ctx.tool_manager.handle_call(ToolCallPart("pay", {"to": "Eve"}, "inside")))


def test_a_reviewed_tool_that_another_tool_calls_does_not_run() -> None:
    till = Till([ToolCallPart("program", {}, "c0")], hook=SOMETIMES, tools=[program])
    with pytest.raises(HookError, match="pay waits for a person"):
        till.run()
    assert till.did == []


def test_to_approve_a_tool_does_not_approve_what_it_calls() -> None:
    till = Till([ToolCallPart("program", {}, "c0")], tools=[program])
    outcome = till.run()
    assert [waiting.name for waiting in outcome.undecided] == ["program"]
    with pytest.raises(HookError, match="what it calls waits"):
        till.resume(outcome.approve_all())
    assert till.did == []


def test_a_tool_that_needs_nobody_may_be_called_by_another() -> None:
    hook = HumanInTheLoopHook({"send": True}, optional=["send"])
    till = Till([ToolCallPart("program", {}, "c0")], hook=hook, tools=[program])
    assert till.run().output == LAST_WORDS
    assert till.did == ["paid Eve"]


class Prefixed(AbstractCapability[Any]):
    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return toolset.prefixed("till")


def test_a_reviewed_tool_that_another_capability_renames_does_not_run_unasked() -> None:
    call = ToolCallPart("till_pay", {"to": "Eve"}, "c0")
    till = Till([call], hook=SOMETIMES, around=[Prefixed()])
    with pytest.raises(HookError, match="pay waits for a person"):
        till.run()
    assert till.did == []


def test_a_run_may_ask_for_another_type_of_output() -> None:
    till = Till([PAY], output)
    decided = till.run(output_type=Paid).approve_all()
    assert till.resume(decided, output_type=Paid).output == Paid(amount=5)
    assert till.resume(decided, output_type=Paid).output == {"amount": 5}
    assert till.did == ["paid Ann"]


def test_a_history_begins_a_thread_and_may_be_handed_over_again_with_the_answer() -> None:
    history = [
        ModelRequest(parts=[UserPromptPart("Hello")]),
        ModelResponse(parts=[TextPart("Hello!")]),
    ]
    till = Till([PAY])
    outcome = till.run(message_history=history)
    assert till.resume(outcome.approve_all(), message_history=history).output == LAST_WORDS
    prompts = [part for message in till.approval.messages("t") for part in message.parts]
    assert [part.content for part in prompts if isinstance(part, UserPromptPart)] == ["Hello", "Go."]
    with pytest.raises(HookError, match="only allowed for a new thread"):
        till.run("And now?", message_history=history)
    assert till.run("And now?").output == LAST_WORDS


def test_results_of_external_tools_come_beside_the_answer() -> None:
    schema = {"type": "object", "properties": {}}
    external = ExternalToolset([ToolDefinition(name="measure", parameters_json_schema=schema)])
    till = Till([PAY, ToolCallPart("measure", {}, "c1")], toolsets=[external])
    outcome = till.run()
    assert [waiting.name for waiting in outcome.undecided] == ["pay"]
    decided, results = outcome.approve_all(), DeferredToolResults(calls={"c1": "7 m"})
    assert till.resume(decided, deferred_tool_results=results).output == LAST_WORDS
    assert till.read_tool_results() == ["paid Ann", "7 m"]
    assert till.did == ["paid Ann"]


def test_results_of_external_tools_are_given_once_although_a_later_call_needs_nobody() -> None:
    class OnlyBob:
        def use(self, call: ToolCall, **named: str) -> str | None:
            return "g1" if call.arguments == {"to": "Bob"} else None

    external = ExternalToolset([ToolDefinition(name="measure", parameters_json_schema={"type": "object"})])
    turns = [PAY, ToolCallPart("measure", {}, "c1")], [ToolCallPart("pay", {"to": "Bob"}, "c2")]
    till = Till(*turns, toolsets=[external], grants=OnlyBob())
    decided, results = till.run().approve_all(), DeferredToolResults(calls={"c1": "7 m"})
    assert till.resume(decided, deferred_tool_results=results).output == LAST_WORDS
    assert till.read_tool_results() == ["paid Ann", "7 m", "paid Bob"]


def test_an_edit_into_a_tool_that_is_gone_runs_nothing_and_says_so() -> None:
    there = [True]

    async def if_there(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
        return definition if there else None

    def look() -> str:
        """Look into the till."""
        raise AssertionError

    till = Till([PAY], tools=[Tool(look, prepare=if_there)])
    edited = till.run().edit("c0", {}, name="look")
    there.clear()
    assert till.resume(edited).output == LAST_WORDS
    assert "There is no tool look any more" in till.read_tool_results()[0]
    assert till.did == []


def test_an_edit_is_checked_by_the_tools_own_validator() -> None:
    def not_to_eve(ctx: RunContext[Any], to: str) -> None:
        if to == "Eve":
            raise ModelRetry("Not to Eve.")

    sent: list[str] = []

    def send(to: str) -> str:
        """Send money."""
        sent.append(to)
        return to

    call = ToolCallPart("send", {"to": "Ann"}, "c0")
    hook = HumanInTheLoopHook({"send": True})
    till = Till([call], hook=hook, tools=[Tool(send, args_validator=not_to_eve)])
    assert till.resume(till.run().edit_tool("send", {"to": "Eve"})).output == LAST_WORDS
    assert sent == []


def test_agents_with_different_tools_of_one_name_keep_their_own_schemas() -> None:
    one = Till([PAY])
    approval = one.approval

    def pay(amount: int) -> str:
        """Pay."""
        return str(amount)

    agent = Agent(playing([ToolCallPart("pay", {"amount": 3}, "c0")]), tools=[pay], capabilities=[approval])

    async def both() -> tuple[Any, Any]:
        running = approval.run(one.agent, "Go.", thread_id="t"), approval.run(agent, "Go.", thread_id="u")
        first, second = await asyncio.gather(*running)
        return first, second

    first, second = asyncio.run(both())
    with pytest.raises(InvalidFeedback):
        one.resume(first.edit_tool("pay", {"amount": 4}))
    assert one.resume(first.edit_tool("pay", {"to": "Eve"})).output == LAST_WORDS
    assert isinstance(second, InterruptionMetadata)
    assert set((second.undecided[0].schema or {})["properties"]) == {"amount"}


@pytest.mark.parametrize("wrapped", [True, False])
def test_the_picture_of_an_edited_call_stays_a_picture(wrapped: bool) -> None:
    picture = BinaryContent(data=b"PNG", media_type="image/png")

    def draw(width: int) -> Any:
        """Draw something."""
        return ToolReturn("drawn", content=[picture], metadata={"width": width}) if wrapped else picture

    hook = HumanInTheLoopHook({"draw": True})
    till = Till([ToolCallPart("draw", {"width": 1}, "c0")], hook=hook, tools=[draw])
    till.resume(till.run().edit_tool("draw", {"width": 2}))
    [told] = till.read_tool_results()
    shown = [
        content
        for message in till.approval.messages("t")
        for part in message.parts
        if isinstance(part, UserPromptPart | ToolReturnPart) and isinstance(part.content, list)
        for content in part.content
        if isinstance(content, BinaryContent)
    ]
    assert [content.data for content in shown] == [b"PNG"]
    assert "A person changed this call" in str(told)


@pytest.mark.parametrize("output_type", [[str, DeferredToolRequests], str | DeferredToolRequests], ids=str)
def test_an_agent_may_have_output_validators(output_type: Any) -> None:
    till = Till([PAY], output_type=output_type)
    checked: list[Any] = []

    @till.agent.output_validator
    def check(said: Any) -> Any:
        checked.append(said)
        return said

    assert till.resume(till.run().approve_all()).output == LAST_WORDS
    assert checked == [LAST_WORDS]
    assert till.did == ["paid Ann"]


def test_an_agent_whose_output_validators_leave_no_room_to_stop_is_told_so() -> None:
    till = Till([PAY])
    till.agent.output_validator(lambda said: said)
    with pytest.raises(HookError, match="needs DeferredToolRequests in its output_type"):
        till.run()


@pytest.mark.parametrize("given", ['{"limit": Infinity}', '{"limit": NaN}', {"limit": float("inf")}])
def test_a_reviewer_sees_what_runs_instead_of_a_number_that_json_lacks(given: Any) -> None:
    did: list[Any] = []

    def set_limit(limit: float | None) -> str:
        """Set a limit."""
        did.append(limit)
        return "set"

    approval = PydanticAIApproval(HumanInTheLoopHook({"set_limit": True}), saver=MemorySaver())
    model = playing([ToolCallPart("set_limit", given, "c1")])
    agent = Agent(model, tools=[set_limit], capabilities=[approval])

    async def main() -> None:
        waiting = await approval.run(agent, "go", thread_id="t")
        assert isinstance(waiting, InterruptionMetadata)
        assert waiting.tool_feedbacks[0].arguments == {"limit": None}
        await approval.resume(agent, "t", waiting.approve_all())

    asyncio.run(main())
    assert did == [None]
