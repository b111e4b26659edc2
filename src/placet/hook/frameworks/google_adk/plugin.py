"""The plugin: asks before each tool call, and stops the run with ADK's own confirmation request."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar, Unpack
from uuid import uuid4

from google.adk.events import Event, EventActions
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.tools import AgentTool, BaseTool, ToolContext
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

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

T = TypeVar("T")
NAMES_OF_TURN = 4
"""A turn is named by its app, user, session and event."""
CONFIRMATION = "adk_request_confirmation"
"""The function call with which ADK asks its user to confirm another one."""
WAITING = {"status": "This call waits for a person's approval. It has not run."}
_is_nested: ContextVar[bool] = ContextVar("is_nested", default=False)
"""Whether this is the run of an AgentTool, whose session ends with it."""


class ApprovalPlugin(BasePlugin):
    """Stops tool calls of all agents of an app until a reviewer has decided them.

    Give it to the App or Runner as its last plugin. The options are those of Approver.
    """

    def __init__(
        self, *hooks: Hook, saver: Saver, repeatable: Collection[str] = (), **options: Unpack[GateOptions]
    ) -> None:
        super().__init__(name="placet_approval")
        self.approver = Approver(*hooks, saver=saver, repeatable=repeatable, **options)
        self._rules = hooks
        self._unpausable = UnpausableCalls(*hooks, grants=options.get("grants"))
        self._claims = SessionClaims(self.approver.gate)
        self._running: dict[str, tuple[str, ToolCall, ToolCall]] = {}

    async def waiting(self, session: Session) -> InterruptionMetadata | None:
        """Return the calls of the session that wait for a reviewer, or whose decision was not taken up."""
        for event in _list_waiting_turns(session):
            return await self._blocking(self.approver.waiting, _name_turn(session, event))
        return None

    async def resume(
        self,
        runner: Runner,
        *,
        user_id: str,
        session_id: str,
        feedback: Feedback | None = None,
        **options: Any,
    ) -> AsyncGenerator[Event, None]:
        """Store decisions, and run the session once all calls of the turn are decided; yield its events.

        Without feedback, takes up the decision made on the page. The options are those of `run_async`.
        """
        named = {"app_name": runner.app_name, "user_id": user_id, "session_id": session_id}
        session = await runner.session_service.get_session(**named)
        event = None if session is None else await self._find_stopped_turn(session, feedback)
        if session is None or event is None:
            raise NothingToResume
        key = _name_turn(session, event)
        if (await self._blocking(self.approver.answer, key, feedback)).undecided:
            return
        async with self._claims.ahold(key):
            session = await runner.session_service.get_session(**named)
            event = next((each for each in _list_waiting_turns(session) if each.id == event.id), None)
            if event is None:
                return
            if not _list_confirmations(session, event):  # the process died before ADK had stored the pause
                await _store_pause(runner, session, event)
            run = runner.run_async(
                user_id=user_id, session_id=session_id, new_message=_confirm(session, event), **options
            )
            try:
                async with aclosing(run) as events:
                    async for each in events:
                        yield each
            except RuntimeError as error:  # ADK wraps what a plugin raises
                raise _find_cause(error) from error

    def threads_of(self, runner: Runner, **options: Any) -> AgentThreads:
        """Return the app's sessions for `resume_pending` and `resume_as_decided`, best on an event loop.

        The name of a session is the JSON of its app, user and id; its outcome are the events, or what waits.
        """

        def find_session(checkpoint: Checkpoint) -> str | None:
            named = None if checkpoint.interruption is None else _read_session_name(checkpoint.thread_id)
            return json.dumps(named) if named is not None and named[0] == runner.app_name else None

        async def aresume(name: str) -> list[Event] | InterruptionMetadata:
            app_name, user_id, session_id = json.loads(name)
            named = {"user_id": user_id, "session_id": session_id}
            events = [event async for event in self.resume(runner, **named, **options)]
            session = await runner.session_service.get_session(app_name=app_name, **named)
            return (None if session is None else await self.waiting(session)) or events

        return self.approver.gate.threads_of(
            lambda name: run_on_thread_loop(aresume(name)), aresume=aresume, find_thread=find_session
        )

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: types.Content) -> None:
        """Refuse a message while calls wait, and a confirmation that no reviewer gave."""
        session = invocation_context.session
        confirmed = {reply.id for part in user_message.parts or [] if (reply := part.function_response)}
        for event in _list_waiting_turns(session):
            key = _name_turn(session, event)
            if await self._blocking(self.approver.waiting, key) is None:
                continue
            stopped = await self._blocking(self.approver.answer, key, None)
            asked = _list_confirmations(session, event)
            if (stopped.undecided and confirmed & asked.keys()) or not confirmed:
                raise ThreadPaused

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """Raise HookError for a rule that matches no tool: a misspelled rule would stop nothing."""
        if not _is_nested.get():
            check_rules(self._rules, await _list_tool_names(invocation_context.agent.root_agent))

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Return None to run the call, with the reviewer's arguments; else what the model reads instead."""
        is_nested = _is_nested.get()
        if isinstance(tool, AgentTool):
            if not tool.include_plugins:
                raise HookError(f"The agent {tool.name} runs without plugins: set include_plugins=True.")
            _is_nested.set(True)
        call = ToolCall(id=tool_context.function_call_id or "", name=tool.name, arguments=dict(tool_args))
        event = _find_turn(tool_context.session, call.id)
        if is_nested or event is None:
            state = {"messages": tool_context.session.events}
            await self._unpausable.require_no_review(call, state, USE_SUB_AGENTS)
            return None
        key = _name_turn(tool_context.session, event)
        turn = [call if each.id == call.id else each for each in _read_calls(event)]
        tools = await _list_tools(tool_context)
        permission = await self.approver.aask(
            key,
            call,
            turn=turn,
            state={"messages": tool_context.session.events},
            schemas=_read_schemas(tools),
        )
        if isinstance(permission, Wait):
            return _request_confirmation(permission.interruption, call, tool_context)
        if isinstance(permission, Replace):
            return {"result": permission.result}
        if await self._blocking(self.approver.waiting, key) is None:
            return None
        return await self._run(key, call, permission.call, tool_args, tool_context, tools)

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """Record that the call ran; tell the model of an edit."""
        running = self._running.pop(_name_run(tool_context), None)
        if running is None:
            return None
        key, call, decided = running
        text = await self.approver.afinish(key, call, _read_result(result))
        return None if decided == call else {"result": text}

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Any
    ) -> None:
        """Record that the call failed; ADK goes on as it does without the plugin."""
        if running := self._running.pop(_name_run(tool_context), None):
            key, call, _ = running
            await self.approver.afail(
                key, call, error if isinstance(error, Exception) else HookError(CUT_OFF)
            )

    async def _run(
        self,
        key: str,
        call: ToolCall,
        decided: ToolCall,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        tools: Mapping[str, BaseTool],
    ) -> dict[str, Any] | None:
        """Let ADK run the decided call. If the reviewer chose another tool, run that one."""
        try:
            self._require_last(tool_context)
        except HookError as error:
            await self.approver.afail(key, call, error)
            raise
        self._running[_name_run(tool_context)] = key, call, decided
        if decided.name == call.name:
            tool_args.clear()
            tool_args.update(decided.arguments)
            return None
        try:
            result: Any = await tools[decided.name].run_async(
                args=dict(decided.arguments), tool_context=tool_context
            )
        except (Exception, asyncio.CancelledError) as error:
            await self.on_tool_error_callback(
                tool=tools[decided.name], tool_args=tool_args, tool_context=tool_context, error=error
            )
            raise
        return result if isinstance(result, dict) else {"result": result}

    def _require_last(self, tool_context: ToolContext) -> None:
        """Raise HookError if other code could change an approved call before it runs."""
        context = tool_context.get_invocation_context()
        later = context.plugin_manager.plugins
        later = later[later.index(self) + 1 :]
        if any(type(each).before_tool_callback is not BasePlugin.before_tool_callback for each in later):
            raise HookError("Give ApprovalPlugin to the app as its last plugin with a before_tool_callback.")
        if getattr(context.agent, "canonical_before_tool_callbacks", None):
            raise HookError(
                f"The agent {context.agent.name} has a before_tool_callback, which could change an approved"
                " call: write it as a plugin and give it to the app before ApprovalPlugin."
            )

    async def _find_stopped_turn(self, session: Session, feedback: Feedback | None) -> Event | None:
        """Return the turn that these answers are for: by their id, else the newest one."""
        found = None
        for event in reversed(session.events):
            if not _read_calls(event):
                continue
            stopped = await self._blocking(self.approver.waiting, _name_turn(session, event))
            if (
                stopped is not None
                and isinstance(feedback, InterruptionMetadata)
                and stopped.id == feedback.id
            ):
                return event
            found = found or (event if stopped is not None else None)
        return found

    async def _blocking(self, function: Callable[..., T], *args: Any) -> T:
        return await self.approver.gate.run_blocking(partial(function, *args))


