"""The plugin: asks before each tool call, and stops the agent with an interrupt of Strands."""

import json
from collections.abc import AsyncIterator, Callable, Collection
from contextvars import ContextVar
from typing import Any, Unpack
from weakref import WeakSet

from strands import Agent
from strands.agent import AgentResult
from strands.agent._agent_as_tool import _AgentAsTool
from strands.hooks import BeforeInvocationEvent
from strands.middleware import ExecuteToolStage
from strands.middleware.stages import ExecuteToolContext
from strands.plugins import Plugin
from strands.types._events import ToolInterruptEvent, ToolResultEvent
from strands.types.content import Message

from placet.errors import HookError, NothingToResume
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook, check_rules
from placet.hook.approver import Approver, Replace, Wait
from placet.hook.checkpoint import Checkpoint
from placet.hook.frameworks.session_claims import SessionClaims
from placet.hook.frameworks.unpausable_calls import UnpausableCalls
from placet.hook.gate import GateOptions
from placet.hook.interruption import InterruptionMetadata
from placet.hook.savers.saver import Saver
from placet.hook.thread_resumption import AgentThreads
from placet.hook.tool_call import Schemas, ToolCall

INTERRUPT = "placet_approval"
NAMES_OF_TURN = 3
"""A turn is named by its session, agent and message."""
_session_id: ContextVar[str] = ContextVar("session_id", default="")
"""The session of the agent that runs in this context."""
MAX_ANSWERS = 100
"""How often an interrupt may be answered before its calls are decided."""
CUT_OFF = "The call was cancelled while it ran. It is not known whether it took effect."


