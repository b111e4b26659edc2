"""The middleware: asks before each function call, and pauses with the framework's own approval request."""

import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from typing import Any, Unpack
from uuid import uuid4

from agent_framework import (
    Agent,
    AgentMiddleware,
    AgentResponse,
    AgentSession,
    ChatMiddleware,
    Content,
    FunctionMiddleware,
    FunctionTool,
    Message,
    MiddlewareFailure,
)

from placet.errors import HookError, NothingToResume, PlacetError, ThreadPaused
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook, check_rules
from placet.hook.approver import Approver, Replace, Wait
from placet.hook.checkpoint import Checkpoint
from placet.hook.frameworks.run_steps import run_on_thread_loop
from placet.hook.frameworks.session_claims import SessionClaims
from placet.hook.frameworks.unpausable_calls import UnpausableCalls
from placet.hook.gate import GateOptions
from placet.hook.interruption import InterruptionMetadata
from placet.hook.savers.saver import Saver
from placet.hook.thread_resumption import AgentThreads
from placet.hook.tool_call import Schemas, ToolCall

STATE = "placet_approval"
TURN_SEPARATOR = "/"
MAX_TURNS = 20
"""How many turns of a session are remembered, for answers that are delivered again."""
CUT_OFF = "The call was cancelled while it ran. It is not known whether it took effect."
NO_PAUSE = "Run the agent with a session; an agent that is used as a tool cannot wait at all."
_is_nested: ContextVar[bool] = ContextVar("is_nested", default=False)
"""Whether an agent runs inside a function call, whose run nobody can continue."""


class AgentFrameworkApproval:
    """Stops function calls of the agents that have its `middleware` until a reviewer has decided them.

    The options are those of Approver.
    """

    def __init__(
        self, *hooks: Hook, saver: Saver, repeatable: Collection[str] = (), **options: Unpack[GateOptions]
    ) -> None:
        self.approver = Approver(*hooks, saver=saver, repeatable=repeatable, **options)
        self.rules = hooks
        self.unpausable = UnpausableCalls(*hooks, grants=options.get("grants"))
        self._claims = SessionClaims(self.approver.gate)
        self.middleware: list[Any] = [_RefuseMessages(self), _RememberTurns(), _GateCalls(self)]
        """Give it to the agent as its last: `Agent(…, middleware=[*others, *approval.middleware])`."""

    def waiting(self, session: AgentSession) -> InterruptionMetadata | None:
        """Return the calls of the session that wait for a reviewer, or whose decision was not taken up."""
        turn = find_paused_turn(session)
        return None if turn is None else self.approver.waiting(turn["key"])

    async def resume(
        self, agent: Agent, session: AgentSession, feedback: Feedback | None = None, **options: Any
    ) -> AgentResponse | None:
        """Store decisions, and continue the session once all calls of the turn are decided.

        Without feedback, takes up the decision made on the page. Returns None while calls are undecided,
        and if there is nothing left to continue. Store the session afterwards.
        """
        run_blocking = self.approver.gate.run_blocking
        turn = find_paused_turn(session) or await run_blocking(lambda: self._find_last_turn(session))
        if turn is None:
            raise NothingToResume
        if (await run_blocking(lambda: self.approver.answer(turn["key"], feedback))).undecided:
            return None
        if not turn["requests"]:
            return None
        waiting = [call["id"] for call in turn["calls"] if call["id"] in turn["requests"]]
        requests = [Content.from_dict(turn["requests"][call_id]) for call_id in waiting]
        replies = [request.to_function_approval_response(approved=True) for request in requests]
        async with self._claims.ahold(turn["key"]):
            try:
                return await agent.run([Message(role="user", contents=replies)], session=session, **options)
            except MiddlewareFailure as error:
                raise error.__cause__ if isinstance(error.__cause__, PlacetError) else error from None

    def threads_of(
        self, agent: Agent, load: Callable[[str], Any], save: Callable[[AgentSession], Any], **options: Any
    ) -> AgentThreads:
        """Return the waiting sessions for `resume_pending` and `resume_as_decided`, best on an event loop.

        `load` returns the session with this id, and `save` stores it; both may be async. The options are
        those of `resume`.
        """

        def find_session(checkpoint: Checkpoint) -> str | None:
            session_id = checkpoint.thread_id.rpartition(TURN_SEPARATOR)[0]
            return None if checkpoint.interruption is None else session_id or None

        async def aresume(session_id: str) -> AgentResponse | InterruptionMetadata | None:
            session = await resolve(load(session_id))
            response = await self.resume(agent, session, **options)
            await resolve(save(session))
            run_blocking = self.approver.gate.run_blocking
            return await run_blocking(lambda: self.waiting(session)) or response

        return self.approver.gate.threads_of(
            lambda session_id: run_on_thread_loop(aresume(session_id)),
            aresume=aresume,
            find_thread=find_session,
        )

    def _find_last_turn(self, session: AgentSession) -> dict[str, Any] | None:
        turns = reversed(list_turns(session))
        return next((turn for turn in turns if self.approver.waiting(turn["key"]) is not None), None)


