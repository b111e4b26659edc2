"""Approval middleware for LangChain's `create_agent`, and for LangGraph graphs made of such agents.

LangGraph keeps the graph's state, messages and checkpointer. Evaluations, decisions and results are stored in
a Saver of ours, because a LangGraph checkpointer cannot let exactly one of two writers win.
"""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, Unpack

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph._internal._typing import StateLike
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt, is_invalid_resume
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypeVar as TypeVarWithDefault

from placet.errors import HookError, NothingToResume, ThreadPaused
from placet.hook.approval_rules import Hook, HumanInTheLoopHook, check_rules, find_new_message_policy
from placet.hook.argument_checks import require_hooks, require_known_options, require_names
from placet.hook.call_evaluation import check_provider_tools, evaluate_call, evaluate_calls, run_evaluation
from placet.hook.checkpoint import Checkpoint
from placet.hook.feedback import ToolFeedback
from placet.hook.frameworks.langchain.answers import decode_answer
from placet.hook.frameworks.langchain.call_guard import GuardedRequest, guard_request
from placet.hook.frameworks.langchain.call_order import CallOrder, TurnName
from placet.hook.frameworks.langchain.hitl_request import ShownCalls, is_first_question
from placet.hook.frameworks.langchain.inner_agents import guarding_task
from placet.hook.frameworks.langchain.interrupts import build_interrupt, may_have_answer, take_answer
from placet.hook.frameworks.langchain.messages import (
    announce_edit,
    apply_changes,
    apply_decision,
    build_call_key,
    build_refusal,
    build_removals,
    build_tool_message,
    build_turn_key,
    current_run,
    decode_result,
    encode_result,
    find_early_results,
    find_feedback,
    find_open_calls,
    find_thread_id,
    find_turn,
    has_checkpointer,
    is_auto_approved,
    list_provider_tools,
    read_schema,
    snapshot_call,
    sort_by_call,
    split_at_turn,
    to_tool_call,
)
from placet.hook.frameworks.langchain.parallel_calls import MAX_PARALLEL_CALLS, ParallelCallStarts
from placet.hook.frameworks.langchain.resumption import (
    AgentGraph,
    RunConfig,
    aresume,
    interruption_of,
    resume,
)
from placet.hook.frameworks.thread_store import RUNNING_DECISIONS
from placet.hook.gate import Gate, GateOptions
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import CANCELLED_BY_MESSAGE, describe_failure
from placet.hook.savers.saver import Saver
from placet.hook.thread_resumption import AgentThreads
from placet.hook.tool_call import ToolCall, find_json_problem
from placet.hook.workers import Workers

ToolResult = ToolMessage | Command[Any]
DecidedTurn = InterruptionMetadata | tuple[ToolCall, ...]
"""A decided turn, or the calls of a turn that needed no review."""
RunContextT = TypeVarWithDefault("RunContextT", bound=StateLike | None, default=Any)
"""The type of an agent's context; type checkers need not know it."""
T = TypeVar("T")
InterruptMode = Literal["batched", "per_call"]
MAX_CACHED_TURNS = 100
NO_CHECKPOINTER = (
    "The agent has no checkpointer, so a call that waits could never continue."
    " Pass checkpointer=… to create_agent; InMemorySaver() keeps threads until the process ends."
)


