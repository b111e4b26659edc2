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
)
from agents.result import RunResultBase
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall
from pydantic import TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from placet.errors import HookError
from placet.hook.frameworks.approval_runs import ApprovalRuns, ThreadClaim
from placet.hook.frameworks.openai_agents.conversion import (
    apply_decisions,
    build_call_key,
    edit_context,
    find_handoff_agent,
    is_agent,
    parse_arguments,
    prepend_notice,
    read_waiting_call,
    result_to_text,
    run_guardrails,
    stop_streamed_run,
    unwrap_hook_errors,
    wrap_guardrail,
)
from placet.hook.frameworks.run_steps import RunSteps, StreamResult
from placet.hook.frameworks.thread_store import ClaimedThread, FinishedThread, has_single_call, resolve_call
from placet.hook.interruption import InterruptionMetadata
from placet.hook.policy import ReviewRequirement, ToolConfig
from placet.hook.tool_call import Arguments, ToolCall

T = TypeVar("T")
SDK_REQUIREMENT = ReviewRequirement(
    description="", config=ToolConfig(allowed_decisions=("approve", "reject"))
)
"""A tool of the SDK that asks for approval by itself; its calls cannot be edited."""
NOT_GATED = "The calls of {} wait for a person, but it is not behind the gate."
TOOL_REQUIREMENT = ReviewRequirement(description="", config=ToolConfig())
UNREADABLE_ARGUMENTS = "This call was not run: its arguments are not a JSON object."
NO_DECISION = "This call was not run: no decision of a person is kept for it."
HISTORY_OPTIONS = ("session", "conversation_id", "previous_response_id")
"""Options with which the SDK knows what was said before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedResult:
    """What a thread came to when this answer was first delivered; nothing ran again."""

    final_output: Any
    """As JSON; `final_output_as` makes it what it was."""

    def final_output_as(self, kind: type[T]) -> T:
        """The output as this type."""
        return TypeAdapter(kind).validate_python(self.final_output)


Outcome = RunResultBase | RepeatedResult | InterruptionMetadata
"""What a run comes to: its result, that result told again, or the calls that wait for a person."""


@dataclass(kw_only=True)
class _RunContext:
    """What is known while the SDK runs: the decided turn, and how new calls were judged."""

    turn: str = ""
    decided: InterruptionMetadata | None = None
    asked: Mapping[str, ToolCall] = field(default_factory=dict)
    """The calls that were decided, as they were asked for."""
    judged: dict[str, ReviewRequirement | None] = field(default_factory=dict)
    """By the whole call: agents inside have calls of their own, which may bear the same ids."""
    waits: set[str] = field(default_factory=set)
    inside: dict[str, Arguments] = field(default_factory=dict)
    """The calls of agents as tools that have begun: they come by again when what waits inside is decided."""
    begun: Mapping[str, Arguments] = field(default_factory=dict)
    """Those that had begun when the thread was paused, and what they were to run with."""

    def to_run(self, asked: ToolCall) -> ToolCall | str | None:
        """As `threads.to_run`; what was decided on another call of the same id is no decision on this one."""
        if self.decided is None or self.asked.get(asked.id) != asked:
            return None
        return resolve_call(self.decided, asked.id)


_current: ContextVar[_RunContext | None] = ContextVar("placet_run", default=None)


class OpenAIAgentsApproval(ApprovalRuns[Agent[Any], Outcome]):
    """Stops the calls of the tools that went through `gated`, in threads that outlive the process."""

    def gated(self, tools: Iterable[Tool]) -> list[Tool]:
        """The same tools behind the gate; give these to the agent. Only function tools can be stopped."""
        return [_GatedTool.copy(self, tool) if isinstance(tool, FunctionTool) else tool for tool in tools]

    def messages(self, thread_id: str) -> list[Any]:
        """The thread's input items, up to where it waits or ended."""
        return list(json.loads(self.threads.state(thread_id) or "{}").get("messages", ()))

    def _flow(self, agent: Agent[Any], taking: ThreadClaim, prompt: str | None) -> RunSteps[Outcome]:
        held: ClaimedThread | FinishedThread | InterruptionMetadata = yield from self._taken(taking)
        if isinstance(held, FinishedThread):
            return RepeatedResult(final_output=json.loads(held.state)["output"])
        if not isinstance(held, ClaimedThread):
            return held
        run = _RunContext(turn=held.turn, decided=held.interruption)
        try:
            step: Any = (run, held, prompt)
            while True:
                with self.threads.renewing(held):
                    result: RunResultBase = yield step
                state = result.to_state() if result.interruptions else None  # type: ignore[attr-defined]
                if state is None:
                    output = to_jsonable_python(result.final_output, fallback=str)
                    ended = {"messages": result.to_input_list(), "output": output}
                    yield partial(self.threads.finish, held, to_json(ended).decode())
                    return result
                calls, gates = _collect_waiting_calls(state, run)
                said, inside = result.to_input_list(), run.inside
                paused = to_json({"messages": said, "run": state.to_json(), "inside": inside}).decode()
                pausing = partial(
                    self.threads.pause, held, paused, calls, gates, _collect_schemas(result, calls)
                )
                interruption: InterruptionMetadata | None = yield pausing
                if interruption is not None:
                    return interruption
                step = (run, _approve_waiting_calls(state, run), None)
        except BaseException:
            yield partial(self.threads.let_go, held)
            raise

    async def _run(self, agent: Agent[Any], options: dict[str, Any], step: Any) -> RunResultBase:
        given, options = await self._given(agent, options, *step)
        with unwrap_hook_errors(), _run_context(step[0]):
            return await Runner.run(agent, given, **options)

    async def _events(
        self, agent: Agent[Any], options: dict[str, Any], step: Any
    ) -> AsyncGenerator[Any, None]:
        given, options = await self._given(agent, options, *step)
        with _run_context(step[0]):
            result = Runner.run_streamed(agent, given, **options)
        events: Any = result.stream_events()
        try:
            with unwrap_hook_errors():
                async for event in events:
                    yield event
        finally:
            await stop_streamed_run(result, events)
        yield StreamResult(result)

    async def _given(
        self, agent: Agent[Any], options: dict[str, Any], run: _RunContext, stands: Any, prompt: str | None
    ) -> tuple[Any, dict[str, Any]]:
        """What the SDK runs next, and how: with hooks that see each turn before its calls."""
        options = {**options, "hooks": _GateHooks(self, options.get("hooks"))}
        if not isinstance(stands, ClaimedThread):
            return stands, options
        kept = json.loads(stands.state or "{}")
        if stands.interruption is None:
            before = () if any(map(options.get, HISTORY_OPTIONS)) else kept.get("messages", ())
            return [*before, {"role": "user", "content": prompt}], options
        context = options.pop("context", None)
        override = None if context is None else RunContextWrapper(context)
        state = await RunState.from_json(agent, kept["run"], context_override=override)
        run.asked, run.begun = apply_decisions(state, stands.interruption), kept.get("inside", {})
        for message in stands.messages:
            state.add_input(message)
        return state, options

    def evaluate(
        self, call: ToolCall, agent: Any, context: RunContextWrapper[Any], tool: Any
    ) -> ReviewRequirement | None:
        """How the person is asked about this call, or None if nobody needs to be."""
        state = {"messages": context.turn_input, "context": context.context, "agent": agent}
        return self.threads.evaluate(call, state, getattr(tool, "params_json_schema", None))


