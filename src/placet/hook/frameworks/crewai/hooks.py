"""The hooks: CrewAI calls one before each tool and one after it, for all agents of the process."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from crewai import Crew
from crewai.hooks import (
    ToolCallHookContext,
    register_after_tool_call_hook,
    register_before_tool_call_hook,
    unregister_after_tool_call_hook,
    unregister_before_tool_call_hook,
)
from crewai.hooks.dispatch import InterceptionPoint, get_hooks, get_scoped_hooks
from crewai.utilities.string_utils import sanitize_tool_name

from placet.errors import HookError
from placet.hook.approval_rules import Hook, check_rules
from placet.hook.approver import Replace, Run
from placet.hook.frameworks.waiting_calls import DecidedCall, WaitingCalls

logger = logging.getLogger(__name__)
DELEGATION = {"delegate_work_to_coworker", "ask_question_to_coworker"}
CUT_OFF = "The call did not report how it ended. It is not known whether it took effect."
NOT_RUN = "This call was not approved, because its approval failed. It has not run."


class CrewAIApproval(WaitingCalls):
    """Stops tool calls of all agents while it guards a crew: `with approval.guard(crew): crew.kickoff()`.

    The options are those of WaitingCalls.
    """

    _in_use: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, *hooks: Hook, **options: Any) -> None:
        super().__init__(*hooks, **options)
        self._hooks = hooks
        self._blocked: dict[int, str] = {}
        self._running: dict[int, DecidedCall] = {}

    @contextmanager
    def guard(self, crew: Crew) -> Iterator[None]:
        """Stop the calls of the crew's agents, and of all others in this process, until the block ends."""
        check_rules(self._hooks, _list_tool_names(crew))
        if getattr(crew, "stream", False):  # its run would go on after the block
            raise HookError("A crew with stream=True cannot be guarded.")
        for agent in crew.agents:
            if agent.max_execution_time is not None:  # the call would still run after the crew gave up
                raise HookError(f"Set max_execution_time of {agent.role} to None: people need longer.")
        if not self._in_use.acquire(blocking=False):
            raise HookError("Another CrewAIApproval is in use; CrewAI's hooks hold for the whole process.")
        self.restart()
        register_before_tool_call_hook(self._before)
        register_after_tool_call_hook(self._after)
        try:
            yield
        finally:
            unregister_before_tool_call_hook(self._before)
            unregister_after_tool_call_hook(self._after)
            self._in_use.release()

    def _before(self, context: ToolCallHookContext) -> bool | None:
        """Return None to run the call, False to block it. CrewAI would run it after an exception."""
        name = id(context.tool_input)
        self._blocked.pop(name, None)
        if unreported := self._running.pop(name, None):
            self.fail(unreported, HookError(CUT_OFF))
        self._blocked[name] = NOT_RUN
        try:
            blocked = self._decide(context)
        except Exception as error:
            logger.warning("approval_failed tool=%s", context.tool_name, exc_info=error)
            blocked = f"{NOT_RUN} {error}"
        if blocked is not None:
            self._blocked[name] = blocked
            return False
        del self._blocked[name]
        return None

    def _decide(self, context: ToolCallHookContext) -> str | None:
        """Return None if the call may run, as the reviewer decided it; else what the model reads."""
        _require_last(self._before)
        decided = self.decide(context.tool_name, context.tool_input, _read_schema(context.tool))
        if isinstance(decided.permission, Replace):
            return decided.permission.result
        allowed = decided.permission.call
        if allowed != decided.asked and (allowed.name != decided.asked.name or not context.tool_input):
            return self.fail(decided, HookError("CrewAI can change the arguments of a call, not its tool."))
        context.tool_input.clear()
        context.tool_input.update(allowed.arguments)
        self._running[id(context.tool_input)] = decided
        return None

    def _after(self, context: ToolCallHookContext) -> str | None:
        """Record that the call ran; return what the model reads."""
        blocked = self._blocked.pop(id(context.tool_input), None)
        if blocked is not None:
            return blocked
        decided = self._running.pop(id(context.tool_input), None)
        if decided is None:
            return None
        text = self.finish(decided, context.tool_result)
        return text if decided.permission != Run(call=decided.asked) else None


def _require_last(hook: Any) -> None:
    """Raise HookError if a later hook could change an approved call."""
    point = InterceptionPoint.PRE_TOOL_CALL
    if [*get_hooks(point), *get_scoped_hooks(point)][-1] != hook:
        raise HookError("Register other before_tool_call hooks before CrewAIApproval is in use.")


def _list_tool_names(crew: Crew) -> set[str]:
    """Return the names under which the crew's agents call their tools."""
    owners = [*crew.agents, *crew.tasks, *filter(None, [crew.manager_agent])]
    return {sanitize_tool_name(tool.name) for owner in owners for tool in owner.tools or []} | DELEGATION


def _read_schema(tool: Any) -> dict[str, Any] | None:
    model = getattr(tool, "args_schema", None)
    return None if model is None else dict(model.model_json_schema())