class ApprovalMiddleware(AgentMiddleware[AgentState[Any], RunContextT, Any]):
    """Stops the calls that `hooks` gate until a reviewer has decided them; each call runs at most once.

    Put it first in `middleware`, and give the agent a checkpointer. The agent interrupts once per turn,
    with an interruption as a dict. Continue with `resume`, or with `Command(resume={"decisions": {id:
    "approve"}})`, or with the list of decisions that LangChain's interfaces send. An invalid answer raises
    pydantic's ValidationError, and nothing is stored. With `interrupt_mode="per_call"`, each call interrupts
    for itself, and the calls of a turn run as LangGraph starts them.
    With `reviews`, each turn opens a case under the name `agent`; with `grants`, pre-approved calls run
    without asking. `repeatable` names tools that may run again if their process died. The calls of a turn
    run one after another, unless their tools are named in `parallel`. `ApprovalMiddleware[Context](…)` tells
    type checkers the `context_schema` of the agent.
    """

    def __init__(
        self,
        *hooks: Hook,
        saver: Saver,
        parallel: Collection[str] = (),
        repeatable: Collection[str] = (),
        interrupt_mode: InterruptMode = "batched",
        **options: Unpack[GateOptions],
    ) -> None:
        require_hooks(hooks)
        if interrupt_mode not in ("batched", "per_call"):
            raise ValueError(f"interrupt_mode: must be 'batched' or 'per_call', got {interrupt_mode!r}.")
        require_known_options(options, GateOptions.__annotations__)
        self.gate = Gate(hooks, saver, **options)
        self._hooks = hooks
        self._decided_turns: dict[str, DecidedTurn] = {}  # decided turns cannot change, so they are cached
        self._waiting_turns: dict[str, None] = {}
        self._call_starts = ParallelCallStarts(self.gate)
        self._repeatable = frozenset(require_names("repeatable", repeatable))
        self._parallel = frozenset(require_names("parallel", parallel))
        self._order = CallOrder(self._parallel)
        self._waiters = Workers()
        self._on_new_message = find_new_message_policy(hooks)
        self._asks_per_call = interrupt_mode == "per_call"
        self._may_grow = options.get("grants") is not None
        self._tools: dict[str, BaseTool] = {}
        self._schemas: dict[str, Mapping[str, Any] | None] = {}
        self._are_rules_checked = False
        self._kept_ids: tuple[str | None, ...] = ()  # missing ids that calls of the model may keep

    def after_model(self, state: AgentState[Any], runtime: Runtime[RunContextT]) -> dict[str, Any] | None:
        """Wait for the turn's decisions; a turn of which no call may run is answered here."""
        turn = find_turn(state["messages"])
        given = [] if turn is None else find_open_calls(turn, state["messages"])
        told = [message for call in given if (message := self._refuse_unreadable(call, state)) is not None]
        refused = {message.tool_call_id for message in told}
        calls = [call for call in given if call["id"] not in refused]
        if not calls or self._asks_per_call:
            return {"messages": told} if told else None
        key = _turn_key(get_config(), turn)
        interruption = self._await_decisions(key, calls, state)
        if interruption is not None and not interruption.tools_automatically_approved:
            answers = [self._build_refusal(call, find_feedback(interruption, call)) for call in calls]
            if None not in answers:
                return {"messages": [*told, *answers]}
        self._order.expect((key, current_run()), calls, ())
        return {"messages": told} if told else None

    def _refuse_unreadable(self, call: Any, state: Any) -> ToolMessage | None:
        """Return what the model reads about a call that a hook may stop, but that cannot be shown."""
        trouble = find_json_problem(call["args"])
        if trouble is None or not any(_may_stop(hook, to_tool_call(call), state) for hook in self._hooks):
            return None
        return build_tool_message(call, f"Nothing was run: the arguments are not JSON ({trouble}).")

    async def aafter_model(
        self, state: AgentState[Any], runtime: Runtime[RunContextT]
    ) -> dict[str, Any] | None:
        """Async version of `after_model`."""
        return await self.gate.run_blocking(partial(self.after_model, state, runtime))

    def threads_of(self, agent: AgentGraph[Any, Any], **options: Any) -> AgentThreads:
        """Return the agent with its threads, for `resume_pending` and `resume_as_decided`."""

        def find_thread(checkpoint: Checkpoint) -> str | None:
            return None if checkpoint.interruption is None else find_thread_id(checkpoint.thread_id)

        async def continue_thread(thread_id: str) -> Any:
            result = await aresume(agent, thread_id, None, **options)
            return interruption_of(result) or result

        return self.gate.threads_of(
            lambda thread_id: interruption_of(result := resume(agent, thread_id, None, **options)) or result,
            aresume=continue_thread,
            find_thread=find_thread,
        )

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]
    ) -> ToolResult:
        """Run the call as decided, unless it ran before, when the calls before it have ended."""
        turn, call = self._find_ordered_turn(request), request.tool_call
        with self._order.running(turn, call["id"] or ""):
            self._order.wait(turn, call["id"] or "", call["name"])
            return self._run_call(request, handler)

    def _run_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]
    ) -> ToolResult:
        key, ready = self._begin(request)
        if not isinstance(ready, GuardedRequest):
            return ready
        if key is None:
            with guarding_task(request, self._hooks):
                return handler(ready)
        try:
            with self.gate.renewing_lease(key), guarding_task(request, self._hooks):
                result = handler(ready)
        except BaseException as error:
            self._record_failure(key, request, ready, error)
            raise
        return self._finish(key, request, ready, result)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Async version of `wrap_tool_call`."""
        turn, call = (
            await self.gate.run_blocking(partial(self._find_ordered_turn, request)),
            request.tool_call,
        )
        with self._order.running(turn, call["id"] or ""):
            if self._order.must_wait(turn, call["id"] or ""):
                await self._waiters.run(partial(self._order.wait, turn, call["id"] or "", call["name"]))
            return await self._arun_call(request, handler)

    async def _arun_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        undo = partial(self._undo_begin, request)
        begun = await self.gate.run_blocking(partial(self._begin, request), on_cancel=undo)
        key: str | None = begun[0]
        ready: GuardedRequest | ToolResult = begun[1]
        if not isinstance(ready, GuardedRequest):
            return ready
        if key is None:
            with guarding_task(request, self._hooks):
                return await handler(ready)
        try:
            with self.gate.renewing_lease(key), guarding_task(request, self._hooks):
                result = await handler(ready)
        except (Exception, CancelledError) as error:
            await self.gate.run_blocking(partial(self._record_failure, key, request, ready, error))
            raise
        return await self.gate.run_blocking(partial(self._finish, key, request, ready, result))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Record the tools, and handle a message that arrived while calls were waiting."""
        request, changes, repeated_turn = self._prepare_request(request)
        if repeated_turn is not None:
            return apply_changes(changes, repeated_turn)
        return apply_changes(changes, handler(request), request.state["messages"], kept=self._kept_ids)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> Any:
        """Async version of `wrap_model_call`."""
        request, changes, repeated_turn = await self.gate.run_blocking(
            partial(self._prepare_request, request)
        )
        if repeated_turn is not None:
            return apply_changes(changes, repeated_turn)
        reply = await handler(request)
        return apply_changes(changes, reply, request.state["messages"], kept=self._kept_ids)

    def _await_decisions(
        self, key: str, calls: Sequence[Any], state: Any, *, interrupts: bool = True
    ) -> InterruptionMetadata | None:
        """Return the decisions when they are complete, else interrupt the graph.

        None: no review is needed.
        """
        asked = tuple(map(snapshot_call, calls))
        take = partial(self._store_answer, key, asked)
        may, waits = may_have_answer(), key in self._waiting_turns
        interruption = (
            take_answer(take) if may and waits else None
        )  # an answer can only be for a turn that waits
        if interruption is None:
            interruption = self.gate.stop(key, asked, state=state, schemas=self._schemas, new=not may)
        if interruption is not None and interruption.undecided:
            _cache(self._waiting_turns, key, None)
            if may and not waits:
                interruption = take_answer(take) or interruption
            if interruption.undecided:
                raise self._build_interrupt(interruption) if interrupts else ThreadPaused
        _cache(self._decided_turns, key, asked if interruption is None else interruption)
        return interruption

    def _read_schema(self, tool: BaseTool) -> Mapping[str, Any] | None:
        return read_schema(tool)

    def _build_refusal(self, call: Mapping[str, Any], decided: ToolFeedback | None) -> ToolMessage | None:
        return build_refusal(call, decided)

    def _announce_edit(
        self, result: ToolResult, request: ToolCallRequest, ready: ToolCallRequest
    ) -> ToolResult:
        announced: ToolResult = announce_edit(
            result, to_tool_call(request.tool_call), to_tool_call(ready.tool_call)
        )
        return announced

    def _build_interrupt(self, interruption: InterruptionMetadata) -> GraphInterrupt:
        return build_interrupt(interruption, is_single=self._asks_per_call)

    def _find_shown(self, key: str, asked: Sequence[ToolCall]) -> ShownCalls:
        waiting = self.gate.waiting(key)
        if waiting is None:
            raise NothingToResume
        return ShownCalls(waiting, is_first_question(waiting, asked, may_grow=self._may_grow))

    def _store_answer(self, key: str, asked: Sequence[ToolCall], answer: Any) -> InterruptionMetadata:
        try:
            given = decode_answer(answer, partial(self._find_shown, key, asked))
            # LangGraph stores the answer too, and the start of a call syncs it to disk.
            return self.gate.answer(key, given, unsynced=True)
        except NothingToResume:  # the turn was deleted from the saver
            self._waiting_turns.pop(key, None)
            raise

    def _find_ordered_turn(self, request: ToolCallRequest) -> TurnName:
        """Return the name of the call's turn, which is registered if a run continues in its middle."""
        message = find_turn(request.state["messages"], request.tool_call["id"])
        name = (_turn_key(request.runtime.config, message), current_run())
        if message is not None and len(message.tool_calls) > 1 and not self._order.is_known(name):
            ended = self.gate.find_ended_calls(name[0])
            if ended is not None:
                self._order.expect(name, find_open_calls(message, request.state["messages"]), ended)
        return name

    def _begin(self, request: ToolCallRequest) -> tuple[str | None, GuardedRequest | ToolResult]:
        """Return the call as it is to run, or its result; with a key if its end must be recorded."""
        call = request.tool_call
        turn = find_turn(request.state["messages"], call["id"])
        key = _turn_key(request.runtime.config, turn)
        interruption = self._decided_turns.get(key) or self.gate.waiting(key)
        if isinstance(interruption, tuple) and to_tool_call(call) in interruption:
            return None, self._guard(request)
        decided = (
            find_feedback(interruption, call) if isinstance(interruption, InterruptionMetadata) else None
        )
        if decided is None and not is_auto_approved(interruption, call):
            # A call that after_model has not seen, such as one added by other middleware, stops here.
            key = build_call_key(key, call)
            interruption = self._await_decisions(key, [call], request.state)
            if interruption is None:
                return None, self._guard(request)
            decided = find_feedback(interruption, call)
        if decided is not None and decided.result is None:
            raise ThreadPaused
        ready = self._build_refusal(call, decided) or apply_decision(request, decided)
        if isinstance(ready, ToolMessage):
            return key, ready
        repeatable = ready.tool_call["name"] in self._repeatable
        together = partial(self._find_parallel_calls, request, turn, interruption)
        begun = self._call_starts.begin(
            key, call["id"] or "", repeatable=repeatable, owner=current_run(), together=together
        )
        if not begun.run:
            return key, decode_result(call, begun.result)
        return key, self._guard(ready, approved=decided is not None)

    def _guard(self, ready: ToolCallRequest, *, approved: bool = False) -> GuardedRequest:
        """Return the call guarded against changes by later middleware."""
        return guard_request(
            ready,
            lambda call: approved or self._needs_review(call, ready.state),
            lambda call: any(_may_stop(hook, call, ready.state) for hook in self._hooks),
        )

    def _needs_review(self, call: ToolCall, state: Any) -> bool:
        return bool(run_evaluation(evaluate_calls(self._hooks, [call], state, self._schemas)))

    def _find_parallel_calls(
        self, request: ToolCallRequest, turn: AIMessage | None, interruption: DecidedTurn | None
    ) -> Mapping[str, bool]:
        """Return the calls that start with this one, if LangGraph starts the whole turn at once."""
        if turn is None or not isinstance(interruption, InterruptionMetadata):
            return {}
        names = {
            each.id: each.name for each in interruption.tool_feedbacks if each.result in RUNNING_DECISIONS
        }
        names.update((each.id, each.name) for each in interruption.tools_automatically_approved)
        open_calls = self._find_parallel_group(request, find_open_calls(turn, request.state["messages"]))
        at_most = request.runtime.config.get("max_concurrency") or MAX_PARALLEL_CALLS
        calls = {each: names[each] in self._repeatable for each in open_calls if each in names}
        return calls if len(calls) <= at_most else {}

    def _find_parallel_group(self, request: ToolCallRequest, calls: Sequence[Any]) -> list[str]:
        """Return this call and those of parallel tools directly before and after it."""
        groups: list[list[str]] = [[]]
        for call in calls:
            if call["name"] in self._parallel:
                groups[-1].append(call["id"] or "")
            else:
                groups += [[call["id"] or ""], []]
        return next((group for group in groups if (request.tool_call["id"] or "") in group), [])

    def _finish(
        self, key: str, request: ToolCallRequest, ready: ToolCallRequest, result: ToolResult
    ) -> ToolResult:
        if ready.tool_call is not request.tool_call:
            result = self._announce_edit(result, request, ready)
        self._call_starts.finish(key, request.tool_call["id"] or "", encode_result(request.tool_call, result))
        return result

    def _record_failure(
        self, key: str, request: ToolCallRequest, ready: GuardedRequest, error: BaseException
    ) -> None:
        call_id = request.tool_call["id"] or ""
        self._call_starts.undo_pending(key, current_run())
        if not isinstance(error, Exception) or ready.guard.detected_late:
            self.gate.mark_interrupted(key, call_id, repeatable=ready.tool_call["name"] in self._repeatable)
        elif isinstance(error, GraphBubbleUp | HookError) or is_invalid_resume(error):
            # The tool did not fail: an inner agent waits, or got an invalid answer.
            self.gate.undo_begin(key, call_id)
        else:
            self.gate.finish(key, call_id, describe_failure(error))

    def _undo_begin(
        self, request: ToolCallRequest, begun: tuple[str | None, GuardedRequest | ToolResult]
    ) -> None:
        """Undo the start of a call whose run was cancelled while the start was written."""
        key, ready = begun
        if key is not None and isinstance(ready, GuardedRequest):
            self._call_starts.undo_pending(key, current_run())
            self.gate.undo_begin(key, request.tool_call["id"] or "")

    def _prepare_request(
        self, request: ModelRequest[Any]
    ) -> tuple[ModelRequest[Any], list[BaseMessage], ModelResponse[Any] | None]:
        """Return the request for the model, the changes to the thread, and a turn that still waits.

        That turn is returned instead of a new reply, and so continues.
        """
        if not has_checkpointer(get_config()):
            raise HookError(NO_CHECKPOINTER)
        self._record_tools(request.tools, request.state)
        turn, answers, later = split_at_turn(request.messages)
        if turn is None or not later:
            return request, [], None
        turn_key, since = _turn_key(get_config(), turn), [*answers, *later]
        asked = self._group_calls(turn_key, turn.tool_calls)
        stopped = {key: found for key in asked if (found := self.gate.waiting(key)) is not None}
        early = find_early_results(answers, stopped.values())
        answers = [each for each in answers if each not in early]
        waiting = find_open_calls(turn, answers)
        before, after = request.messages[: -len(since)], request.messages[-len(since) :]
        if (waiting and not stopped) or (not waiting and after == since):
            return request, [], None
        if waiting and self._on_new_message != "cancel":
            queues = self._on_new_message == "queue"
            if not self._asks_per_call:
                self._await_decisions(turn_key, turn.tool_calls, request.state, interrupts=queues)
            elif not queues and not may_have_answer():
                raise ThreadPaused
            # Calls that interrupt for themselves do so when they start again.
            removed = build_removals(early if queues else [*early, *later], request.state["messages"])
            return request, removed, ModelResponse(result=[turn])
        made = [
            message
            for key, calls in asked.items()
            for message in self._cancel_calls(key, [call for call in calls if call in waiting], stopped)
        ]
        ordered = sort_by_call(turn, [*answers, *made])
        moved = [message.model_copy(update={"id": None}) for message in later]
        seen: list[Any] = [*before, *ordered, *moved]
        removed = build_removals([*early, *later], request.state["messages"])
        return request.override(messages=seen), [*removed, *made, *moved], None

    def _record_tools(self, tools: Sequence[Any], state: Any) -> None:
        for tool in tools:
            if isinstance(tool, BaseTool) and self._tools.get(tool.name) is not tool:
                self._tools[tool.name], self._schemas[tool.name] = tool, self._read_schema(tool)
        hosted = set(list_provider_tools(tools)) - self._tools.keys()
        run_evaluation(check_provider_tools(self._hooks, hosted, state))
        if not self._are_rules_checked:
            check_rules(self._hooks, {*self._tools, *hosted})
            self._are_rules_checked = True

    def _group_calls(self, turn_key: str, calls: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the calls that are asked about together, by the gate's key."""
        if not self._asks_per_call:
            return {turn_key: [*calls]}
        return {build_call_key(turn_key, call): [call] for call in calls}

    def _cancel_calls(self, key: str, calls: Sequence[Any], stopped: Collection[str]) -> list[ToolMessage]:
        if not calls:
            return []
        if key not in stopped:
            return [build_tool_message(call, CANCELLED_BY_MESSAGE) for call in calls]
        ids = [call["id"] or "" for call in calls]
        results = self.gate.supersede(key, ids, CANCELLED_BY_MESSAGE)
        # The others have started: ThreadBusy while they run, or their end will never be known.
        results |= {each: self.gate.begin(key, each).result for each in ids if each not in results}
        return [decode_result(call, results[each]) for call, each in zip(calls, ids, strict=True)]


def _may_stop(hook: Hook, call: ToolCall, state: Any) -> bool:
    """Return whether the hook may stop a call of this tool."""
    if isinstance(hook, HumanInTheLoopHook):
        return not hook.never_stops(call.name)
    return run_evaluation(evaluate_call([hook], call, state)) is not None


def _turn_key(config: RunConfig, turn: AIMessage | None) -> str:
    where = config.get("configurable", {})
    graph = where.get("checkpoint_ns", "").rpartition("|")[0]
    return build_turn_key(where.get("thread_id", ""), graph, turn.id if turn else None)


def _cache(entries: dict[str, T], key: str, value: T) -> None:
    while len(entries) >= MAX_CACHED_TURNS:
        entries.pop(next(iter(entries), key), None)
    entries[key] = value
