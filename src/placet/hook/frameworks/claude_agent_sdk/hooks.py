"""Hooks of the Claude Agent SDK: it calls them before and after each tool call, also those of subagents.

Claude Code runs all hooks of a call at once, and each may change its arguments. So our hook does not decide:
it makes Claude Code ask for permission. That asks with the arguments as all hooks left them, and what runs is
exactly what the permission says.
"""

import asyncio
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

from claude_agent_sdk import (
    CanUseTool,
    CanUseToolShadowedWarning,
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

from placet.errors import HookError
from placet.hook.approver import Approver, Replace, Run
from placet.hook.frameworks.waiting_calls import CALL_ID, DecidedCall, WaitingCalls
from placet.hook.savers.memory import MemorySaver
from placet.hook.tool_call import ToolCall

BEFORE, AFTER, FAILED = "PreToolUse", "PostToolUse", "PostToolUseFailure"
TIMEOUT_S = 30 * 24 * 3600.0
"""How long Claude Code waits for a hook."""
ONLY_ARGUMENTS = "An edit can change the arguments of a call, not its tool."
EDITED = "A person changed this call. It ran with these arguments: "
UNDECIDED = "The approval failed, so this was not done: "
NEEDS_APPROVAL = "A person must approve this call."
ToolPermission: TypeAlias = PermissionResultAllow | PermissionResultDeny


class ClaudeAgentApproval(WaitingCalls):
    """Stops tool calls of Claude: `query(prompt=…, options=approval.gate(ClaudeAgentOptions(…)))`.

    The options are those of WaitingCalls. Rules name the tools as Claude Code does: `Bash`, `Write`,
    `mcp__shop__refund`.
    """

    def __init__(self, *hooks: Any, **options: Any) -> None:
        super().__init__(*hooks, **options)
        self._rules = Approver(*hooks, saver=MemorySaver())
        self._asked: set[str] = set()
        self._decided: dict[str, DecidedCall] = {}

    def gate(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        """Return the options with the hooks of this approval, and with its `can_use_tool` around theirs."""
        callbacks = {BEFORE: self._before, AFTER: self._after, FAILED: self._after}
        hooks: dict[Any, list[HookMatcher]] = {**(options.hooks or {})}
        for event, callback in callbacks.items():
            ours = HookMatcher(hooks=[callback], timeout=TIMEOUT_S)
            hooks[event] = [*hooks.get(event, []), ours]
        # The SDK warns that `can_use_tool` may not be reached; our hook asks in every mode, and so it is.
        warnings.filterwarnings("ignore", category=CanUseToolShadowedWarning)
        return replace(options, hooks=hooks, can_use_tool=partial(self._permit, options.can_use_tool))

    async def can_use_tool(
        self, tool_name: str, tool_input: dict[str, Any], context: ToolPermissionContext
    ) -> ToolPermission:
        """Decide where Claude Code itself would ask: as `can_use_tool` of the options, without `gate`.

        A tool without a rule is denied, since nobody is asked about it.
        """
        try:
            if not await asyncio.to_thread(self._needs_review, tool_name, tool_input):
                return PermissionResultDeny(message=f"No rule says who approves {tool_name}.")
            decided = await asyncio.to_thread(self.decide, tool_name, tool_input, None)
            allowed = self._find_allowed(decided)
        except Exception as error:
            return PermissionResultDeny(message=f"{UNDECIDED}{error}")
        if not isinstance(allowed, ToolCall):
            return PermissionResultDeny(message=allowed)
        self._decided[context.tool_use_id or ""] = decided
        return PermissionResultAllow(updated_input=allowed.arguments)

    async def _permit(
        self,
        others: CanUseTool | None,
        tool_name: str,
        tool_input: dict[str, Any],
        context: ToolPermissionContext,
    ) -> ToolPermission:
        """Decide about a call for which our hook has asked; leave all others to the user's own function."""
        if context.tool_use_id in self._asked:
            self._asked.discard(context.tool_use_id)
            return await self.can_use_tool(tool_name, tool_input, context)
        if others is not None:
            return await others(tool_name, tool_input, context)
        return PermissionResultDeny(message=f"{tool_name} is not allowed, and nobody is asked about it.")

    # Hooks

    async def _before(self, sent: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Have Claude Code ask about a call; say nothing about one that no rule wants to be reviewed."""
        try:
            if not await asyncio.to_thread(self._needs_review, sent["tool_name"], sent["tool_input"]):
                return {}
        except Exception as error:
            return _format(BEFORE, permissionDecision="deny", permissionDecisionReason=f"{UNDECIDED}{error}")
        self._asked.add(sent["tool_use_id"])
        return _format(BEFORE, permissionDecision="ask", permissionDecisionReason=NEEDS_APPROVAL)

    async def _after(self, sent: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Record that a call ran or failed; tell Claude of an edit."""
        decided = self._decided.pop(sent["tool_use_id"], None)
        if decided is None:
            return {}
        event = sent["hook_event_name"]
        if event == FAILED:
            await asyncio.to_thread(self.fail, decided, HookError(str(sent.get("error"))))
        else:
            await asyncio.to_thread(self.finish, decided, sent.get("tool_response"))
        allowed = decided.permission
        if not isinstance(allowed, Run) or allowed.call == decided.asked:
            return {}
        return _format(event, additionalContext=f"{EDITED}{allowed.call.arguments}")

    def _needs_review(self, name: str, arguments: dict[str, Any]) -> bool:
        """Return whether a rule wants this call reviewed and no grant covers it, or it was stopped before."""
        if self.was_stopped(name, arguments):  # a condition that changes cannot undo a decision
            return True
        key, call = uuid4().hex, ToolCall(id=CALL_ID, name=name, arguments=dict(arguments))
        permission = self._rules.ask(key, call)
        self._rules.release(key)
        return not isinstance(permission, Run)

    def _find_allowed(self, decided: DecidedCall) -> ToolCall | str:
        """Return the call that may run, or what Claude reads in its place."""
        permission: Run | Replace = decided.permission
        if isinstance(permission, Replace):
            return permission.result
        if permission.call.name != decided.asked.name:
            return self.fail(decided, HookError(ONLY_ARGUMENTS))
        return permission.call


def _format(event: str, **said: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **said}}
