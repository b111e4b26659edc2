"""The OpenAI Agents SDK with approval: agents inside agents, its own tools and histories, streams left."""

import asyncio
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    Handoff,
    ModelResponse,
    Runner,
    ShellTool,
    SQLiteSession,
    Tool,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputImage,
    function_tool,
    handoff,
    tool_input_guardrail,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseFunctionShellToolCall

from placet.errors import HookError, InvalidFeedback
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolConfig
from placet.hook.frameworks.openai_agents.approval import NO_DECISION, OpenAIAgentsApproval
from placet.testing.approvals import LAST_WORDS
from tests.hook.frameworks.openai_agents_harness import QUIET

BYE = [assistant_message(LAST_WORDS)]


class Till:
    """Tools that note what they did, and agents that use them."""

    def __init__(self, hook: HumanInTheLoopHook | None = None) -> None:
        self.did: list[str] = []
        hook = hook or HumanInTheLoopHook({"pay": True}, optional=["pay"])
        self.approval = OpenAIAgentsApproval(hook, saver=MemorySaver())

    @property
    def pay(self) -> Tool:
        def pay(to: str) -> str:
            """Pay somebody."""
            self.did.append(f"paid {to}")
            return self.did[-1]

        return function_tool(pay)

    @property
    def look(self) -> Tool:
        def look() -> str:
            """Look into the till."""
            self.did.append("looked")
            return "7"

        return function_tool(look)

    def agent(self, *turns: Any, tools: list[Tool] | None = None, **named: Any) -> Agent[Any]:
        gated = self.approval.gate_tools(tools or [self.pay, self.look])
        named = {"name": "agent", "tools": gated, **named}
        return Agent(model=ScriptedModel([*turns, BYE, BYE]), **named)

    def paying(self, to: str, call_id: str = "c0", **named: Any) -> Agent[Any]:
        return self.agent([function_call("pay", {"to": to}, call_id=call_id)], **named)

    def run(self, agent: Agent[Any], prompt: str = "Go.", **options: Any) -> Any:
        return asyncio.run(
            self.approval.run(agent, prompt, thread_id="t", **{"run_config": QUIET, **options})
        )

    def resume(self, agent: Agent[Any], feedback: Any, **options: Any) -> Any:
        return asyncio.run(self.approval.resume(agent, "t", feedback, run_config=QUIET, **options))


class RecordingModel(ScriptedModel):
    """Notes what it was given to read."""

    read: list[list[Any]]

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        self.read = [*getattr(self, "read", []), list(named["input"])]
        return await super().get_response(*args, **named)


def as_inner_tool(agent: Agent[Any], name: str = "helper") -> FunctionTool:
    return agent.as_tool(name, "Ask another agent.", run_config=QUIET)


def asks(name: str = "helper", call_id: str = "o1") -> Any:
    return function_call(name, {"input": "pay"}, call_id=call_id)


def test_a_call_of_an_agent_inside_does_not_pass_as_another_with_its_id() -> None:
    till = Till()
    looks = [function_call("look", {}, call_id="c0")]
    outer = till.agent(looks, [asks()], tools=[till.look, as_inner_tool(till.paying("Eve"))])
    outcome = till.run(outer)
    assert isinstance(outcome, InterruptionMetadata)
    assert [waiting.arguments for waiting in outcome.undecided] == [{"to": "Eve"}]
    assert till.did == ["looked"]


def test_what_one_run_knew_of_a_call_opens_nothing_in_the_next() -> None:
    till = Till()
    looks = [function_call("look", {}, call_id="c0")]
    agent = till.agent(looks, BYE, [function_call("pay", {"to": "Eve"}, call_id="c0")])

    async def one_after_the_other() -> Any:
        await till.approval.run(agent, "Go.", thread_id="t", run_config=QUIET)
        return await Runner.run(agent, "And now?", run_config=QUIET)

    assert [item.name for item in asyncio.run(one_after_the_other()).interruptions] == ["pay"]
    assert till.did == ["looked"]


def test_agents_inside_whose_calls_bear_the_same_id_leave_the_thread_answerable() -> None:
    till = Till()
    helpers: list[Tool] = [as_inner_tool(till.paying("Ann"), "one"), as_inner_tool(till.paying("Eve"), "two")]
    outer = till.agent([asks("one", "o1"), asks("two", "o2")], tools=helpers)
    outcome = till.run(outer)
    assert [waiting.arguments for waiting in outcome.undecided] == [{"to": "Ann"}]
    assert till.resume(outer, outcome.approve_all()).final_output == LAST_WORDS
    assert till.did == ["paid Ann"]


def test_the_sdks_own_approval_of_one_call_counts_for_no_other_of_its_id() -> None:
    till = Till(HumanInTheLoopHook({"send": True}, optional=["send"]))

    def paying(to: str) -> FunctionTool:
        def pay(to: str) -> str:
            """Pay somebody."""
            till.did.append(to)
            return to

        asking = function_tool(needs_approval=True)(pay)
        turn = [function_call("pay", {"to": to}, call_id="c0")]
        return as_inner_tool(Agent(name=to, model=ScriptedModel([turn, BYE]), tools=[asking]), f"pay_{to}")

    outer = till.agent([asks("pay_Ann", "o1"), asks("pay_Eve", "o2")], tools=[paying("Ann"), paying("Eve")])
    with pytest.raises(HookError, match="Two calls have the id c0"):
        till.run(outer)
    assert till.did == []