class _GatedTool:
    """Stands in a tool's place: asks before the call, and does afterwards what was decided."""

    def __init__(self, approval: OpenAIAgentsApproval, tool: FunctionTool) -> None:
        self.approval = approval
        self.tool = tool

    @classmethod
    def copy(cls, approval: OpenAIAgentsApproval, tool: FunctionTool) -> FunctionTool:
        inner = tool.on_invoke_tool
        gated = copy.copy(tool)
        stand_in = cls(approval, inner.tool if isinstance(inner, _GatedTool) else tool)
        gated.on_invoke_tool, gated.needs_approval = stand_in, stand_in.needs_approval
        own = stand_in.tool.tool_input_guardrails
        gated.tool_input_guardrails = own and [wrap_guardrail(each, stand_in.as_decided) for each in own]
        return gated

    async def needs_approval(
        self, context: RunContextWrapper[Any], arguments: Arguments, call_id: str
    ) -> bool:
        run = _current.get() or _RunContext()
        call = ToolCall(id=call_id, name=self.tool.name, arguments=arguments)
        gate = await self.judged(run, call, None, context)
        return gate is not None or call_id in run.waits

    async def judged(
        self, run: _RunContext, call: ToolCall, agent: Any, context: RunContextWrapper[Any]
    ) -> ReviewRequirement | None:
        """How the call is judged, once; a tool that asks by itself is asked too."""
        if (key := build_call_key(call)) not in run.judged:
            gate = self.approval.evaluate(call, agent, context, self.tool)
            own = self.tool.needs_approval
            if gate is None and own is not False:
                asks = own if isinstance(own, bool) else await own(context, call.arguments, call.id)
                gate = TOOL_REQUIREMENT if asks else None
            run.judged[key] = gate
        return run.judged[key]

    async def __call__(self, context: ToolContext[Any], given: str) -> Any:
        run = _current.get() or _RunContext()
        asked = ToolCall(id=context.tool_call_id, name=self.tool.name, arguments=parse_arguments(given) or {})
        ran, of_agent = run.to_run(asked), is_agent(self.tool)
        if ran is None and (key := build_call_key(asked)) in run.begun:
            ran = ToolCall(id=asked.id, name=asked.name, arguments=run.begun[key])
        if ran is None:
            if asked.id in run.waits or await self.judged(run, asked, context.agent, context) is not None:
                return NO_DECISION
            if not of_agent:
                return await self.tool.on_invoke_tool(context, given)
            ran = asked
        if isinstance(ran, str):
            return ran
        if of_agent and ran.name == asked.name:
            # It comes by again with each pause of the agent inside, and its calls are run once themselves.
            run.inside[build_call_key(asked)] = ran.arguments
            return await self.tool.on_invoke_tool(context, json.dumps(ran.arguments))
        runs = partial(self._run, context, asked, ran, given)
        alone = run.decided is not None and has_single_call(run.decided)
        once = self.approval.threads.once
        return await once(run.turn, asked, ran, runs, result_to_text, with_notice=prepend_notice, alone=alone)

    async def _run(self, context: ToolContext[Any], asked: ToolCall, ran: ToolCall, given: str) -> Any:
        if ran == asked:
            return await self.tool.on_invoke_tool(context, given)
        tool = self.tool if ran.name == asked.name else _index_function_tools(context.agent).get(ran.name)
        if tool is None or is_agent(tool):
            return f"There is no tool {ran.name} that could run in its place; nothing was run."
        edited = edit_context(context, ran)
        refused = None if tool is self.tool else await run_guardrails(tool, edited)
        return await tool.on_invoke_tool(edited, edited.tool_arguments) if refused is None else refused

    def as_decided(self, context: ToolContext[Any]) -> ToolContext[Any]:
        """The call as the tool will get it, for those who look at it before."""
        run, arguments = _current.get() or _RunContext(), parse_arguments(context.tool_arguments) or {}
        ran = run.to_run(ToolCall(id=context.tool_call_id, name=self.tool.name, arguments=arguments))
        edited = isinstance(ran, ToolCall) and ran.name == self.tool.name and ran.arguments != arguments
        return edit_context(context, ran) if edited and isinstance(ran, ToolCall) else context