class _RefuseMessages(AgentMiddleware):  # type: ignore[misc,unused-ignore]
    """Refuses a message to a session whose calls wait."""

    def __init__(self, approval: AgentFrameworkApproval) -> None:
        self._approval = approval

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        tools = [tool.name for tool in context.agent.default_options.get("tools") or []]
        if not _is_nested.get():
            check_rules(self._approval.rules, tools)
        contents = [content for message in context.messages for content in message.contents]
        answers = any(content.type == "function_approval_response" for content in contents)
        if context.session is not None and find_paused_turn(context.session) and not answers:
            raise ThreadPaused
        await call_next()


class _RememberTurns(ChatMiddleware):  # type: ignore[misc,unused-ignore]
    """Remembers in the session which calls belong to one reply of the model."""

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()
        if context.session is None or _is_nested.get():
            return
        if context.stream:
            context.stream_result_hooks.append(lambda reply: self._remember(context, reply))
        else:
            self._remember(context, context.result)

    def _remember(self, context: Any, reply: Any) -> Any:
        contents = [content for message in reply.messages for content in message.contents]
        calls = [
            {"id": content.call_id, "name": content.name, "arguments": content.parse_arguments() or {}}
            for content in contents
            if content.type == "function_call"
        ]
        if calls:
            turns = [
                *list_turns(context.session),
                {"key": name_turn(context.session), "calls": calls, "requests": {}},
            ]
            context.session.state[STATE] = {"turns": turns[-MAX_TURNS:]}
        return reply