class StrandsApproval(Plugin):
    """Stops tool calls of the agents it is given to until a reviewer has decided them.

    Give it to each agent as its last plugin. The options are those of Approver.
    """

    name = INTERRUPT

    def __init__(
        self, *hooks: Hook, saver: Saver, repeatable: Collection[str] = (), **options: Unpack[GateOptions]
    ) -> None:
        super().__init__()
        self.approver = Approver(*hooks, saver=saver, repeatable=repeatable, **options)
        self._rules = hooks
        self._unpausable = UnpausableCalls(*hooks, grants=options.get("grants"))
        self._claims = SessionClaims(self.approver.gate)
        self._agents: WeakSet[Agent] = WeakSet()

    def init_agent(self, agent: Agent) -> None:
        """Put the approval before every tool of the agent."""
        self._agents.add(agent)
        agent.add_middleware(ExecuteToolStage, self._gate)
        agent.add_hook(self._check_rules, BeforeInvocationEvent)

    def waiting(self, agent: Agent) -> InterruptionMetadata | None:
        """Return the calls of the agent, or of an agent that it uses as a tool, that wait for a reviewer."""
        key = _read_key(agent)
        return None if key is None else self.approver.waiting(key)

    def resume(self, agent: Agent, feedback: Feedback | None = None) -> AgentResult | None:
        """Store decisions, and continue the agent once all calls of the turn are decided.

        Without feedback, takes up the decision made on the page. Returns None while calls are undecided,
        and if there is nothing left to continue.
        """
        key = self._answer(agent, feedback)
        if key is None:
            return None
        with self._claims.hold(key):
            return agent(_build_responses(agent)) if _list_interrupts(agent) else None

    async def aresume(self, agent: Agent, feedback: Feedback | None = None) -> AgentResult | None:
        """Async version of `resume`."""
        key = await self.approver.gate.run_blocking(lambda: self._answer(agent, feedback))
        if key is None:
            return None
        async with self._claims.ahold(key):
            return await agent.invoke_async(_build_responses(agent)) if _list_interrupts(agent) else None

    def _answer(self, agent: Agent, feedback: Feedback | None) -> str | None:
        """Store decisions; return the key of the turn if all its calls are decided."""
        key = _read_key(agent) or _find_last_key(agent, self.approver)
        if key is None:
            raise NothingToResume
        if not _list_interrupts(agent):  # it is over, or Strands did not store that the agent has stopped
            self.approver.gate.abandon_lost(key)
        return None if self.approver.answer(key, feedback).undecided else key

    def threads_of(self, build_agent: Callable[[str], Agent]) -> AgentThreads:
        """Return the waiting sessions for `resume_pending` and `resume_as_decided`.

        `build_agent` returns the agent of the session with this id. Agents without a session manager are
        lost with their process, so they are not resumed.
        """

        def find_session(checkpoint: Checkpoint) -> str | None:
            return None if checkpoint.interruption is None else _read_session(checkpoint.thread_id)

        def resume(session_id: str) -> AgentResult | InterruptionMetadata | None:
            agent = build_agent(session_id)
            result = self.resume(agent)
            return self.waiting(agent) or result

        async def aresume(session_id: str) -> AgentResult | InterruptionMetadata | None:
            agent = build_agent(session_id)
            result = await self.aresume(agent)
            return await self.approver.gate.run_blocking(lambda: self.waiting(agent)) or result

        return self.approver.gate.threads_of(resume, aresume=aresume, find_thread=find_session)

    def _check_rules(self, event: BeforeInvocationEvent) -> None:
        """Raise HookError for a rule that matches no tool: a misspelled rule would stop nothing."""
        check_rules(self._rules, [name for agent in self._agents for name in agent.tool_names])

    async def _gate(self, context: ExecuteToolContext, next_fn: Callable[..., Any]) -> AsyncIterator[Any]:
        """Run the call, replace it, or stop the agent."""
        agent, tool_use = context.agent, context.tool_use
        _session_id.set(_find_session_id(agent))
        self._require_safe(context)
        call = _read_call(tool_use)
        message = agent.messages[-1] if agent.messages else {}
        turn = [call if each.id == call.id else each for each in _read_calls(message)]
        state = {"messages": agent.messages}
        if call not in turn or not message.get("tracking_id"):
            await self._unpausable.require_no_review(call, state, "Let the model call it.")
            async for event in next_fn(context):
                yield event
            return
        key = _name_turn(agent, message)
        permission = await self.approver.aask(key, call, turn=turn, state=state, schemas=_read_schemas(agent))
        if isinstance(permission, Wait):
            _interrupt(context, key, permission.interruption)
        if isinstance(permission, Wait | Replace):
            text = permission.result if isinstance(permission, Replace) else "This call was not approved."
            yield _build_result(call, text, is_error=not isinstance(permission, Replace))
            return
        async for event in self._run(key, call, permission.call, context, next_fn):
            yield event

    async def _run(
        self,
        key: str,
        call: ToolCall,
        decided: ToolCall,
        context: ExecuteToolContext,
        next_fn: Callable[..., Any],
    ) -> AsyncIterator[Any]:
        """Run the call as it was decided, and record how it ended."""
        result: ToolResultEvent | None = None
        if decided != call:
            tool = context.agent.tool_registry.registry.get(decided.name)
            changed = {**context.tool_use, "name": decided.name, "input": dict(decided.arguments)}
            context = context.replace(tool=tool, tool_use=changed)
        try:
            async for event in next_fn(context):
                if isinstance(event, ToolInterruptEvent):  # an agent inside waits: the call continues later
                    self.approver.give_back(key, call)
                    yield event
                    return
                if isinstance(event, ToolResultEvent):
                    result = event
                else:
                    yield event
        except BaseException as error:
            failure = error if isinstance(error, Exception) else HookError(CUT_OFF)
            self.approver.fail(key, call, failure)
            raise
        if result is None:
            await self.approver.afail(key, call, HookError("The tool returned no result."))
            return
        if result.exception is not None:
            await self.approver.afail(key, call, result.exception)
            yield result
            return
        text = await self.approver.afinish(key, call, _read_text(result))
        yield result if decided == call else _build_result(call, text)

    def _require_safe(self, context: ExecuteToolContext) -> None:
        """Raise HookError if an approved call could still be changed, or an agent inside is not gated."""
        handlers = context.agent._middleware_registry._handlers[ExecuteToolStage]
        wraps = [each.handler for each in handlers if each.phase == "wrap"]
        later = wraps[wraps.index(self._gate) + 1 :]
        if not all(each.__module__.startswith("strands.") for each in later):
            raise HookError("Give StrandsApproval to the agent after all other middleware for tools.")
        if isinstance(context.tool, _AgentAsTool) and context.tool.agent not in self._agents:
            raise HookError(
                f"The agent {context.tool.tool_name} is not gated: give it the same StrandsApproval."
            )


