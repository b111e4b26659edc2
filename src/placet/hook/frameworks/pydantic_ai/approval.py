"""Approval for Pydantic AI: a capability whose toolset defers calls, and runs that outlive the process.

The framework keeps its own loop, messages and validation. Only the gate decides what may run: a call that
the framework considers approved does not run because of that.
"""

from asyncio import Lock
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, overload

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
from pydantic_ai.messages import AgentStreamEvent, ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import to_json, to_jsonable_python
from typing_extensions import TypeVar

from placet.errors import HookError
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook, ReviewRequirement, check_rules
from placet.hook.feedback import FeedbackResult
from placet.hook.frameworks.approval_runs import ApprovalRuns, RunsOptions, ThreadClaim
from placet.hook.frameworks.pydantic_ai.conversion import (
    add_deferred_type,
    build_result_adapter,
    call_from_given,
    decode_conversation,
    decode_result,
    encode_paused_run,
    encode_reviewed_arguments,
    find_open_calls,
    make_call_ids_unique,
    prepend_notice,
    result_to_text,
    sort_by_call,
    to_tool_call,
)
from placet.hook.frameworks.pydantic_ai.run_options import (
    DepsT,
    RunOptions,
    RunOutputT,
    TypedRunOptions,
)
from placet.hook.frameworks.run_steps import RunSteps, StreamResult
from placet.hook.frameworks.thread_store import (
    RUNNING_DECISIONS,
    ClaimedThread,
    FinishedThread,
    has_single_call,
    requirement_from_dict,
    requirement_to_dict,
    resolve_call,
)
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import get_refusal
from placet.hook.savers.saver import Saver
from placet.hook.tool_call import ToolCall

OutputT = TypeVar("OutputT", default=Any)
AnyAgent = Agent[Any, Any]
SchemasByTool = dict[str, Mapping[str, Any] | None]
PydanticOutcome: TypeAlias = AgentRunResult[OutputT] | InterruptionMetadata
"""The outcome of a run: its result, or the calls that wait for a reviewer."""
PydanticStream: TypeAlias = AsyncGenerator[
    AgentStreamEvent | AgentRunResult[OutputT] | InterruptionMetadata, None
]
"""The framework's events, and last the outcome."""
NO_NAME_INFERENCE = {"infer_name": False}
"""The framework need not search our variables for the agent's name."""
NESTED_CALLS_CANNOT_WAIT = "A nested call cannot wait, nor a call that a capability renames."
METADATA_KEY = "placet"
"""Our key in the metadata of deferred calls: the requirement when deferred, the turn when resumed."""


