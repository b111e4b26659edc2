"""Approval in LangChain's `create_agent` and in LangGraph graphs made of such agents.

The graph's state, messages and checkpointer stay LangGraph's own; judgements, decisions and what has run are
kept in a Saver of ours, because a LangGraph checkpointer cannot let exactly one of two writers win.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt, is_invalid_resume
from langgraph.types import Command, Interrupt, interrupt
from pydantic import AfterValidator, ValidationError, WithJsonSchema

from assent.errors import HookError, InvalidFeedback, NothingToResume, ThreadPaused
from assent.hook.answers import Feedback
from assent.hook.feedback import ToolFeedback
from assent.hook.frameworks.langchain_wire import (
    announced,
    as_decided,
    call_of,
    decoded,
    decoded_answer,
    encoded,
    encoded_answer,
    in_call_order,
    interrupts_in,
    preserved,
    refused,
    removed,
    revived,
    schema_of,
    since_turn,
    turn_of,
    with_changes,
)
from assent.hook.gate import LEASE, ApprovalGate
from assent.hook.interruption import InterruptionMetadata
from assent.hook.outcomes import CANCELLED, failure
from assent.hook.policy import Hook, HumanInTheLoopHook
from assent.hook.savers.saver import Saver

Result = ToolMessage | Command[Any]
ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"decisions": {"type": "object", "additionalProperties": True}},
}
"""What LangGraph tells a client about the answer: call id -> decision."""


class _Waiting(Exception):
    """An answer was taken and calls still wait."""

    def __init__(self, standing: InterruptionMetadata) -> None:
        self.standing = standing


class ApprovalMiddleware(AgentMiddleware[Any, Any, Any]):
    """Stops the calls that `hooks` gate until a person has decided them; each of them runs at most once.

    Put it first in `middleware`, and give the agent a checkpointer. `repeatable` names tools that may run
    again when the process died while they ran. The agent interrupts once per turn with an interruption as a
    dict; resume it with `resume`, or with `Command(resume={"decisions": {call_id: "approve"}})`, which raises
    pydantic's ValidationError for an answer that does not fit, and then stores nothing.
    """

    def __init__(
        self,
        *hooks: Hook,
        saver: Saver,
        repeatable: Collection[str] = (),
        lease_for: timedelta = LEASE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__()
        self._gate = ApprovalGate(hooks, saver, lease_for=lease_for, clock=clock)
        self._repeatable = frozenset(repeatable)
        said = [hook.on_new_message for hook in hooks if isinstance(hook, HumanInTheLoopHook)]
        self._on_new_message = said[0] if said else "refuse"
        self._tools: dict[str, BaseTool] = {}
        self._schemas: dict[str, Mapping[str, Any] | None] = {}

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Wait for the turn's decisions; a turn of which nothing may run is answered here."""
        turn = turn_of(state["messages"])
        if turn is None:
            return None
        standing = self._settle(_key(get_config(), turn), turn.tool_calls, state)
        if standing is None or standing.tools_automatically_approved:
            return None
        answers = [refused(call, _found(standing, call)) for call in turn.tool_calls]
        return None if None in answers else {"messages": answers}

    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """As `after_model`."""
        return await self._gate.aside(self.after_model, state, runtime)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        """Run the call as it was decided, unless it ran before."""
        key, ready = self._begin(request)
        if not isinstance(ready, ToolCallRequest):
            return ready
        if key is None:
            return handler(ready)
        try:
            result = handler(ready)
        except Exception as error:
            self._break_off(key, request, error)
            raise
        return self._finish(key, request, ready, result)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """As `wrap_tool_call`."""
        key, ready = await self._gate.aside(self._begin, request)
        if not isinstance(ready, ToolCallRequest):
            return ready
        if key is None:
            return await handler(ready)
        try:
            result = await handler(ready)
        except Exception as error:
            await self._gate.aside(self._break_off, key, request, error)
            raise
        return await self._gate.aside(self._finish, key, request, ready, result)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Learn the tools, and keep a message that came while calls waited from losing them."""
        request, changes, instead = self._arrange(request)
        return with_changes(changes, handler(request) if instead is None else instead)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> Any:
        """As `wrap_model_call`."""
        request, changes, instead = await self._gate.aside(self._arrange, request)
        return with_changes(changes, await handler(request) if instead is None else instead)

    def _settle(
        self, key: str, calls: Sequence[Any], state: Any, *, asks_again: bool = True
    ) -> InterruptionMetadata | None:
        """The decisions, once all are there; until then this interrupts the graph. None: nobody is needed."""
        standing = self._gate.stop(key, [call_of(call) for call in calls], state=state, schemas=self._schemas)
        if standing is None or not standing.undecided:
            return standing
        shape = Annotated[Any, AfterValidator(lambda answer: self._take(key, answer)), WithJsonSchema(ANSWER)]
        where = get_config()["configurable"]
        try:
            # A type makes LangGraph check an answer before it keeps it; a wrong one could never be undone.
            taken: InterruptionMetadata = interrupt(encoded(standing, where), response_schema=shape)
        except _Waiting as still:
            shown = encoded(still.standing, where)
            again = Interrupt.from_ns(shown, where["checkpoint_ns"], response_schema=ANSWER)
            raise GraphInterrupt((again,)) from None
        except GraphInterrupt:
            if asks_again:
                raise
            raise ThreadPaused from None
        return taken

    def _take(self, key: str, answer: Any) -> InterruptionMetadata:
        try:
            standing = self._gate.answer(key, decoded_answer(answer))
        except InvalidFeedback as error:
            raise ValueError(error.message) from error
        if standing.undecided:
            raise _Waiting(standing)
        return standing

    def _begin(self, request: ToolCallRequest) -> tuple[str | None, ToolCallRequest | Result]:
        """The call as it is to run, or what stands in its place; a key if its end must be kept."""
        call = request.tool_call
        turn = turn_of(request.state["messages"], call["id"])
        key = _key(request.runtime.config, turn)
        standing = self._gate.waiting(key)
        if standing is None or not _stopped(standing, call):
            # Whatever did not come by after_model, such as a call that another middleware wrote, stops here.
            key = f"{key}/{call['id']}"
            standing = self._settle(key, [call], request.state)
            if standing is None:
                return None, request
        decided = _found(standing, call)
        if decided is not None and decided.result is None:
            raise ThreadPaused
        ready = refused(call, decided) or as_decided(request, decided)
        if isinstance(ready, ToolMessage):
            return key, ready
        begun = self._gate.begin(
            key, call["id"] or "", repeatable=ready.tool_call["name"] in self._repeatable
        )
        return key, ready if begun.run else revived(call, begun.result)

    def _finish(self, key: str, request: ToolCallRequest, ready: ToolCallRequest, result: Result) -> Result:
        asked, ran = call_of(request.tool_call), call_of(ready.tool_call)
        shown: Result = result if asked == ran else announced(result, asked, ran)
        self._gate.finish(key, asked.id, preserved(shown))
        return shown

    def _break_off(self, key: str, request: ToolCallRequest, error: Exception) -> None:
        call_id = request.tool_call["id"] or ""
        if isinstance(error, GraphBubbleUp | HookError) or is_invalid_resume(error):
            # The tool did not fail: an agent inside it waits, or was given a wrong answer.
            self._gate.set_aside(key, call_id)
        else:
            self._gate.finish(key, call_id, failure(error))

    def _arrange(
        self, request: ModelRequest[Any]
    ) -> tuple[ModelRequest[Any], list[BaseMessage], ModelResponse[Any] | None]:
        """The request as the model may see it, what that changes in the thread, and, if a turn still waits,
        that turn: it is given again in the place of a new reply, and so goes on."""
        self._learn(request.tools)
        turn, answers, later = since_turn(request.messages)
        if turn is None or not later:
            return request, [], None
        key = _key(get_config(), turn)
        waiting = [
            call for call in turn.tool_calls if all(call["id"] != each.tool_call_id for each in answers)
        ]
        if waiting and self._gate.waiting(key) is None:
            return request, [], None
        if waiting and self._on_new_message != "cancel":
            queues = self._on_new_message == "queue"
            self._settle(key, turn.tool_calls, request.state, asks_again=queues)
            return request, [] if queues else removed(later), ModelResponse(result=[turn])
        made = self._cancelled(key, waiting)
        ordered = in_call_order(turn, [*answers, *made])
        moved = [message.model_copy(update={"id": None}) for message in later]
        before = request.messages[: -len(answers) - len(later)]
        seen: list[Any] = [*before, *ordered, *moved]
        return request.override(messages=seen), [*removed(later), *made, *moved], None

    def _learn(self, tools: Iterable[Any]) -> None:
        for tool in tools:
            if isinstance(tool, BaseTool) and self._tools.get(tool.name) is not tool:
                self._tools[tool.name], self._schemas[tool.name] = tool, schema_of(tool)

    def _cancelled(self, key: str, calls: Sequence[Any]) -> list[ToolMessage]:
        if not calls:
            return []
        standing = self._gate.waiting(key)
        undecided = () if standing is None else standing.undecided
        with suppress(
            InvalidFeedback
        ):  # too late, or a tool that may not be rejected: it does not run either
            self._gate.answer(
                key, {each.id: {"decision": "reject", "reason": CANCELLED} for each in undecided}
            )
        begun = [(call, self._gate.begin(key, call["id"] or "")) for call in calls]
        return [
            revived(call, self._gate.finish(key, call["id"] or "", CANCELLED) if one.run else one.result)
            for call, one in begun
        ]


def interruption_of(result: Any) -> InterruptionMetadata | None:
    """What waits for a person in an agent's result, a chunk of its stream, or its `get_state`; or None."""
    return next(iter(interruptions_of(result)), None)