CUT_OFF = "The call was cancelled while it ran. It is not known whether it took effect."
USE_SUB_AGENTS = "The session of an AgentTool ends with its call: list the agent in sub_agents."


def _name_turn(session: Session, event: Event) -> str:
    return json.dumps([session.app_name, session.user_id, session.id, event.id])


def _read_session_name(key: str) -> list[str] | None:
    """Return app, user and id of a turn's session; None if the key is not of this adapter."""
    try:
        named: list[str] = json.loads(key)
    except ValueError:
        return None
    return named[:3] if isinstance(named, list) and len(named) == NAMES_OF_TURN else None


def _name_run(tool_context: ToolContext) -> str:
    session = tool_context.session
    return json.dumps([session.app_name, session.user_id, session.id, tool_context.function_call_id])


def _read_calls(event: Event) -> list[ToolCall]:
    """Return the tool calls of a model's reply."""
    return [
        ToolCall(id=call.id or "", name=call.name or "", arguments=dict(call.args or {}))
        for call in event.get_function_calls()
        if call.name != CONFIRMATION and event.author != "user"
    ]


def _find_turn(session: Session, call_id: str) -> Event | None:
    """Return the model's reply that holds the call."""
    turns = (
        event for event in reversed(session.events) if any(call.id == call_id for call in _read_calls(event))
    )
    return next(turns, None) if call_id else None