class PydanticAIApproval(AbstractCapability[Any], ApprovalRuns[AnyAgent, PydanticOutcome[Any]]):
    """As one of an agent's `capabilities`, it stops tool calls until a reviewer has decided them."""

    def __init__(self, *hooks: Hook, saver: Saver, **options: Unpack[RunsOptions]) -> None:
        ApprovalRuns.__init__(self, *hooks, saver=saver, **options)
        self.schemas: dict[str, SchemasByTool] = {}
        """By running thread, because agents may have different tools of the same name."""
        self.decided: dict[str, InterruptionMetadata] = {}
        self.passed = object()
        """Marks calls that need no review after all; nothing from outside can equal this object."""

    if TYPE_CHECKING:  # the framework's types instead of any option; ApprovalRuns implements the methods

        @overload  # type: ignore[override]
        def run(
            self,
            agent: Agent[DepsT, OutputT],
            prompt: str,
            *,
            thread_id: str,
            **options: Unpack[RunOptions[DepsT]],
        ) -> Coroutine[Any, Any, PydanticOutcome[OutputT]]: ...
        @overload
        def run(
            self,
            agent: Agent[DepsT, Any],
            prompt: str,
            *,
            thread_id: str,
            **options: Unpack[TypedRunOptions[DepsT, RunOutputT]],
        ) -> Coroutine[Any, Any, PydanticOutcome[RunOutputT]]: ...
        def run(self, *given: Any, **options: Any) -> Any: ...

        @overload  # type: ignore[override]
        def resume(
            self,
            agent: Agent[DepsT, OutputT],
            thread_id: str,
            feedback: Feedback | None = None,
            **options: Unpack[RunOptions[DepsT]],
        ) -> Coroutine[Any, Any, PydanticOutcome[OutputT]]: ...
        @overload
        def resume(
            self,
            agent: Agent[DepsT, Any],
            thread_id: str,
            feedback: Feedback | None = None,
            **options: Unpack[TypedRunOptions[DepsT, RunOutputT]],
        ) -> Coroutine[Any, Any, PydanticOutcome[RunOutputT]]: ...
        def resume(self, *given: Any, **options: Any) -> Any: ...

        @overload  # type: ignore[override]
        def run_sync(
            self,
            agent: Agent[DepsT, OutputT],
            prompt: str,
            *,
            thread_id: str,
            **options: Unpack[RunOptions[DepsT]],
        ) -> PydanticOutcome[OutputT]: ...
        @overload
        def run_sync(
            self,
            agent: Agent[DepsT, Any],
            prompt: str,
            *,
            thread_id: str,
            **options: Unpack[TypedRunOptions[DepsT, RunOutputT]],
        ) -> PydanticOutcome[RunOutputT]: ...
        def run_sync(self, *given: Any, **options: Any) -> Any: ...

        @overload  # type: ignore[override]
        def resume_sync(
            self,
            agent: Agent[DepsT, OutputT],
            thread_id: str,
            feedback: Feedback | None = None,
            **options: Unpack[RunOptions[DepsT]],
        ) -> PydanticOutcome[OutputT]: ...
        @overload
        def resume_sync(
            self,
            agent: Agent[DepsT, Any],
            thread_id: str,
            feedback: Feedback | None = None,
            **options: Unpack[TypedRunOptions[DepsT, RunOutputT]],
        ) -> PydanticOutcome[RunOutputT]: ...
        def resume_sync(self, *given: Any, **options: Any) -> Any: ...

        @overload  # type: ignore[override]
        def stream(
            self,
            agent: Agent[DepsT, OutputT],
            prompt: str,
            *,
            thread_id: str,
            **options: Unpack[RunOptions[DepsT]],
        ) -> PydanticStream[OutputT]: ...
        @overload
        def stream(
            self,
            agent: Agent[DepsT, Any],
            prompt: str,
            *,
            thread_id: str,
            **options: Unpack[TypedRunOptions[DepsT, RunOutputT]],
        ) -> PydanticStream[RunOutputT]: ...
        def stream(self, *given: Any, **options: Any) -> Any: ...

        @overload  # type: ignore[override]
        def resume_stream(
            self,
            agent: Agent[DepsT, OutputT],
            thread_id: str,
            feedback: Feedback | None = None,
            **options: Unpack[RunOptions[DepsT]],
        ) -> PydanticStream[OutputT]: ...
        @overload
        def resume_stream(
            self,
            agent: Agent[DepsT, Any],
            thread_id: str,
            feedback: Feedback | None = None,
            **options: Unpack[TypedRunOptions[DepsT, RunOutputT]],
        ) -> PydanticStream[RunOutputT]: ...
        def resume_stream(self, *given: Any, **options: Any) -> Any: ...

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Return the agent's tools, gated."""
        return ApprovalToolset(toolset, approval=self)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Refuse tools that the model's provider would run without review."""
        native = [tool.unique_id for tool in request_context.model_request_parameters.native_tools]
        await self.threads.check_provider_tools(native, {"messages": ctx.messages, "deps": ctx.deps})
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: Any, response: ModelResponse
    ) -> ModelResponse:
        """Give every call of a thread a unique id, and the arguments with which it is stored."""
        return encode_reviewed_arguments(make_call_ids_unique(response, ctx.messages), self._may_wait)

    def _may_wait(self, tool: str) -> bool:
        return not self.threads.never_stops(tool)

    def messages(self, thread_id: str) -> list[ModelMessage]:
        """Return the thread's messages so far."""
        state = self.threads.state(thread_id)
        return [] if state is None else decode_conversation(state).messages

    def _build_steps(
        self, agent: AnyAgent, claim: ThreadClaim, prompt: str | None
    ) -> RunSteps[PydanticOutcome[Any]]:
        held: ClaimedThread | FinishedThread | InterruptionMetadata = yield from self._claim_thread(claim)
        if isinstance(held, FinishedThread):
            return held.deliver(decode_result(agent.output_type, held.state))
        if not isinstance(held, ClaimedThread):
            return held
        thread_id = held.checkpoint.thread_id
        if held.interruption is not None:
            self.decided[held.turn] = held.interruption
        schemas = self.schemas[thread_id] = {}
        try:
            step = self._first_step(agent, held, prompt)
            while True:
                with self.threads.renewing(held):
                    result: AgentRunResult[Any] = yield step
                requests = result.output
                if not isinstance(requests, DeferredToolRequests) or not requests.approvals:
                    ended = build_result_adapter(Any).dump_json(result).decode()
                    yield partial(self.threads.finish, held, ended)
                    return result
                waiting = sort_by_call(requests.approvals, result.all_messages())
                requirements = {call.tool_call_id: self._gate(requests, call) for call in waiting}
                calls = [to_tool_call(call) for call in waiting]
                pausing = partial(
                    self.threads.pause, held, encode_paused_run(result), calls, requirements, dict(schemas)
                )
                interruption: InterruptionMetadata | None = yield pausing
                if interruption is not None:
                    return interruption
                passed = {call.id: {METADATA_KEY: self.passed} for call in calls}
                step = {
                    "output_type": step["output_type"],
                    "conversation": result.conversation,
                    "deferred_tool_results": requests.build_results(approve_all=True, metadata=passed),
                }
        except BaseException:
            yield partial(self.threads.release_thread, held)
            raise
        finally:
            self.decided.pop(held.turn, None)
            self.schemas.pop(thread_id, None)

    def _gate(self, requests: DeferredToolRequests, part: ToolCallPart) -> ReviewRequirement | None:
        """Return how the call was evaluated; a tool that requests approval itself always needs it."""
        said = requests.metadata.get(part.tool_call_id, {})
        if METADATA_KEY not in said:
            return self.threads.requirement_for_all(part.tool_name) or requirement_from_dict({})
        return None if said[METADATA_KEY] is None else requirement_from_dict(said[METADATA_KEY])

    def _check(self, agent: AnyAgent, options: dict[str, Any]) -> None:
        taking_part: list[Any] = list(options.get("capabilities") or ())
        agent.root_capability.apply(taking_part.append)
        if not any(capability is self for capability in taking_part):
            raise HookError(
                "This agent would run its calls without review: create it with capabilities=[approval]."
            )
        if getattr(agent, "_output_validators", None) and add_deferred_type(agent.output_type) is not None:
            raise HookError("An agent with output validators needs DeferredToolRequests in its output_type.")

    def _run(self, agent: AnyAgent, options: dict[str, Any], step: dict[str, Any]) -> Awaitable[Any]:
        return agent.run(**_merge_options(step, options))

    async def _run_events(
        self, agent: AnyAgent, options: dict[str, Any], step: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        async with agent.run_stream_events(**_merge_options(step, options)) as events:
            async for event in events:
                yield StreamResult(event.result) if isinstance(event, AgentRunResultEvent) else event

    def _first_step(self, agent: AnyAgent, held: ClaimedThread, prompt: str | None) -> dict[str, Any]:
        step: dict[str, Any] = {"user_prompt": prompt, "output_type": add_deferred_type(agent.output_type)}
        if held.state is None:
            return {**step, "conversation_id": held.checkpoint.thread_id}
        step["conversation"] = decode_conversation(held.state)
        if held.interruption is not None:
            step["user_prompt"] = "\n\n".join(held.messages) or None
            step["deferred_tool_results"] = build_results(held.interruption, held.turn)
        return step


def build_results(decided: InterruptionMetadata, turn: str) -> DeferredToolResults:
    """Return the decisions in the framework's form; `turn` is the gate's key."""
    results = DeferredToolResults()
    for feedback in decided.tool_feedbacks:
        results.metadata[feedback.id] = {METADATA_KEY: turn}
        if feedback.result is FeedbackResult.RESPONDED:
            results.calls[feedback.id] = ToolReturn(feedback.answer or "")
        elif feedback.result in RUNNING_DECISIONS:
            results.approvals[feedback.id] = ToolApproved()
        else:
            results.approvals[feedback.id] = ToolDenied(get_refusal(feedback) or "")
    for call in decided.tools_automatically_approved:
        results.metadata[call.id] = {METADATA_KEY: turn}
        results.approvals[call.id] = ToolApproved()
    return results


@dataclass
class ApprovalToolset(WrapperToolset[DepsT]):
    """Tools whose calls wait for a reviewer, as the hooks of `approval` decide.

    A whole turn waits together.
    """

    approval: PydanticAIApproval = field(kw_only=True)
    evaluated: dict[str, ReviewRequirement | None] = field(default_factory=dict, kw_only=True)
    evaluating: Lock = field(default_factory=Lock, kw_only=True)
    schemas: SchemasByTool = field(default_factory=dict, kw_only=True)

    async def for_run(self, ctx: RunContext[DepsT]) -> AbstractToolset[DepsT]:
        """Return a toolset with its own evaluations, so that every call of the run is evaluated once."""
        schemas = self.approval.schemas.get(ctx.conversation_id or "", {})
        wrapped = await self.wrapped.for_run(ctx)
        return replace(self, wrapped=wrapped, evaluated={}, evaluating=Lock(), schemas=schemas)

    async def get_tools(self, ctx: RunContext[DepsT]) -> dict[str, ToolsetTool[DepsT]]:
        """Return the tools; those whose calls all need review are marked as unapproved."""
        tools = await self.wrapped.get_tools(ctx)
        if not self.schemas:  # the first step of the run
            check_rules(self.approval.threads.hooks, tools)
        self.schemas.update((name, tool.tool_def.parameters_json_schema) for name, tool in tools.items())
        return {name: self._prepare_tool(tool) for name, tool in tools.items()}

    def _prepare_tool(self, tool: ToolsetTool[DepsT]) -> ToolsetTool[DepsT]:
        """Return the tool, deferred if all its calls are gated, and run alone if it is not parallel."""
        definition, name = tool.tool_def, tool.tool_def.name
        changes: dict[str, Any] = {}
        if definition.kind == "function" and self.approval.threads.requirement_for_all(name) is not None:
            changes["kind"] = "unapproved"
        if not definition.sequential and name not in self.approval.parallel:
            changes["sequential"] = True
        if not changes:
            return tool
        waits = copy(tool)
        waits.tool_def = replace(definition, **changes)
        return waits

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[DepsT], tool: ToolsetTool[DepsT]
    ) -> Any:
        """Run the call, defer it for review, or follow the decision."""
        response, calls = find_open_calls(ctx.messages)
        part = next((part for part in calls if part.tool_call_id == ctx.tool_call_id), None)
        if part is None or part.tool_name != name:
            await self._refuse_nested(name, tool_args, ctx)
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        marked = ctx.tool_call_metadata if ctx.tool_call_approved else None
        mark = marked.get(METADATA_KEY) if isinstance(marked, Mapping) else None
        if isinstance(mark, str):
            return await self._run_decided(mark, to_tool_call(part), ctx, tool)
        if mark is self.approval.passed:
            return await self._call(to_tool_call(part), ctx, tool, edited=False)
        requirements = await self._evaluate_turn(response, calls, ctx)
        if any(requirements.values()) or await self._was_stopped(ctx):
            raise ApprovalRequired(
                {METADATA_KEY: requirement_to_dict(requirements.get(ctx.tool_call_id or ""))}
            )
        if (requirement := await self._evaluate_given(part, tool_args, ctx)) is not None:
            # A review is needed after all: the call runs as it is shown to the reviewer.
            raise ApprovalRequired({METADATA_KEY: requirement_to_dict(requirement)})
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)

    async def _evaluate_given(
        self, part: ToolCallPart, tool_args: dict[str, Any], ctx: RunContext[DepsT]
    ) -> ReviewRequirement | None:
        """Evaluate a call again if the tool would get other arguments than the model sent."""
        threads, name = self.approval.threads, part.tool_name
        given = (
            None if threads.never_stops(name) else call_from_given(part, tool_args, self.schemas.get(name))
        )
        if given is None or given == to_tool_call(part):
            return None
        return await threads.evaluate(given, {"messages": ctx.messages, "deps": ctx.deps})

    async def _refuse_nested(self, name: str, tool_args: dict[str, Any], ctx: RunContext[DepsT]) -> None:
        """Raise HookError for a gated call that the model did not make by this name: it cannot wait."""
        call = ToolCall(
            id=ctx.tool_call_id or "", name=name, arguments=to_jsonable_python(tool_args, fallback=str)
        )
        state = {"messages": ctx.messages, "deps": ctx.deps}
        if await self.approval.threads.evaluate(call, state) is not None:
            raise HookError(
                f"{name} waits for a person, but the model did not call it by this name."
                f" {NESTED_CALLS_CANNOT_WAIT}"
            )

    async def _evaluate_turn(
        self, response: str, calls: Sequence[ToolCallPart], ctx: RunContext[DepsT]
    ) -> dict[str, ReviewRequirement | None]:
        """Return the evaluations of this turn's calls without a result."""
        state = {"messages": ctx.messages, "deps": ctx.deps}
        requirements: dict[str, ReviewRequirement | None] = {}
        async with self.evaluating:  # the calls of a turn may start at the same time
            for part in calls:
                key = f"{response}/{part.tool_call_id}"
                if part.tool_name in self.schemas and key not in self.evaluated:
                    call, schema = to_tool_call(part), self.schemas[part.tool_name]
                    self.evaluated[key] = await self.approval.threads.evaluate(call, state, schema)
                requirements[part.tool_call_id] = self.evaluated.get(key)
        return requirements

    async def _was_stopped(self, ctx: RunContext[DepsT]) -> bool:
        """Return whether the call was stopped before: a turn of an earlier run is not evaluated again."""
        response = next((found for found in reversed(ctx.messages) if isinstance(found, ModelResponse)), None)
        if response is None or response.run_id == ctx.run_id or ctx.conversation_id is None:
            return False
        threads = self.approval.threads
        waiting = await threads.gate.run_blocking(partial(threads.waiting, ctx.conversation_id))
        return waiting is not None and any(call.id == ctx.tool_call_id for call in waiting.tool_feedbacks)

    async def _run_decided(
        self, turn: str, asked: ToolCall, ctx: RunContext[DepsT], tool: ToolsetTool[DepsT]
    ) -> Any:
        threads = self.approval.threads
        interruption = self.approval.decided.get(turn) or await threads.gate.run_blocking(
            partial(threads.gate.waiting, turn)
        )
        if interruption is None or (ran := resolve_call(interruption, asked.id)) is None:
            raise ApprovalRequired({METADATA_KEY: {}})
        if isinstance(ran, str):
            return ran
        run = partial(self._call, ran, ctx, tool, edited=asked != ran)
        is_only_call = has_single_call(interruption)
        return await threads.run_once(
            turn, asked, ran, run, result_to_text, with_notice=prepend_notice, is_only_call=is_only_call
        )

    async def _call(
        self, ran: ToolCall, ctx: RunContext[DepsT], tool: ToolsetTool[DepsT], *, edited: bool
    ) -> Any:
        if ran.name != ctx.tool_name:
            tools = await self.wrapped.get_tools(ctx)
            if ran.name not in tools:
                return f"There is no tool {ran.name} any more; nothing was run."
            tool, ctx = tools[ran.name], replace(ctx, tool_name=ran.name)
        arguments = tool.args_validator.validate_json(to_json(ran.arguments), context=ctx.validation_context)
        if edited and tool.args_validator_func is not None:  # otherwise the framework has called it
            checked = tool.args_validator_func(ctx, **arguments)
            if isawaitable(checked):
                await checked
        try:
            return await self.wrapped.call_tool(ran.name, arguments, ctx, tool)
        except ApprovalRequired:
            raise HookError(
                f"{ran.name} was approved, but what it calls waits for a person. {NESTED_CALLS_CANNOT_WAIT}"
            ) from None


def _merge_options(step: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the framework's arguments: the thread's state takes precedence over the caller's options."""
    given = {**NO_NAME_INFERENCE, **options, **step}
    if options.get("output_type") is not None:
        given["output_type"] = add_deferred_type(options["output_type"]) or options["output_type"]
    history = given.pop("message_history", None) if "conversation" in step else None
    results: DeferredToolResults | None = step.get("deferred_tool_results")
    if history and results is None:
        raise HookError("message_history: only allowed for a new thread; this thread has its own messages.")
    theirs = options.pop(
        "deferred_tool_results", None
    )  # belongs to one turn: a later step of this run has others
    if results is not None and theirs is not None:
        results.calls = {**theirs.calls, **results.calls}
    return given