@pytest.mark.parametrize("way", ["tool", "tool of a tool", "handoff"])
def test_a_tool_of_an_agent_inside_that_was_not_given_to_the_gate_does_not_slip_past_it(way: str) -> None:
    till = Till()
    open_agent = till.paying("Eve")
    open_agent.tools = [till.pay]
    if way == "tool of a tool":
        open_agent = till.agent([asks()], tools=[as_inner_tool(open_agent)])
    elif way == "handoff":
        takes_over: Handoff[Any, Any] = handoff(open_agent)
        turn = [function_call("transfer_to_agent", {}, call_id="h")]
        open_agent = till.agent(turn, name="desk", tools=[till.look], handoffs=[takes_over])
    with pytest.raises(HookError, match="pay need a review, but the tool is not gated"):
        till.run(till.agent([asks()], tools=[as_inner_tool(open_agent)]))
    assert till.did == []


def test_an_edit_of_a_call_of_an_agent_inside_is_checked_against_its_schema() -> None:
    till = Till()
    outer = till.agent([asks()], tools=[as_inner_tool(till.paying("Eve"))])
    outcome = till.run(outer)
    with pytest.raises(InvalidFeedback, match="to"):
        till.resume(outer, outcome.edit_tool("pay", {"amount": 7}))
    assert till.resume(outer, outcome.edit_tool("pay", {"to": "Ann"})).final_output == LAST_WORDS
    assert till.did == ["paid Ann"]


@pytest.mark.parametrize("answer", ["approve", {"decision": "edit", "arguments": {"input": "pay little"}}])
def test_an_agent_that_waited_itself_goes_on_when_what_waits_inside_is_decided(answer: Any) -> None:
    till = Till(HumanInTheLoopHook({"pay": True, "helper": True}))
    helper = till.paying("Ann")
    helper.model = model = RecordingModel([[function_call("pay", {"to": "Ann"}, call_id="c0")], BYE])
    outer = till.agent([asks()], tools=[as_inner_tool(helper)])
    assert [waiting.name for waiting in till.run(outer).undecided] == ["helper"]
    within = till.resume(outer, {"o1": answer})
    assert [waiting.name for waiting in within.undecided] == ["pay"]
    for _ in range(2):
        assert till.resume(outer, within.approve_all()).final_output == LAST_WORDS
    assert till.did == ["paid Ann"]
    told = "pay" if answer == "approve" else "pay little"
    assert model.read[-1][0]["content"] == told


def test_a_call_of_an_agent_may_be_edited_into_another_tool() -> None:
    till = Till(HumanInTheLoopHook({"helper": True}))
    outer = till.agent([asks()], tools=[as_inner_tool(till.paying("Ann")), till.look])
    till.resume(outer, till.run(outer).edit("o1", {}, name="look"))
    assert till.did == ["looked"]


def test_no_call_can_be_edited_into_one_of_an_agent() -> None:
    till = Till()
    agent = till.paying("Eve", tools=till.approval.gate_tools([till.pay, as_inner_tool(till.paying("Ann"))]))
    outcome = till.run(agent)
    with pytest.raises(InvalidFeedback, match="there is no tool helper"):
        till.resume(agent, outcome.edit("c0", {"input": "pay"}, name="helper"))
    assert till.resume(agent, outcome.reject_all()).final_output == LAST_WORDS
    assert till.did == []


def test_an_edit_into_a_tool_that_is_gone_runs_nothing_and_says_so() -> None:
    till = Till()
    agent = till.paying("Eve")
    outcome = till.run(agent)
    answer = outcome.edit("c0", {}, name="look")
    agent.tools = till.approval.gate_tools([till.pay])
    till.resume(agent, answer)
    assert "There is no tool look that can run instead" in str(till.approval.messages("t"))
    assert till.did == []


def test_a_shell_that_asks_for_approval_by_itself_is_asked_about() -> None:
    till = Till()

    def execute(request: Any) -> str:
        till.did.append(request.data.action.commands[0])
        return "done"

    action = {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}
    call = ResponseFunctionShellToolCall.model_validate(
        {"type": "shell_call", "id": "s", "call_id": "s1", "status": "completed", "action": action}
    )
    agent = till.agent([call], tools=[ShellTool(executor=execute, needs_approval=True)])
    outcome = till.run(agent)
    assert isinstance(outcome, InterruptionMetadata)
    [waiting] = outcome.undecided
    assert waiting.name == "shell"
    assert waiting.arguments["action"]["commands"] == ["ls"]
    assert till.did == []
    assert till.resume(agent, outcome.approve_all()).final_output == LAST_WORDS
    assert till.did == ["ls"]