class _GateCalls(FunctionMiddleware):  # type: ignore[misc,unused-ignore]
    """Runs a call as it was decided, replaces it, or pauses the run."""

    def __init__(self, approval: AgentFrameworkApproval) -> None:
        self._approval, self._approver = approval, approval.approver

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        try:
            allowed = await self._ask(context)
        except Exception as error:  # any other exception would let the run go on
            raise MiddlewareFailure(f"{context.function.name} did not run: {error}") from error
        if allowed is not None:
            await self._run(context, call_next, *allowed)

    async def _ask(self, context: Any) -> tuple[str, ToolCall, ToolCall] | None:
        """Return the key of the turn, the call as asked and the call as decided; None if it does not run."""
        call_id = context.metadata.get("call_id") or uuid4().hex
        arguments = (
            context.arguments if isinstance(context.arguments, Mapping) else context.arguments.model_dump()
        )
        call = ToolCall(
            id=call_id, name=context.function.name, arguments=json.loads(json.dumps(dict(arguments)))
        )
        inner = _find_inner_agent(context.function)
        if inner is not None and self not in (inner.middleware or []):
            raise HookError(f"The agent {call.name} is not gated: give it the same middleware.")
        turn = None if context.session is None else find_turn(context.session, call_id)
        if _is_nested.get() or turn is None:
            await self._approval.unpausable.require_no_review(call, {"messages": ()}, NO_PAUSE)
            return "", call, call
        calls = [call if each["id"] == call_id else ToolCall(**each) for each in turn["calls"]]
        state = {"messages": context.session.state.get("in_memory", {}).get("messages", ())}
        key = turn["key"]
        schemas = _read_schemas(context.tools or [context.function])
        permission = await self._approver.aask(key, call, turn=calls, state=state, schemas=schemas)
        if isinstance(permission, Wait):
            context.result = _build_request(context, call)
            turn["requests"][call_id] = context.result.to_dict()
            return None
        turn["requests"].pop(call_id, None)
        if isinstance(permission, Replace):
            context.result = permission.result
            return None
        return key, call, permission.call

    async def _run(
        self,
        context: Any,
        call_next: Callable[[], Awaitable[None]],
        key: str,
        call: ToolCall,
        decided: ToolCall,
    ) -> None:
        _is_nested.set(True)  # each call has a context of its own
        try:
            if decided == call:
                await call_next()
            else:
                tools = {tool.name: tool for tool in context.tools or [context.function]}
                context.result = await tools[decided.name].invoke(arguments=dict(decided.arguments))
        except BaseException as error:
            if key:
                self._approver.fail(key, call, error if isinstance(error, Exception) else HookError(CUT_OFF))
            raise
        if key:
            text = await self._approver.afinish(key, call, _read_text(context.result))
            context.result = context.result if decided == call else text


async def resolve(value: Any) -> Any:
    """Return the value, awaited if it has to be."""
    return await value if inspect.isawaitable(value) else value


def name_turn(session: AgentSession) -> str:
    """Return a new name of a turn, by which its session is found."""
    return f"{session.session_id}{TURN_SEPARATOR}{uuid4().hex}"


def list_turns(session: AgentSession) -> list[dict[str, Any]]:
    """Return what the session remembers of its turns with calls, oldest first."""
    turns: list[dict[str, Any]] = session.state.get(STATE, {}).get("turns", [])
    return turns


def find_turn(session: AgentSession, call_id: str) -> dict[str, Any] | None:
    """Return the newest turn with this call."""
    turns = reversed(list_turns(session))
    return next((turn for turn in turns if any(call["id"] == call_id for call in turn["calls"])), None)


def find_paused_turn(session: AgentSession) -> dict[str, Any] | None:
    """Return the turn with calls that wait."""
    return next((turn for turn in reversed(list_turns(session)) if turn["requests"]), None)


def _find_inner_agent(function: FunctionTool) -> Any:
    """Return the agent that a tool made with `as_tool` runs; None for other tools."""
    run: Any = getattr(function, "func", None)
    if "as_tool.<locals>" not in getattr(run, "__qualname__", ""):
        return None
    cells = dict(zip(run.__code__.co_freevars, run.__closure__ or (), strict=True))
    return cells["self"].cell_contents


def _build_request(context: Any, call: ToolCall) -> Content:
    """Return the framework's approval request. A reply only continues the run: the reviewer decides."""
    occurrence = context.metadata.get("function_call_occurrence_id")
    approved = context.metadata.get("approval_response")
    if occurrence is None and approved is not None:
        occurrence = approved.function_call.id
    asked = Content.from_function_call(
        call_id=call.id, name=call.name, arguments=json.dumps(call.arguments), id=occurrence
    )
    return Content.from_function_approval_request(id=occurrence or call.id, function_call=asked)


def _read_schemas(tools: Any) -> Schemas:
    return {tool.name: tool.parameters() for tool in tools if isinstance(tool, FunctionTool)}


def _read_text(result: Any) -> str:
    """Return the text of a result, in which other content is named by its type."""
    if not isinstance(result, list):
        return str(result)
    return "\n".join(each.text if each.type == "text" else f"[{each.type}]" for each in result)