def interruptions_of(result: Any) -> tuple[InterruptionMetadata, ...]:
    """Everything that waits for a person: agents that work side by side may each ask."""
    return tuple(decoded(each.value) for each in interrupts_in(result))


def resume(
    agent: Any,
    thread_id: str,
    feedback: Feedback | None,
    *,
    config: Mapping[str, Any] | None = None,
    **named: Any,
) -> Any:
    """Answer what waits in a thread and go on; returns as `agent.invoke`, to which `named` is handed.

    Without feedback, calls whose time is over are rejected. Raises InvalidFeedback, and then stores nothing;
    NothingToResume; ThreadBusy while another process runs a call. A thread that has finished stays as it is.
    """
    where = _config(thread_id, config)
    snapshot = agent.get_state(where)
    if not _goes_on(snapshot):
        return snapshot.values
    try:
        return agent.invoke(_input(snapshot, feedback), where, **named)
    except ValidationError as error:
        raise _complaint(error) from None


async def aresume(
    agent: Any,
    thread_id: str,
    feedback: Feedback | None,
    *,
    config: Mapping[str, Any] | None = None,
    **named: Any,
) -> Any:
    """As `resume`, on an event loop."""
    where = _config(thread_id, config)
    snapshot = await agent.aget_state(where)
    if not _goes_on(snapshot):
        return snapshot.values
    try:
        return await agent.ainvoke(_input(snapshot, feedback), where, **named)
    except ValidationError as error:
        raise _complaint(error) from None