def _interrupt(context: ExecuteToolContext, key: str, stopped: InterruptionMetadata) -> None:
    """Stop the agent. Responses to the interrupt only continue it: what runs is what the reviewer decided."""
    link = (stopped.case or {}).get("review_url")
    reason = {"key": key, "interruption": stopped.id, **({"review_url": link} if link else {})}
    for number in range(MAX_ANSWERS):
        context.interrupt(f"{INTERRUPT}_{number}", reason=reason)


def _list_interrupts(agent: Agent) -> dict[str, Any]:
    """Return the interrupts of ours that the agent has stopped for, also for an agent that is its tool."""
    state = agent._interrupt_state
    found = {each.id: each.reason for each in state.interrupts.values() if each.name.startswith(INTERRUPT)}
    return found if state.activated else {}


def _build_responses(agent: Agent) -> list[Any]:
    interrupts = agent._interrupt_state.interrupts.values()
    waiting = [each for each in interrupts if each.id in _list_interrupts(agent) and each.response is None]
    return [{"interruptResponse": {"interruptId": each.id, "response": "decided"}} for each in waiting]


def _read_key(agent: Agent) -> str | None:
    """Return the key of the turn for which the agent has stopped."""
    reasons = [reason for reason in _list_interrupts(agent).values() if reason]
    return str(reasons[-1]["key"]) if reasons else None


def _find_last_key(agent: Agent, approver: Approver) -> str | None:
    """Return the key of the agent's last turn that was stopped."""
    keys = (_name_turn(agent, message) for message in reversed(agent.messages) if _read_calls(message))
    return next((key for key in keys if approver.waiting(key) is not None), None)


def _name_turn(agent: Any, message: Message) -> str:
    """Return a name of the turn; Strands gives each message an id of its own and stores it."""
    return json.dumps([_find_session_id(agent), getattr(agent, "agent_id", ""), message.get("tracking_id")])


def _find_session_id(agent: Any) -> str:
    """Return the id of the session in which the agent, or the agent that it works for, is stored."""
    sessions = getattr(agent, "_session_manager", None)
    return _session_id.get() if sessions is None else str(getattr(sessions, "session_id", ""))


def _read_session(key: str) -> str | None:
    """Return the id of a turn's session; None if it has none, or if the key is not of this adapter."""
    try:
        named = json.loads(key)
    except ValueError:
        return None
    return (named[0] or None) if isinstance(named, list) and len(named) == NAMES_OF_TURN else None


def _read_calls(message: Message) -> list[ToolCall]:
    blocks = message.get("content", []) if message.get("role") == "assistant" else []
    return [_read_call(block["toolUse"]) for block in blocks if "toolUse" in block]


def _read_call(tool_use: Any) -> ToolCall:
    arguments = tool_use.get("input")
    return ToolCall(
        id=tool_use["toolUseId"],
        name=tool_use["name"],
        arguments=dict(arguments) if isinstance(arguments, dict) else {},
    )


def _read_schemas(agent: Any) -> Schemas:
    specs = agent.tool_registry.get_all_tool_specs()
    return {spec["name"]: spec["inputSchema"].get("json") for spec in specs}


def _read_text(result: ToolResultEvent) -> str:
    """Return the text of a result, in which other content is named by its kind."""
    return "\n".join(_describe_block(block) for block in result.tool_result["content"])


def _describe_block(block: Any) -> str:
    if "text" in block:
        return str(block["text"])
    return json.dumps(block["json"]) if "json" in block else f"[{next(iter(block))}]"


def _build_result(call: ToolCall, text: str, *, is_error: bool = False) -> ToolResultEvent:
    status = "error" if is_error else "success"
    return ToolResultEvent({"toolUseId": call.id, "status": status, "content": [{"text": text}]})
