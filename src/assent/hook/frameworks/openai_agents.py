"""Approval for the OpenAI Agents SDK: function tools whose calls wait, may be edited, and run once.

The SDK keeps its own loop and decides nothing here: a call runs because the gate says so. Permanent approval
(`always_approve`) is never given, since it covers a tool with whatever arguments come.
"""

import copy
import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from agents import (
    Agent,
    FunctionTool,
    ModelResponse,
    RunContextWrapper,
    RunHooks,
    Runner,
    RunState,
    Tool,
    UserError,
)
from agents.result import RunResultBase
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall
from pydantic import TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from assent.errors import HookError, InvalidFeedback
from assent.hook.calls import Arguments, ToolCall, read_arguments
from assent.hook.feedback import FeedbackResult
from assent.hook.frameworks.runs import Runs, Taking
from assent.hook.frameworks.steps import Came, Flow
from assent.hook.frameworks.threads import Ended, Held, is_alone, refused, to_run
from assent.hook.interruption import InterruptionMetadata
from assent.hook.outcomes import as_text
from assent.hook.policy import Gate, ToolConfig

T = TypeVar("T")
NATIVE = Gate(description="", config=ToolConfig(allowed_decisions=("approve", "reject")))
"""A tool of the SDK that asks for approval by itself; its calls cannot be edited."""
OWN = Gate(description="", config=ToolConfig())
UNREADABLE = "This call was not run: its arguments are not a JSON object."
UNDECIDED = "This call was not run: no decision of a person is kept for it."


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivered:
    """What a thread came to when this answer was first delivered; nothing ran again."""

    final_output: Any
    """As JSON; `final_output_as` makes it what it was."""

    def final_output_as(self, kind: type[T]) -> T:
        """The output as this type."""
        return TypeAdapter(kind).validate_python(self.final_output)


Outcome = RunResultBase | Delivered | InterruptionMetadata
"""What a run comes to: its result, that result told again, or the calls that wait for a person."""


@dataclass(kw_only=True)
class _Run:
    """What is known while the SDK runs: the decided turn, and how new calls were judged."""

    turn: str = ""
    decided: InterruptionMetadata | None = None
    judged: dict[str, Gate | None] = field(default_factory=dict)
    waits: set[str] = field(default_factory=set)


_current: ContextVar[_Run | None] = ContextVar("assent_run", default=None)


class Approval(Runs[Agent[Any], Outcome]):
    """Stops the calls of the tools that went through `gated`, in threads that outlive the process."""

    def gated(self, tools: Iterable[Tool]) -> list[Tool]:
        """The same tools behind the gate; give these to the agent. Only function tools can be stopped."""
        return [_Gated.copy(self, tool) if isinstance(tool, FunctionTool) else tool for tool in tools]

    def messages(self, thread_id: str) -> list[Any]:
        """The thread's input items, up to where it waits or ended."""
        return list(json.loads(self.threads.state(thread_id) or "{}").get("messages", ()))

    def _flow(self, agent: Agent[Any], taking: Taking, prompt: str | None) -> Flow[Outcome]:
        held: Held | Ended | InterruptionMetadata = yield taking
        if isinstance(held, Ended):
            return Delivered(final_output=json.loads(held.state)["output"])
        if not isinstance(held, Held):
            return held
        run = _Run(turn=held.turn, decided=held.interruption)
        try:
            step: Any = (run, held, prompt)
            while True:
                with self.threads.holding(held):
                    result: RunResultBase = yield step
                state = result.to_state() if result.interruptions else None  # type: ignore[attr-defined]
                if state is None:
                    output = to_jsonable_python(result.final_output, fallback=str)
                    ended = {"messages": result.to_input_list(), "output": output}
                    yield partial(self.threads.finish, held, to_json(ended).decode())
                    return result
                calls, gates = _sort(state, run)
                paused = to_json({"messages": result.to_input_list(), "run": state.to_json()}).decode()
                pausing = partial(self.threads.pause, held, paused, calls, gates, _schemas(result.last_agent))
                interruption: InterruptionMetadata | None = yield pausing
                if interruption is not None:
                    return interruption
                step = (run, _passed(state, run), None)
        except BaseException:
            yield partial(self.threads.let_go, held)
            raise

    async def _run(self, agent: Agent[Any], options: dict[str, Any], step: Any) -> RunResultBase:
        _current.set(step[0])
        given, options = await self._given(agent, options, *step)
        with _ours_unwrapped():
            return await Runner.run(agent, given, **options)

    async def _events(
        self, agent: Agent[Any], options: dict[str, Any], step: Any
    ) -> AsyncGenerator[Any, None]:
        _current.set(step[0])
        given, options = await self._given(agent, options, *step)
        result = Runner.run_streamed(agent, given, **options)
        with _ours_unwrapped():
            async for event in result.stream_events():
                yield event
        yield Came(result)

    async def _given(
        self, agent: Agent[Any], options: dict[str, Any], run: _Run, stands: Any, prompt: str | None
    ) -> tuple[Any, dict[str, Any]]:
        """What the SDK runs next, and how: with hooks that see each turn before its calls."""
        options = {**options, "hooks": _Watch(self, options.get("hooks"))}
        if not isinstance(stands, Held):
            return stands, options
        kept = json.loads(stands.state or "{}")
        if stands.interruption is None:
            return [*kept.get("messages", ()), {"role": "user", "content": prompt}], options
        context = options.pop("context", None)
        override = None if context is None else RunContextWrapper(context)
        state = await RunState.from_json(agent, kept["run"], context_override=override)
        _decide(state, stands.interruption)
        for message in stands.messages:
            state.add_input(message)
        return state, options

    def judge(self, call: ToolCall, agent: Any, context: RunContextWrapper[Any]) -> Gate | None:
        """How the person is asked about this call, or None if nobody needs to be."""
        state = {"messages": context.turn_input, "context": context.context, "agent": agent}
        return self.threads.judge(call, state)