def _config(thread_id: str, config: Mapping[str, Any] | None) -> dict[str, Any]:
    given = dict(config or {})
    return {**given, "configurable": {**given.get("configurable", {}), "thread_id": thread_id}}


def _goes_on(snapshot: Any) -> bool:
    """Whether the thread has work left; raises NothingToResume if it was never begun, or waits for others."""
    if snapshot.created_at is None or (snapshot.interrupts and not interrupts_in(snapshot)):
        raise NothingToResume
    return bool(snapshot.next)


def _input(snapshot: Any, feedback: Feedback | None) -> Command[Any] | None:
    """What to invoke the agent with: the answers, each addressed to the interrupt that asked for them."""
    pending = {each.id: decoded(each.value) for each in interrupts_in(snapshot)}
    if not pending:  # it was cut off: at a tool there is nothing to answer, elsewhere it may be about to ask
        return None if "tools" in snapshot.next else Command(resume=encoded_answer(feedback))
    if len(pending) == 1 or feedback is None:
        return Command(resume=dict.fromkeys(pending, encoded_answer(feedback)))
    return Command(resume=_shared_out(pending, feedback))


def _shared_out(pending: Mapping[str, InterruptionMetadata], feedback: Feedback) -> dict[str, Any]:
    if isinstance(feedback, InterruptionMetadata):
        parts: dict[str, Any] = {each: feedback for each, asked in pending.items() if asked.id == feedback.id}
    else:
        said = feedback if isinstance(feedback, Mapping) else {each.id: each for each in feedback}
        asking = [(each, {one.id for one in asked.tool_feedbacks}) for each, asked in pending.items()]
        owners = {call_id: [each for each, calls in asking if call_id in calls] for call_id in said}
        if wrong := [call_id for call_id, found in owners.items() if len(found) != 1]:
            raise InvalidFeedback(f"Not one call each, so nothing was stored: {', '.join(map(str, wrong))}.")
        parts = {
            each: {key: said[key] for key, [owner] in owners.items() if owner == each} for each in pending
        }
        if not isinstance(feedback, Mapping):
            parts = {each: list(part.values()) for each, part in parts.items()}
    if not any(parts.values()):
        raise InvalidFeedback("These answers belong to another interruption; nothing was stored.")
    return {each: encoded_answer(part) for each, part in parts.items() if part}


def _complaint(error: ValidationError) -> Exception:
    if not is_invalid_resume(error):
        return error
    said = error.errors()[0].get("ctx", {}).get("error")
    cause = said.__cause__ if isinstance(said, ValueError) else None
    return cause if isinstance(cause, InvalidFeedback) else InvalidFeedback(str(error))


def _key(config: Mapping[str, Any], turn: AIMessage | None) -> str:
    """One key for each turn: the thread, the graph inside it, and the model's reply."""
    where = config.get("configurable", {})
    graph = where.get("checkpoint_ns", "").rpartition("|")[0]
    return f"{where.get('thread_id', '')}/{graph}/{turn.id if turn else ''}"


def _found(standing: InterruptionMetadata, call: Mapping[str, Any]) -> ToolFeedback | None:
    return next((each for each in standing.tool_feedbacks if each.id == (call["id"] or "")), None)


def _stopped(standing: InterruptionMetadata, call: Mapping[str, Any]) -> bool:
    """Whether the turn was stopped with this call in it: one that needed nobody must still be the same."""
    return _found(standing, call) is not None or call_of(call) in standing.tools_automatically_approved
