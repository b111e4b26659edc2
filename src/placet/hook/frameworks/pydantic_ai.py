"""Approval for Pydantic AI: a capability whose toolset defers the calls, and runs that outlive the process.

The framework keeps its own loop, messages and validation. Who may run is decided by the gate alone: that the
framework calls a tool call approved runs nothing here.
"""

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable
from typing import Any, TypeVar

from pydantic_ai import (
    Agent,
    AgentRunResult,
    AgentRunResultEvent,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
    ToolReturn,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import to_json, to_jsonable_python

from placet.errors import HookError
from placet.hook.calls import ToolCall
from placet.hook.feedback import FeedbackResult
from placet.hook.frameworks.pydantic_ai_wire import (
    as_given,
    call_of,
    conversation_in,
    open_calls,
    paused,
    result_in,
    results_of,
    text_of,
    told_apart,
    with_deferred,
    with_notice,
)
from placet.hook.frameworks.runs import Runs, Taking
from placet.hook.frameworks.steps import Came, Flow
from placet.hook.frameworks.threads import (
    RUNS,
    Ended,
    Held,
    is_alone,
    plain_gate,
    read_gate,
    refused,
    to_run,
)
from placet.hook.interruption import InterruptionMetadata
from placet.hook.policy import Gate, Hook
from placet.hook.savers.saver import Saver

DepsT = TypeVar("DepsT")
AnyAgent = Agent[Any, Any]
Schemas = dict[str, Mapping[str, Any] | None]
Outcome = AgentRunResult[Any] | InterruptionMetadata
"""What a run comes to: its result, or the calls that wait for a person."""
NAMELESS = {"infer_name": False}
"""No variable of ours names an agent: the framework need not look for one."""
INSIDE = "No call from inside another one can wait, nor one behind a capability that renames it."
MARK = "placet"
"""Our member in the metadata of deferred calls: the judgement on the way out, the turn on the way back."""


class Approval(AbstractCapability[Any], Runs[AnyAgent, Outcome]):
    """Among an agent's `capabilities`, it stops the agent's tool calls until a person has decided them."""

    def __init__(self, *hooks: Hook, saver: Saver, **named: Any) -> None:
        Runs.__init__(self, *hooks, saver=saver, **named)
        self.schemas: dict[str, Schemas] = {}
        """By the thread that runs; agents may have different tools of the same name."""
        self.decided: dict[str, InterruptionMetadata] = {}
        self.passed = object()
        """Marks calls that nobody needs to see after all; nothing that comes from outside equals it."""

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Every tool of the agent, behind the gate."""
        return ApprovalToolset(toolset, approval=self)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: Any, response: ModelResponse
    ) -> ModelResponse:
        """Every call of a thread has an id of its own."""
        return told_apart(response, ctx.messages)

    def messages(self, thread_id: str) -> list[ModelMessage]:
        """The thread's messages, up to where it waits or ended."""
        state = self.threads.state(thread_id)
        return [] if state is None else conversation_in(state).messages

    def _flow(self, agent: AnyAgent, taking: Taking, prompt: str | None) -> Flow[Outcome]:
        held: Held | Ended | InterruptionMetadata = yield from self._taken(taking)
        if isinstance(held, Ended):
            return result_in(agent.output_type, held.state)
        if not isinstance(held, Held):
            return held
        thread_id = held.checkpoint.thread_id
        if held.interruption is not None:
            self.decided[held.turn] = held.interruption
        schemas = self.schemas[thread_id] = {}
        try:
            step = self._first_step(agent, held, prompt)
            while True:
                with self.threads.holding(held):
                    result: AgentRunResult[Any] = yield step
                requests = result.output
                if not isinstance(requests, DeferredToolRequests) or not requests.approvals:
                    ended = results_of(Any).dump_json(result).decode()
                    yield partial(self.threads.finish, held, ended)
                    return result
                gates = {call.tool_call_id: self._gate(requests, call) for call in requests.approvals}
                calls = [call_of(call) for call in requests.approvals]
                pausing = partial(self.threads.pause, held, paused(result), calls, gates, dict(schemas))
                interruption: InterruptionMetadata | None = yield pausing
                if interruption is not None:
                    return interruption
                passed = {call.id: {MARK: self.passed} for call in calls}
                step = {
                    "output_type": step["output_type"],
                    "conversation": result.conversation,
                    "deferred_tool_results": requests.build_results(approve_all=True, metadata=passed),
                }
        except BaseException:
            yield partial(self.threads.let_go, held)
            raise
        finally:
            self.decided.pop(held.turn, None)
            self.schemas.pop(thread_id, None)

    def _gate(self, requests: DeferredToolRequests, part: ToolCallPart) -> Gate | None:
        """How the call was judged; a tool that asks for approval by itself gets it too."""
        said = requests.metadata.get(part.tool_call_id, {})
        if MARK not in said:
            return self.threads.always(part.tool_name) or read_gate({})
        return None if said[MARK] is None else read_gate(said[MARK])

    def _check(self, agent: AnyAgent, options: dict[str, Any]) -> None:
        taking_part: list[Any] = list(options.get("capabilities") or ())
        agent.root_capability.apply(taking_part.append)
        if not any(capability is self for capability in taking_part):
            raise HookError("This agent would run its calls unasked: make it with capabilities=[approval].")
        if getattr(agent, "_output_validators", None) and with_deferred(agent.output_type) is not None:
            raise HookError("An agent with output validators needs DeferredToolRequests in its output_type.")

    def _run(self, agent: AnyAgent, options: dict[str, Any], step: dict[str, Any]) -> Awaitable[Any]:
        return agent.run(**_given(step, options))

    async def _events(
        self, agent: AnyAgent, options: dict[str, Any], step: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        async with agent.run_stream_events(**_given(step, options)) as events:
            async for event in events:
                yield Came(event.result) if isinstance(event, AgentRunResultEvent) else event

    def _first_step(self, agent: AnyAgent, held: Held, prompt: str | None) -> dict[str, Any]:
        step: dict[str, Any] = {"user_prompt": prompt, "output_type": with_deferred(agent.output_type)}
        if held.state is None:
            return {**step, "conversation_id": held.checkpoint.thread_id}
        step["conversation"] = conversation_in(held.state)
        if held.interruption is not None:
            step["user_prompt"] = "\n\n".join(held.messages) or None
            step["deferred_tool_results"] = build_results(held.interruption, held.turn)
        return step


def build_results(decided: InterruptionMetadata, turn: str) -> DeferredToolResults:
    """What a person decided, in the framework's own terms; `turn` is where the gate keeps it."""
    results = DeferredToolResults()
    for feedback in decided.tool_feedbacks:
        results.metadata[feedback.id] = {MARK: turn}
        if feedback.result is FeedbackResult.RESPONDED:
            results.calls[feedback.id] = ToolReturn(feedback.answer or "")
        elif feedback.result in RUNS:
            results.approvals[feedback.id] = ToolApproved()
        else:
            results.approvals[feedback.id] = ToolDenied(refused(feedback) or "")
    for call in decided.tools_automatically_approved:
        results.metadata[call.id] = {MARK: turn}
        results.approvals[call.id] = ToolApproved()
    return results


@dataclass
class ApprovalToolset(WrapperToolset[DepsT]):
    """Tools whose calls wait for a person, as the hooks of `approval` say; a whole turn waits together."""

    approval: Approval = field(kw_only=True)
    judged: dict[str, Gate | None] = field(default_factory=dict, kw_only=True)
    schemas: Schemas = field(default_factory=dict, kw_only=True)

    async def for_run(self, ctx: RunContext[DepsT]) -> AbstractToolset[DepsT]:
        """A run remembers its own judgements, so that every call is judged once."""
        schemas = self.approval.schemas.get(ctx.conversation_id or "", {})
        return replace(self, wrapped=await self.wrapped.for_run(ctx), judged={}, schemas=schemas)

    async def get_tools(self, ctx: RunContext[DepsT]) -> dict[str, ToolsetTool[DepsT]]:
        """The tools; those whose calls all wait are not even tried before."""
        tools = await self.wrapped.get_tools(ctx)
        self.schemas.update((name, tool.tool_def.parameters_json_schema) for name, tool in tools.items())
        return {name: self._deferred(tool) for name, tool in tools.items()}

    def _deferred(self, tool: ToolsetTool[DepsT]) -> ToolsetTool[DepsT]:
        definition = tool.tool_def
        if definition.kind != "function" or self.approval.threads.always(definition.name) is None:
            return tool
        waits = copy(tool)
        waits.tool_def = copy(definition)
        waits.tool_def.kind = "unapproved"
        return waits

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[DepsT], tool: ToolsetTool[DepsT]
    ) -> Any:
        """Run the call, put it before a person, or do what the person decided."""
        response, calls = open_calls(ctx.messages)
        part = next((part for part in calls if part.tool_call_id == ctx.tool_call_id), None)
        if part is None or part.tool_name != name:
            self._refuse_inside(name, tool_args, ctx)
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        marked = ctx.tool_call_metadata if ctx.tool_call_approved else None
        mark = marked.get(MARK) if isinstance(marked, Mapping) else None
        if isinstance(mark, str):
            return await self._decided(mark, call_of(part), ctx, tool)
        if mark is self.approval.passed:
            return await self._call(call_of(part), ctx, tool, edited=False)
        gates = self._judge(response, calls, ctx)
        if any(gates.values()) or await self._waits(ctx):
            raise ApprovalRequired({MARK: plain_gate(gates.get(ctx.tool_call_id or ""))})
        if (gate := self._judge_given(part, tool_args, ctx)) is not None:
            # A person is needed after all: the call runs as it is shown to them.
            raise ApprovalRequired({MARK: plain_gate(gate)})
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)

    def _judge_given(
        self, part: ToolCallPart, tool_args: dict[str, Any], ctx: RunContext[DepsT]
    ) -> Gate | None:
        """How a call is judged once more, if its tool is given something else than the model sent."""
        threads, name = self.approval.threads, part.tool_name
        given = None if threads.never(name) else as_given(part, tool_args, self.schemas.get(name))
        if given is None or given == call_of(part):
            return None
        return threads.judge(given, {"messages": ctx.messages, "deps": ctx.deps})

    def _refuse_inside(self, name: str, tool_args: dict[str, Any], ctx: RunContext[DepsT]) -> None:
        """What the model did not call by this name cannot wait: people would be asked about another call."""
        call = ToolCall(
            id=ctx.tool_call_id or "", name=name, arguments=to_jsonable_python(tool_args, fallback=str)
        )
        if self.approval.threads.judge(call, {"messages": ctx.messages, "deps": ctx.deps}) is not None:
            raise HookError(
                f"{name} waits for a person, but the model did not call it by this name. {INSIDE}"
            )

    def _judge(
        self, response: str, calls: Sequence[ToolCallPart], ctx: RunContext[DepsT]
    ) -> dict[str, Gate | None]:
        """How the calls of this turn are judged that have no result yet."""
        state = {"messages": ctx.messages, "deps": ctx.deps}
        gates: dict[str, Gate | None] = {}
        for part in calls:
            key = f"{response}/{part.tool_call_id}"
            if part.tool_name in self.schemas and key not in self.judged:
                schema = self.schemas[part.tool_name]
                self.judged[key] = self.approval.threads.judge(call_of(part), state, schema)
            gates[part.tool_call_id] = self.judged.get(key)
        return gates

    async def _waits(self, ctx: RunContext[DepsT]) -> bool:
        """Whether the call was stopped before: a turn of an earlier run is not judged anew."""
        response = next((found for found in reversed(ctx.messages) if isinstance(found, ModelResponse)), None)
        if response is None or response.run_id == ctx.run_id or ctx.conversation_id is None:
            return False
        threads = self.approval.threads
        waiting = await threads.gate.aside(threads.waiting, ctx.conversation_id)
        return waiting is not None and any(call.id == ctx.tool_call_id for call in waiting.tool_feedbacks)

    async def _decided(
        self, turn: str, asked: ToolCall, ctx: RunContext[DepsT], tool: ToolsetTool[DepsT]
    ) -> Any:
        threads = self.approval.threads
        standing = self.approval.decided.get(turn) or await threads.gate.aside(threads.gate.waiting, turn)
        if standing is None or (ran := to_run(standing, asked.id)) is None:
            raise ApprovalRequired({MARK: {}})
        if isinstance(ran, str):
            return ran
        run = partial(self._call, ran, ctx, tool, edited=asked != ran)
        alone = is_alone(standing)
        return await threads.once(turn, asked, ran, run, text_of, with_notice=with_notice, alone=alone)

    async def _call(
        self, ran: ToolCall, ctx: RunContext[DepsT], tool: ToolsetTool[DepsT], *, edited: bool
    ) -> Any:
        if ran.name != ctx.tool_name:
            tools = await self.wrapped.get_tools(ctx)
            if ran.name not in tools:
                return f"There is no tool {ran.name} any more; nothing was run."
            tool, ctx = tools[ran.name], replace(ctx, tool_name=ran.name)
        arguments = tool.args_validator.validate_json(to_json(ran.arguments), context=ctx.validation_context)
        if edited and tool.args_validator_func is not None:  # else the framework has asked it
            checked = tool.args_validator_func(ctx, **arguments)
            if isawaitable(checked):
                await checked
        try:
            return await self.wrapped.call_tool(ran.name, arguments, ctx, tool)
        except ApprovalRequired:
            raise HookError(
                f"{ran.name} was approved, but what it calls waits for a person. {INSIDE}"
            ) from None


def _given(step: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """What the framework is to run with: the thread's own state goes before what the caller hands over."""
    given = {**NAMELESS, **options, **step}
    if options.get("output_type") is not None:
        given["output_type"] = with_deferred(options["output_type"]) or options["output_type"]
    history = given.pop("message_history", None) if "conversation" in step else None
    results: DeferredToolResults | None = step.get("deferred_tool_results")
    if history and results is None:
        raise HookError("This thread knows what was said in it; message_history can only begin one.")
    theirs = options.pop("deferred_tool_results", None)  # of one turn: a later step of this run has others
    if results is not None and theirs is not None:
        results.calls = {**theirs.calls, **results.calls}
    return given