class _GateHooks(RunHooks[Any]):
    """Sees a turn before its calls, and a call before it runs; everything else is the caller's own hooks."""

    def __init__(self, approval: OpenAIAgentsApproval, own: Any) -> None:
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
        run, turn, waits = _current.get() or _RunContext(), [], False
        stand_ins = {tool.name: tool.on_invoke_tool for tool in agent.tools if isinstance(tool, FunctionTool)}
        for item in response.output:
            if not isinstance(item, ResponseFunctionToolCall):
                continue
            stand_in, arguments = stand_ins.get(item.name), parse_arguments(item.arguments)
            if isinstance(stand_in, _GatedTool) and arguments is not None:
                call = ToolCall(id=item.call_id, name=item.name, arguments=arguments)
                turn.append(call.id)
                waits |= await stand_in.judged(run, call, agent, context) is not None
        if waits:
            run.waits.update(turn)
        await self._own.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Any, tool: Tool) -> None:
        """Nothing that a person must see slips past because its tool was not given to `gated`."""
        if not isinstance(getattr(tool, "on_invoke_tool", None), _GatedTool):
            run = _current.get() or _RunContext()
            call_id = getattr(context, "tool_call_id", "")
            arguments = parse_arguments(getattr(context, "tool_arguments", None)) or {}
            call = ToolCall(id=call_id, name=tool.name, arguments=arguments)
            asked = isinstance(run.to_run(call), ToolCall)
            if not asked and self._approval.evaluate(call, agent, context, tool) is not None:
                raise HookError(NOT_GATED.format(tool.name))
        inside = getattr(tool, "_agent_instance", None)
        if inside is not None:
            await self._look_inside(inside, context, [agent])
        await self._own.on_tool_start(context, agent, tool)

    async def _look_inside(
        self, agent: Agent[Any], context: RunContextWrapper[Any], seen: list[Agent[Any]]
    ) -> None:
        """An agent inside a tool runs without hooks of ours: what may wait must be behind the gate."""
        seen.append(agent)
        tools = [*agent.tools, *(await agent.get_mcp_tools(context) if agent.mcp_servers else ())]
        for tool in tools:
            gated = isinstance(getattr(tool, "on_invoke_tool", None), _GatedTool)
            if not gated and not self._approval.threads.never_stops(tool.name):
                raise HookError(NOT_GATED.format(tool.name))
        ahead = [getattr(tool, "_agent_instance", None) for tool in tools]
        ahead += [each if isinstance(each, Agent) else find_handoff_agent(each) for each in agent.handoffs]
        for inner in ahead:
            if inner is not None and not any(inner is known for known in seen):
                await self._look_inside(inner, context, seen)