def _list_waiting_turns(session: Session | None) -> list[Event]:
    """Return the replies with a call that has no response or waits, newest first."""
    if session is None:
        return []
    last: dict[str | None, Any] = {}
    waiting = []
    for event in session.events:
        last |= {call.id: None for call in _read_calls(event)}
        last |= {reply.id: reply.response for reply in event.get_function_responses()}
    for event in reversed(session.events):
        calls = _read_calls(event)
        if any(last.get(call.id, "") in (None, WAITING) for call in calls):
            waiting.append(event)
        for call in calls:  # an earlier turn may have used the same id
            last.pop(call.id, None)
    return waiting


def _list_confirmations(session: Session, event: Event) -> dict[str | None, str]:
    """Return the confirmation requests for the calls of a turn: id of the request -> id of the call."""
    ids = {call.id for call in _read_calls(event)}
    after = session.events[session.events.index(event) :]
    asked = (call for each in after for call in each.get_function_calls() if call.name == CONFIRMATION)
    originals = ((call.id, (call.args or {}).get("originalFunctionCall", {}).get("id")) for call in asked)
    return {request: call for request, call in originals if call in ids}


async def _store_pause(runner: Runner, session: Session, event: Event) -> None:
    """Append what ADK appends when calls wait: their responses so far, and the confirmation requests."""
    calls = [call for call in event.get_function_calls() if call.name != CONFIRMATION]
    replies = [types.FunctionResponse(id=call.id, name=call.name, response=WAITING) for call in calls]
    requests = [
        types.FunctionCall(
            id=f"adk-{uuid4()}",
            name=CONFIRMATION,
            args={"originalFunctionCall": call.model_dump(exclude_none=True, by_alias=True)},
        )
        for call in calls
    ]
    common = {"author": event.author, "branch": event.branch, "invocation_id": event.invocation_id}
    answered = Event(
        **common,
        content=types.Content(role="user", parts=[types.Part(function_response=reply) for reply in replies]),
        actions=EventActions(requested_tool_confirmations={call.id: ToolConfirmation() for call in calls}),
    )
    asked = Event(
        **common,
        content=types.Content(role="model", parts=[types.Part(function_call=call) for call in requests]),
        long_running_tool_ids={request.id for request in requests},
    )
    for each in (answered, asked):
        await runner.session_service.append_event(session, each)


