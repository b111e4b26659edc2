"""Approval for the OpenAI Agents SDK: function tools whose calls wait, can be edited, and run once.

The SDK keeps its own loop and decides nothing here: a call runs because the gate allows it. `always_approve`
is never used, because it would approve a tool with any arguments.
"""

import copy
import json
from collections.abc import AsyncGenerator, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

from agents import (
    Agent,
    FunctionTool,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    StreamEvent,
    Tool,
    ToolExecutionConfig,
)
from agents.result import RunResultBase
from agents.run_config import CallModelData, ModelInputData
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall
from pydantic import TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from placet.errors import HookError
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import ReviewRequirement, ToolConfig, check_rules
from placet.hook.argument_checks import refuse, require_list
from placet.hook.frameworks.approval_runs import ApprovalRuns, ThreadClaim
from placet.hook.frameworks.openai_agents.conversion import (
    apply_decisions,
    build_call_key,
    edit_context,
    find_agents,
    is_agent,
    parse_arguments,
    prepend_notice,
    read_waiting_call,
    result_to_text,
    run_guardrails,
    runs_at_provider,
    stop_streamed_run,
    unwrap_hook_errors,
    wrap_guardrail,
)
from placet.hook.frameworks.openai_agents.run_options import ContextT, RunnerOptions
from placet.hook.frameworks.run_steps import RunSteps, StreamResult
from placet.hook.frameworks.thread_store import ClaimedThread, FinishedThread, has_single_call, resolve_call
from placet.hook.interruption import InterruptionMetadata
from placet.hook.tool_call import Arguments, ToolCall

T = TypeVar("T")
SDK_REQUIREMENT = ReviewRequirement(
    description="", config=ToolConfig(allowed_decisions=("approve", "reject"))
)
"""For tools of the SDK that request approval themselves; their calls cannot be edited."""
NOT_GATED = "Calls of {} need a review, but the tool is not gated. Pass it through gate_tools()."
TOOL_REQUIREMENT = ReviewRequirement(description="", config=ToolConfig())
SDK_TOOLS = "a list of the SDK's tools, such as [function_tool(send_mail)]"
UNREADABLE_ARGUMENTS = "This call was not run: its arguments are not a JSON object."
NO_DECISION = "This call was not run: no decision on it is stored."
HISTORY_OPTIONS = ("session", "conversation_id", "previous_response_id")
"""Options with which the SDK loads earlier messages itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedResult:
    """The stored result of an answer that was delivered before; nothing ran again."""

    final_output: Any
    """The output as JSON; `final_output_as` converts it to a type."""

    def final_output_as(self, kind: type[T]) -> T:
        """Return the output as this type."""
        return TypeAdapter(kind).validate_python(self.final_output)


OpenAIOutcome: TypeAlias = RunResult | RepeatedResult | InterruptionMetadata
"""The outcome of a run: its result, a repeated result, or the calls that wait for a reviewer."""
OpenAIStream: TypeAlias = AsyncGenerator[StreamEvent | RunResultStreaming | OpenAIOutcome, None]
"""The SDK's events, and last the outcome."""


@dataclass(kw_only=True)
class _RunContext:
    """What is known during a run: the decided turn, and the evaluations of new calls."""

    turn: str = ""
    decided: InterruptionMetadata | None = None
    asked: Mapping[str, ToolCall] = field(default_factory=dict)
    """The decided calls, as they were requested."""
    evaluated: dict[str, ReviewRequirement | None] = field(default_factory=dict)
    """Evaluations by whole call, because calls of inner agents may have the same ids."""
    waits: set[str] = field(default_factory=set)
    inside: dict[str, Arguments] = field(default_factory=dict)
    """Started calls of agents as tools: they are invoked again when their inner calls are decided."""
    begun: Mapping[str, Arguments] = field(default_factory=dict)
    """Those that had started when the thread was paused, with their arguments."""
    outer: list[Agent[Any]] = field(default_factory=list)
    """The agents of this run, whose calls our hooks see."""
    turn_tools: list[str] = field(default_factory=list)
    """The tools that the current turn calls."""

    def to_run(self, asked: ToolCall) -> ToolCall | str | None:
        """Like `resolve_call`; a decision on another call with the same id does not count."""
        if self.decided is None or self.asked.get(asked.id) != asked:
            return None
        return resolve_call(self.decided, asked.id)


_current: ContextVar[_RunContext | None] = ContextVar("placet_run", default=None)
_is_inside: ContextVar[bool] = ContextVar("placet_inner_agent", default=False)
"""Whether an agent runs that was called as a tool."""