@contextmanager
def _run_context(run: _RunContext) -> Iterator[None]:
    """What is known of this run, for the tools that it calls; no other run in the same task may see it."""
    before = _current.set(run)
    try:
        yield
    finally:
        _current.reset(before)


def _collect_waiting_calls(
    state: RunState[Any], run: _RunContext
) -> tuple[list[ToolCall], dict[str, ReviewRequirement | None]]:
    """The calls that wait and how each was judged; what need not wait is decided in the state at once."""
    calls: list[ToolCall] = []
    gates: dict[str, ReviewRequirement | None] = {}
    for item in state.get_interruptions():
        call = read_waiting_call(item)
        if call is None:
            state.reject(item, rejection_message=UNREADABLE_ARGUMENTS)
            continue
        gate = run.judged.get(build_call_key(call), SDK_REQUIREMENT)
        if call.id not in gates:  # agents inside may name calls alike: one can be decided at a time
            calls.append(call)
            gates[call.id] = gate
        elif SDK_REQUIREMENT in (gate, gates[call.id]):
            raise HookError(f"Two calls are named {call.id}, and what is said of one the SDK takes for both.")
    return calls, gates


def _approve_waiting_calls(state: RunState[Any], run: _RunContext) -> RunState[Any]:
    """Nobody needs to see these calls after all."""
    passed: set[str] = set()
    for item in state.get_interruptions():
        call = read_waiting_call(item)
        if call is not None and call.id not in passed:
            passed.add(call.id)
            run.judged[build_call_key(call)] = None
            run.waits.discard(call.id)
            state.approve(item)
    return state


def _index_function_tools(agent: Any) -> Mapping[str, FunctionTool]:
    tools = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    inner = {tool.name: tool.on_invoke_tool for tool in tools}
    return {
        tool.name: stand_in.tool if isinstance(stand_in := inner[tool.name], _GatedTool) else tool
        for tool in tools
    }


def _collect_schemas(result: RunResultBase, calls: Iterable[ToolCall]) -> dict[str, Mapping[str, Any] | None]:
    """What the tools take, of the agent that stands and of those inside it that wait.

    An agent as a tool is there only for its own calls: none can become one, for the SDK knows it by its call.
    """
    agents = [item.agent for item in result.interruptions]  # type: ignore[attr-defined]
    waiting = {call.name for call in calls}
    return {
        name: tool.params_json_schema
        for agent in {id(each): each for each in (*agents, result.last_agent)}.values()
        for name, tool in _index_function_tools(agent).items()
        if name in waiting or not is_agent(tool)
    }