class _Gated:
    """Stands in a tool's place: asks before the call, and does afterwards what was decided."""

    def __init__(self, approval: Approval, tool: FunctionTool) -> None:
        self.approval = approval
        self.tool = tool

    @classmethod
    def copy(cls, approval: Approval, tool: FunctionTool) -> FunctionTool:
        inner = tool.on_invoke_tool
        gated = copy.copy(tool)
        stand_in = cls(approval, inner.tool if isinstance(inner, _Gated) else tool)
        gated.on_invoke_tool, gated.needs_approval = stand_in, stand_in.needs_approval
        return gated

    async def needs_approval(
        self, context: RunContextWrapper[Any], arguments: Arguments, call_id: str
    ) -> bool:
        run = _current.get() or _Run()
        call = ToolCall(id=call_id, name=self.tool.name, arguments=arguments)
        gate = await self.judged(run, call, None, context)
        return gate is not None or call_id in run.waits

    async def judged(
        self, run: _Run, call: ToolCall, agent: Any, context: RunContextWrapper[Any]
    ) -> Gate | None:
        """How the call is judged, once; a tool that asks by itself is asked too."""
        if call.id not in run.judged:
            gate = self.approval.judge(call, agent, context)
            own = self.tool.needs_approval
            if gate is None and own is not False:
                asks = own if isinstance(own, bool) else await own(context, call.arguments, call.id)
                gate = OWN if asks else None
            run.judged[call.id] = gate
        return run.judged[call.id]

    async def __call__(self, context: ToolContext[Any], given: str) -> Any:
        run = _current.get() or _Run()
        asked = ToolCall(id=context.tool_call_id, name=self.tool.name, arguments=_arguments(given) or {})
        if run.decided is None or (ran := to_run(run.decided, asked.id)) is None:
            if asked.id in run.waits or await self.judged(run, asked, context.agent, context) is not None:
                return UNDECIDED
            return await self.tool.on_invoke_tool(context, given)
        if isinstance(ran, str):
            return ran
        if getattr(self.tool, "_is_agent_tool", False):
            # It comes by again with each pause of the agent inside, and its calls are run once themselves.
            return await self.tool.on_invoke_tool(context, json.dumps(ran.arguments))
        runs = partial(self._run, context, asked, ran, given)
        alone = is_alone(run.decided)
        return await self.approval.threads.once(run.turn, asked, ran, runs, _text, alone=alone)

    async def _run(self, context: ToolContext[Any], asked: ToolCall, ran: ToolCall, given: str) -> Any:
        if ran == asked:
            return await self.tool.on_invoke_tool(context, given)
        tool = self.tool if ran.name == asked.name else _tools(context.agent)[ran.name]
        edited = copy.copy(context)
        edited.tool_name, edited.tool_arguments = ran.name, json.dumps(ran.arguments)
        return await tool.on_invoke_tool(edited, edited.tool_arguments)