def _confirm(session: Session, event: Event) -> types.Content:
    """Return the message with which ADK asks the plugin again about every call of the turn."""
    newest = {call: request for request, call in _list_confirmations(session, event).items()}
    replies = [
        types.FunctionResponse(id=request, name=CONFIRMATION, response={"confirmed": True})
        for request in newest.values()
    ]
    return types.Content(role="user", parts=[types.Part(function_response=reply) for reply in replies])


def _request_confirmation(
    stopped: InterruptionMetadata, call: ToolCall, tool_context: ToolContext
) -> dict[str, Any]:
    """Pause the run. The confirmation only continues it: what runs is what the reviewer decided."""
    waiting = next((each for each in stopped.tool_feedbacks if each.id == call.id), None)
    link = (stopped.case or {}).get("review_url")
    tool_context.request_confirmation(
        hint=(waiting and waiting.description) or f"{call.name} waits with the other calls of its turn.",
        payload={"interruption": stopped.id, **({"review_url": link} if link else {})},
    )
    tool_context.actions.skip_summarization = True
    return dict(WAITING)


async def _list_tools(tool_context: ToolContext) -> dict[str, BaseTool]:
    context = tool_context.get_invocation_context()
    tools = getattr(context, "canonical_tools_cache", None)
    if not tools and hasattr(context.agent, "canonical_tools"):
        tools = await context.agent.canonical_tools(tool_context)
    return {tool.name: tool for tool in tools or []}


async def _list_tool_names(agent: Any) -> set[str]:
    """Return the names of the tools of an agent and of all agents that it can reach."""
    tools = await agent.canonical_tools() if hasattr(agent, "canonical_tools") else []
    inner = [*agent.sub_agents, *(tool.agent for tool in tools if isinstance(tool, AgentTool))]
    names = {tool.name for tool in tools} | {each.name for each in agent.sub_agents}
    for each in inner:
        names |= await _list_tool_names(each)
    return names | ({"transfer_to_agent"} if agent.sub_agents else set())


def _read_schemas(tools: Mapping[str, BaseTool]) -> Schemas:
    """Return the JSON Schema of each tool, as the model sees it."""
    return {name: _read_schema(tool._get_declaration()) for name, tool in tools.items()}


def _read_schema(declaration: types.FunctionDeclaration | None) -> Mapping[str, Any] | None:
    if declaration is None:
        return None
    if declaration.parameters_json_schema is not None:
        return dict(declaration.parameters_json_schema)
    if declaration.parameters is None:
        return {"type": "object", "properties": {}}
    return declaration.parameters.json_schema.model_dump(mode="json", exclude_none=True)


def _read_result(result: Any) -> Any:
    """Return what a plain tool returned; ADK wraps it after the plugins."""
    return result["result"] if isinstance(result, dict) and result.keys() == {"result"} else result


def _find_cause(error: BaseException) -> BaseException:
    """Return the error of ours that ADK wrapped, or the error itself."""
    found: Iterator[BaseException] = _list_causes(error)
    return next((each for each in found if isinstance(each, PlacetError)), error)


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