class OpenAIAgentsApproval(ApprovalRuns[Agent[Any], OpenAIOutcome]):
    """Stops calls of tools that were passed through `gate_tools`, in threads that outlive the process."""

    if TYPE_CHECKING:  # the SDK's types instead of any option; ApprovalRuns implements the methods

        def run(  # type: ignore[override]
            self,
            agent: Agent[ContextT],
            prompt: str,
            *,
            thread_id: str,
            **options: Unpack[RunnerOptions[ContextT]],
        ) -> Coroutine[Any, Any, OpenAIOutcome]: ...

        def resume(  # type: ignore[override]
            self,
            agent: Agent[ContextT],
            thread_id: str,
            feedback: Feedback | None = None,
            **options: Unpack[RunnerOptions[ContextT]],
        ) -> Coroutine[Any, Any, OpenAIOutcome]: ...

        def run_sync(  # type: ignore[override]
            self,
            agent: Agent[ContextT],
            prompt: str,
            *,
            thread_id: str,
            **options: Unpack[RunnerOptions[ContextT]],
        ) -> OpenAIOutcome: ...

        def resume_sync(  # type: ignore[override]
            self,
            agent: Agent[ContextT],
            thread_id: str,
            feedback: Feedback | None = None,
            **options: Unpack[RunnerOptions[ContextT]],
        ) -> OpenAIOutcome: ...

        def stream(  # type: ignore[override]
            self,
            agent: Agent[ContextT],
            prompt: str,
            *,
            thread_id: str,
            **options: Unpack[RunnerOptions[ContextT]],
        ) -> OpenAIStream: ...

        def resume_stream(  # type: ignore[override]
            self,
            agent: Agent[ContextT],
            thread_id: str,
            feedback: Feedback | None = None,
            **options: Unpack[RunnerOptions[ContextT]],
        ) -> OpenAIStream: ...

    def gate_tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools, gated, for the agent. Only function tools can be stopped."""
        given: tuple[Tool, ...] = require_list("tools", tools, SDK_TOOLS)
        for tool in given:
            if not isinstance(getattr(tool, "name", None), str):
                refuse("tools", SDK_TOOLS, tool)
        return [_GatedTool.copy(self, tool) if isinstance(tool, FunctionTool) else tool for tool in given]

    def messages(self, thread_id: str) -> list[Any]:
        """Return the thread's input items so far."""
        return list(json.loads(self.threads.state(thread_id) or "{}").get("messages", ()))

    def _build_steps(
        self, agent: Agent[Any], claim: ThreadClaim, prompt: str | None
    ) -> RunSteps[OpenAIOutcome]:
        held: ClaimedThread | FinishedThread | InterruptionMetadata = yield from self._claim_thread(claim)
        if isinstance(held, FinishedThread):
            return held.deliver(RepeatedResult(final_output=json.loads(held.state)["output"]))
        if not isinstance(held, ClaimedThread):
            return held
        decided = held.interruption
        run = _RunContext(turn=held.turn, decided=decided, turn_tools=_list_turn_tools(decided))
        try:
            step: Any = (run, held, prompt)
            while True:
                with self.threads.renewing(held):
                    result: RunResult = yield step
                state = result.to_state() if result.interruptions else None
                if state is None:
                    output = to_jsonable_python(result.final_output, fallback=str)
                    ended = {"messages": result.to_input_list(), "output": output}
                    yield partial(self.threads.finish, held, to_json(ended).decode())
                    return result
                calls, requirements = _collect_waiting_calls(state, run)
                said, inside = result.to_input_list(), run.inside
                paused = to_json({"messages": said, "run": state.to_json(), "inside": inside}).decode()
                pausing = partial(
                    self.threads.pause, held, paused, calls, requirements, _collect_schemas(result, calls)
                )
                interruption: InterruptionMetadata | None = yield pausing
                if interruption is not None:
                    return interruption
                step = (run, _approve_waiting_calls(state, run), None)
        except BaseException:
            yield partial(self.threads.release_thread, held)
            raise

    async def _run(self, agent: Agent[Any], options: dict[str, Any], step: Any) -> RunResultBase:
        given, options = await self._prepare_input(agent, options, *step)
        with unwrap_hook_errors(), _run_context(step[0]):
            return await Runner.run(agent, given, **options)

    async def _run_events(
        self, agent: Agent[Any], options: dict[str, Any], step: Any
    ) -> AsyncGenerator[Any, None]:
        given, options = await self._prepare_input(agent, options, *step)
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

    async def _prepare_input(
        self, agent: Agent[Any], options: dict[str, Any], run: _RunContext, stands: Any, prompt: str | None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the SDK's next input and its options, with hooks that see each turn before its calls."""
        hooks, config = _GateHooks(self, options.get("hooks")), options.get("run_config") or RunConfig()
        config = RunConfig(**config) if isinstance(config, dict) else config
        config = replace(
            config,
            tool_execution=_build_execution_config(self.parallel, config.tool_execution),
            call_model_input_filter=_InnerAgentFilter(self, run, config.call_model_input_filter),
        )
        run.outer.append(agent)
        options = {**options, "hooks": hooks, "run_config": config}
        if not isinstance(stands, ClaimedThread):
            return stands, options
        await self._check_rules(agent, options.get("context"))
        saved = json.loads(stands.state or "{}")
        if stands.interruption is None:
            before = () if any(map(options.get, HISTORY_OPTIONS)) else saved.get("messages", ())
            return [*before, {"role": "user", "content": prompt}], options
        context = options.pop("context", None)
        override = None if context is None else RunContextWrapper(context)
        state = await RunState.from_json(agent, saved["run"], context_override=override)
        run.outer.extend(each for each in (state._current_agent,) if each is not None)
        run.asked, run.begun = apply_decisions(state, stands.interruption), saved.get("inside", {})
        for message in stands.messages:
            state.add_input(message)
        return state, options

    async def _check_rules(self, agent: Agent[Any], context: Any) -> None:
        """Raise HookError if a rule matches no tool of the agent, or of one that it may hand over to."""
        agents = find_agents(agent)
        hosted = [tool.name for each in agents for tool in each.tools if runs_at_provider(tool)]
        await self.threads.check_provider_tools(hosted, {"messages": [], "context": context, "agent": agent})
        names = [tool.name for each in agents for tool in each.tools]
        try:
            check_rules(self.threads.hooks, names)
        except HookError:
            servers = [each for each in agents if each.mcp_servers]
            if not servers:
                raise
            found = [await each.get_mcp_tools(RunContextWrapper(context)) for each in servers]
            check_rules(self.threads.hooks, [*names, *(tool.name for tools in found for tool in tools)])

    def gates(self, tool: Any) -> bool:
        """Return whether the tool was passed through `gate_tools` of this object."""
        stand_in = getattr(tool, "on_invoke_tool", None)
        return isinstance(stand_in, _GatedTool) and stand_in.approval is self

    async def check_inner_agents(self, agents: Iterable[Agent[Any]], context: RunContextWrapper[Any]) -> None:
        """Check the tools of agents that run inside another one, where our hooks see no call."""
        for agent in agents:
            for tool in (*agent.tools, *(await agent.get_mcp_tools(context) if agent.mcp_servers else ())):
                if not self.gates(tool) and not self.threads.never_stops(tool.name):
                    raise HookError(NOT_GATED.format(tool.name))

    async def evaluate(
        self, call: ToolCall, agent: Any, context: RunContextWrapper[Any], tool: Any
    ) -> ReviewRequirement | None:
        """Return how this call must be reviewed, or None if it needs no review."""
        state = {"messages": context.turn_input, "context": context.context, "agent": agent}
        return await self.threads.evaluate(call, state, getattr(tool, "params_json_schema", None))


class _GatedTool:
    """Replaces a tool: requests approval before the call, and then follows the decision."""

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
        requirement = await self.evaluate_once(run, call, None, context)
        return requirement is not None or call_id in run.waits

    async def evaluate_once(
        self, run: _RunContext, call: ToolCall, agent: Any, context: RunContextWrapper[Any]
    ) -> ReviewRequirement | None:
        """Evaluate the call, once; a tool's own `needs_approval` counts too."""
        if (key := build_call_key(call)) not in run.evaluated:
            requirement = await self.approval.evaluate(call, agent, context, self.tool)
            own = self.tool.needs_approval
            if requirement is None and own is not False:
                asks = own if isinstance(own, bool) else await own(context, call.arguments, call.id)
                requirement = TOOL_REQUIREMENT if asks else None
            run.evaluated.setdefault(key, requirement)
        return run.evaluated[key]

    async def __call__(self, context: ToolContext[Any], given: str) -> Any:
        run, arguments = _current.get() or _RunContext(), parse_arguments(given)
        if arguments is None:  # no rule has seen what the tool may read in this text
            return UNREADABLE_ARGUMENTS
        asked = ToolCall(id=context.tool_call_id, name=self.tool.name, arguments=arguments)
        ran, of_agent = run.to_run(asked), is_agent(self.tool)
        if ran is None and (key := build_call_key(asked)) in run.begun:
            ran = ToolCall(id=asked.id, name=asked.name, arguments=run.begun[key])
        if ran is None:
            if (
                asked.id in run.waits
                or await self.evaluate_once(run, asked, context.agent, context) is not None
            ):
                return NO_DECISION
            if not of_agent:
                return await self.tool.on_invoke_tool(context, given)
            ran = asked
        if isinstance(ran, str):
            return ran
        if of_agent and ran.name == asked.name:
            # It is invoked again after each pause of the inner agent, whose calls are run once by themselves.
            run.inside[build_call_key(asked)] = ran.arguments
            _is_inside.set(True)
            return await self.tool.on_invoke_tool(context, json.dumps(ran.arguments))
        runs = partial(self._run, context, asked, ran, given)
        is_only_call = run.decided is not None and has_single_call(run.decided)
        run_once = self.approval.threads.run_once
        return await run_once(
            run.turn, asked, ran, runs, result_to_text, with_notice=prepend_notice, is_only_call=is_only_call
        )

    async def _run(self, context: ToolContext[Any], asked: ToolCall, ran: ToolCall, given: str) -> Any:
        if ran == asked:
            return await self.tool.on_invoke_tool(context, given)
        tool = self.tool if ran.name == asked.name else _index_function_tools(context.agent).get(ran.name)
        if tool is None or is_agent(tool):
            return f"There is no tool {ran.name} that can run instead; nothing was run."
        edited = edit_context(context, ran)
        refused = None if tool is self.tool else await run_guardrails(tool, edited)
        return await tool.on_invoke_tool(edited, edited.tool_arguments) if refused is None else refused

    def as_decided(self, context: ToolContext[Any]) -> ToolContext[Any]:
        """Return the context with the decided call, for guardrails that run before the tool."""
        run, arguments = _current.get() or _RunContext(), parse_arguments(context.tool_arguments) or {}
        ran = run.to_run(ToolCall(id=context.tool_call_id, name=self.tool.name, arguments=arguments))
        edited = isinstance(ran, ToolCall) and ran.name == self.tool.name and ran.arguments != arguments
        return edit_context(context, ran) if edited and isinstance(ran, ToolCall) else context


class _GateHooks(RunHooks[Any]):
    """Sees each turn before its calls and each call before it runs; all else goes to the caller's hooks."""

    def __init__(self, approval: OpenAIAgentsApproval, own: Any) -> None:
        self._approval = approval
        self._own = own or RunHooks()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_") and name not in ("on_agent_start", "on_llm_end", "on_tool_start"):
            return getattr(object.__getattribute__(self, "_own"), name)
        return object.__getattribute__(self, name)

    async def on_agent_start(self, context: Any, agent: Agent[Any]) -> None:
        """Record an agent whose calls these hooks see."""
        (_current.get() or _RunContext()).outer.append(agent)
        await self._own.on_agent_start(context, agent)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Evaluate the whole turn: calls without review wait with those that need it."""
        run, turn, waits = _current.get() or _RunContext(), [], False
        run.turn_tools[:] = [
            item.name for item in response.output if isinstance(item, ResponseFunctionToolCall)
        ]
        stand_ins = {tool.name: tool.on_invoke_tool for tool in agent.tools if isinstance(tool, FunctionTool)}
        for item in response.output:
            if not isinstance(item, ResponseFunctionToolCall):
                continue
            stand_in, arguments = stand_ins.get(item.name), parse_arguments(item.arguments)
            if (
                isinstance(stand_in, _GatedTool)
                and stand_in.approval is self._approval
                and arguments is not None
            ):
                call = ToolCall(id=item.call_id, name=item.name, arguments=arguments)
                turn.append(call.id)
                waits |= await stand_in.evaluate_once(run, call, agent, context) is not None
        if waits:
            run.waits.update(turn)
        await self._own.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Any, tool: Tool) -> None:
        """Refuse a call that needs review if its tool was not passed through `gate_tools`."""
        if not self._approval.gates(tool):
            run = _current.get() or _RunContext()
            call_id = getattr(context, "tool_call_id", "")
            arguments = parse_arguments(getattr(context, "tool_arguments", None)) or {}
            call = ToolCall(id=call_id, name=tool.name, arguments=arguments)
            asked = isinstance(run.to_run(call), ToolCall)
            if not asked and await self._approval.evaluate(call, agent, context, tool) is not None:
                raise HookError(NOT_GATED.format(tool.name))
        inside = getattr(tool, "_agent_instance", None)
        if inside is not None:
            await self._approval.check_inner_agents(find_agents(inside), context)
        await self._own.on_tool_start(context, agent, tool)


class _InnerAgentFilter:
    """Checks the tools of each inner agent before its model is called.

    The SDK passes the settings of a run on to the agents inside it. They may have got tools, or handed over
    to agents, that were not known when the outer agent called them.
    """

    def __init__(self, approval: OpenAIAgentsApproval, run: _RunContext, own: Any) -> None:
        self._approval = approval
        self._run = run
        self._own = own

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        if not any(data.agent is agent for agent in self._run.outer):
            await self._approval.check_inner_agents([data.agent], RunContextWrapper(data.context))
        given = data.model_data if self._own is None else self._own(data)
        shown: ModelInputData = await given if isawaitable(given) else given
        return shown


class _TurnConcurrency(ToolExecutionConfig):
    """Makes the SDK run the calls of a turn one after another, unless all of them are of parallel tools.

    The SDK reads the limit before each turn. What an inner agent calls is not known here.
    """

    def __init__(self, parallel: Collection[str], limit: int | None, **options: Any) -> None:
        self._parallel = parallel
        self._limit = limit
        super().__init__(**options)

    def __getattribute__(self, name: str) -> Any:
        if name == "max_function_tool_concurrency":
            run = _current.get()
            known = run is not None and not _is_inside.get() and set(run.turn_tools) <= set(self._parallel)
            return self._limit if known else 1
        return super().__getattribute__(name)


def _build_execution_config(parallel: Collection[str], own: ToolExecutionConfig | None) -> _TurnConcurrency:
    """Return the SDK's settings for tools, with the caller's own."""
    if own is None:
        return _TurnConcurrency(parallel, None)
    guardrails = own.pre_approval_tool_input_guardrails
    return _TurnConcurrency(
        parallel, own.max_function_tool_concurrency, pre_approval_tool_input_guardrails=guardrails
    )


@contextmanager
def _run_context(run: _RunContext) -> Iterator[None]:
    """Set the run's context for the tools it calls; other runs of the same task do not see it."""
    before = _current.set(run)
    try:
        yield
    finally:
        _current.reset(before)


def _list_turn_tools(decided: InterruptionMetadata | None) -> list[str]:
    """Return the tools that a decided turn calls."""
    if decided is None:
        return []
    feedbacks = [feedback.name for feedback in decided.tool_feedbacks]
    return feedbacks + [call.name for call in decided.tools_automatically_approved]


def _collect_waiting_calls(
    state: RunState[Any], run: _RunContext
) -> tuple[list[ToolCall], dict[str, ReviewRequirement | None]]:
    """Return the waiting calls and how each was evaluated; unreadable calls are rejected at once."""
    calls: list[ToolCall] = []
    requirements: dict[str, ReviewRequirement | None] = {}
    for item in state.get_interruptions():
        call = read_waiting_call(item)
        if call is None:
            state.reject(item, rejection_message=UNREADABLE_ARGUMENTS)
            continue
        requirement = run.evaluated.get(build_call_key(call), SDK_REQUIREMENT)
        # Inner agents may reuse ids: only one such call can be decided at a time.
        if call.id not in requirements:
            calls.append(call)
            requirements[call.id] = requirement
        elif SDK_REQUIREMENT in (requirement, requirements[call.id]):
            raise HookError(f"Two calls have the id {call.id}, and the SDK would apply one decision to both.")
    return calls, requirements


def _approve_waiting_calls(state: RunState[Any], run: _RunContext) -> RunState[Any]:
    """Approve these calls, which need no review after all."""
    passed: set[str] = set()
    for item in state.get_interruptions():
        call = read_waiting_call(item)
        if call is not None and call.id not in passed:
            passed.add(call.id)
            run.evaluated[build_call_key(call)] = None
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
    """Return the schemas of the tools of the current agent and of waiting inner agents.

    An agent as a tool is included only for its own calls: no call can be edited into one.
    """
    agents = [item.agent for item in result.interruptions]  # type: ignore[attr-defined]
    waiting = {call.name for call in calls}
    return {
        name: tool.params_json_schema
        for agent in {id(each): each for each in (*agents, result.last_agent)}.values()
        for name, tool in _index_function_tools(agent).items()
        if name in waiting or not is_agent(tool)
    }