def test_in_a_session_of_the_sdk_the_model_reads_everything_once() -> None:
    till = Till()
    agent = till.paying("Ann")
    agent.model = model = RecordingModel([[function_call("pay", {"to": "Ann"}, call_id="c0")], BYE, BYE])
    session = SQLiteSession("s")
    till.resume(agent, till.run(agent, session=session).approve_all(), session=session)
    till.run(agent, "And now?", session=session)
    last = model.read[-1]
    assert [item.get("content") for item in last if item.get("role") == "user"] == ["Go.", "And now?"]
    kinds = [item.get("type") for item in last]
    assert kinds.count("function_call") == kinds.count("function_call_output") == 1
    session.close()


@pytest.mark.parametrize("where", ["conversation_id", "previous_response_id"])
def test_what_openai_remembers_is_not_sent_again(where: str) -> None:
    till = Till()
    agent = till.agent()
    agent.model = model = RecordingModel([BYE, BYE])
    till.run(agent)
    till.run(agent, "And now?", **{where: "r1"})
    assert [item["content"] for item in model.read[-1]] == ["And now?"]


def test_a_run_whose_stream_is_left_goes_no_further() -> None:
    till = Till()
    agent = till.agent([function_call("wait", {}, call_id="w")], [function_call("look", {}, call_id="l")])

    async def leave() -> list[str]:
        may_go_on = asyncio.Event()

        async def wait() -> str:
            """Wait."""
            await may_go_on.wait()
            till.did.append("waited")
            return "done"

        agent.tools = till.approval.gate_tools([function_tool(wait), till.look])
        before = asyncio.all_tasks()
        events = till.approval.stream(agent, "Go.", thread_id="t", run_config=QUIET)
        async for event in events:
            if getattr(event, "name", "") == "tool_called":
                break
        await events.aclose()
        may_go_on.set()
        assert asyncio.all_tasks() == before
        return till.did

    assert asyncio.run(leave()) == []


def test_what_waits_under_an_id_that_is_used_twice_is_told_to_be_undecided() -> None:
    till = Till()
    second = till.paying("Eve")
    second.model = model = RecordingModel([[function_call("pay", {"to": "Eve"}, call_id="c0")], BYE])
    helpers: list[Tool] = [as_inner_tool(till.paying("Ann"), "one"), as_inner_tool(second, "two")]
    outer = till.agent([asks("one", "o1"), asks("two", "o2")], tools=helpers)
    till.resume(outer, till.run(outer).approve_all())
    told = [item["output"] for item in model.read[-1] if item.get("type") == "function_call_output"]
    assert told == [NO_DECISION]


def test_nothing_of_an_agent_inside_that_needs_nobody_must_be_behind_the_gate() -> None:
    till = Till()
    looks = [function_call("look", {}, call_id="c0")]
    helper = Agent(name="helper", model=ScriptedModel([looks, BYE]), tools=[till.look])
    assert till.run(till.agent([asks()], tools=[as_inner_tool(helper)])).final_output == LAST_WORDS
    assert till.did == ["looked"]


def test_the_picture_of_an_edited_call_stays_a_picture() -> None:
    till = Till(HumanInTheLoopHook({"draw": True}))

    def draw(width: int) -> ToolOutputImage:
        """Draw something."""
        return ToolOutputImage(image_url=f"https://example.com/{width}.png")

    agent = till.agent([function_call("draw", {"width": 1}, call_id="c0")], tools=[function_tool(draw)])
    till.resume(agent, till.run(agent).edit_tool("draw", {"width": 2}))
    [told] = [item["output"] for item in till.approval.messages("t") if "output" in item]
    assert [part["type"] for part in told] == ["input_text", "input_image"]
    assert "A person changed this call" in told[0]["text"]
    assert told[1]["image_url"] == "https://example.com/2.png"


@tool_input_guardrail
def refuse_eve(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    if "Eve" in data.context.tool_arguments:
        return ToolGuardrailFunctionOutput.reject_content("Not to Eve.")
    return ToolGuardrailFunctionOutput.allow()


@pytest.mark.parametrize(
    ("called", "asked", "edited", "did"),
    [
        ("send", "Ann", "Eve", []),
        ("send", "Eve", "Ann", ["sent to Ann"]),
        ("pay", "Ann", "Eve", []),
        ("pay", "Ann", "Bob", ["sent to Bob"]),
    ],
)
def test_the_guardrails_of_a_tool_see_what_it_will_run_with(
    called: str, asked: str, edited: str, did: list[str]
) -> None:
    sending = ToolConfig(when=lambda call, state: called == "send")
    till = Till(HumanInTheLoopHook({"pay": True, "send": sending}))

    def send(to: str) -> str:
        """Send money."""
        till.did.append(f"sent to {to}")
        return till.did[-1]

    guarded = function_tool(tool_input_guardrails=[refuse_eve])(send)
    agent = till.agent([function_call(called, {"to": asked}, call_id="c0")], tools=[till.pay, guarded])
    result = till.resume(agent, till.run(agent).edit("c0", {"to": edited}, name="send"))
    assert result.final_output == LAST_WORDS
    assert till.did == did
    [told] = [item["output"] for item in till.approval.messages("t") if "output" in item]
    assert ("Not to Eve." in told) == (not did)