class _Watch(RunHooks[Any]):
    """Sees a turn before its calls, and a call before it runs; everything else is the caller's own hooks."""

    def __init__(self, approval: Approval, own: Any) -> None:
        self._approval = approval
        self._own = own or RunHooks()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_") and name not in ("on_llm_end", "on_tool_start"):
            return getattr(object.__getattribute__(self, "_own"), name)
        return object.__getattribute__(self, name)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Judge a turn as a whole: calls that need nobody wait with those that do."""
        run, turn = _current.get() or _Run(), []
        stand_ins = {tool.name: tool.on_invoke_tool for tool in agent.tools if isinstance(tool, FunctionTool)}
        for item in response.output:
            if not isinstance(item, ResponseFunctionToolCall):
                continue
            stand_in, arguments = stand_ins.get(item.name), _arguments(item.arguments)
            if isinstance(stand_in, _Gated) and arguments is not None:
                call = ToolCall(id=item.call_id, name=item.name, arguments=arguments)
                turn.append(call.id)
                await stand_in.judged(run, call, agent, context)
        if any(run.judged[call_id] for call_id in turn):
            run.waits.update(turn)
        await self._own.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Any, tool: Tool) -> None:
        """Nothing that a person must see slips past because its tool was not given to `gated`."""
        if not isinstance(getattr(tool, "on_invoke_tool", None), _Gated):
            run = _current.get() or _Run()
            call_id = getattr(context, "tool_call_id", "")
            arguments = _arguments(getattr(context, "tool_arguments", None)) or {}
            call = ToolCall(id=call_id, name=tool.name, arguments=arguments)
            asked = run.decided is not None and isinstance(to_run(run.decided, call_id), ToolCall)
            if not asked and self._approval.judge(call, agent, context) is not None:
                raise HookError(f"The calls of {tool.name} wait for a person, but it is not behind the gate.")
        await self._own.on_tool_start(context, agent, tool)


@contextmanager
def _ours_unwrapped() -> Iterator[None]:
    """The SDK reports what a tool raised as its own error; what our gate raised is ours."""
    try:
        yield
    except UserError as error:
        if isinstance(error.__cause__, HookError):
            raise error.__cause__ from None
        raise


def _sort(state: RunState[Any], run: _Run) -> tuple[list[ToolCall], dict[str, Gate | None]]:
    """The calls that wait and how each was judged; what need not wait is decided in the state at once."""
    calls, gates = [], {}
    for item in state.get_interruptions():
        arguments = _arguments(item.arguments)
        if arguments is None:
            state.reject(item, rejection_message=UNREADABLE)
            continue
        calls.append(ToolCall(id=item.call_id or "", name=item.name or "", arguments=arguments))
        gates[calls[-1].id] = run.judged.get(calls[-1].id, NATIVE)
    return calls, gates


def _passed(state: RunState[Any], run: _Run) -> RunState[Any]:
    """Nobody needs to see these calls after all."""
    for item in state.get_interruptions():
        if _arguments(item.arguments) is not None:
            run.judged[item.call_id or ""] = None
            run.waits.discard(item.call_id or "")
            state.approve(item)
    return state


def _decide(state: RunState[Any], decided: InterruptionMetadata) -> None:
    """Tell the SDK; what is to be edited or answered is seen to when it invokes the tool."""
    feedbacks = {feedback.id: feedback for feedback in decided.tool_feedbacks}
    automatic = {call.id for call in decided.tools_automatically_approved}
    for item in state.get_interruptions():
        feedback = feedbacks.get(item.call_id or "")
        if item.call_id in automatic:
            state.approve(item)
        elif feedback is not None and feedback.result is FeedbackResult.REJECTED:
            state.reject(item, rejection_message=refused(feedback))
        elif feedback is not None and feedback.result is not None:
            state.approve(item)


def _tools(agent: Any) -> Mapping[str, FunctionTool]:
    tools = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    inner = {tool.name: tool.on_invoke_tool for tool in tools}
    return {
        tool.name: stand_in.tool if isinstance(stand_in := inner[tool.name], _Gated) else tool
        for tool in tools
    }


def _schemas(agent: Any) -> dict[str, Mapping[str, Any] | None]:
    return {name: tool.params_json_schema for name, tool in _tools(agent).items()}


def _arguments(given: Any) -> Arguments | None:
    try:
        return read_arguments(given)
    except InvalidFeedback:
        return None


def _text(result: Any) -> str:
    return as_text(to_jsonable_python(result, fallback=str))
