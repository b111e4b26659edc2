"""Hooks of the Claude Agent SDK: it calls them before and after each tool call, also those of subagents."""

import asyncio
from dataclasses import replace
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

from placet.errors import HookError
from placet.hook.approver import Replace, Run
from placet.hook.frameworks.waiting_calls import DecidedCall, WaitingCalls
from placet.hook.tool_call import ToolCall

BEFORE, AFTER, FAILED = "PreToolUse", "PostToolUse", "PostToolUseFailure"
TIMEOUT_S = 30 * 24 * 3600.0
"""How long Claude Code waits for a hook. A hook that is given up blocks its call."""
ONLY_ARGUMENTS = "An edit can change the arguments of a call, not its tool."
EDITED = "A person changed this call. It ran with these arguments: "
UNDECIDED = "The approval failed, so this was not done: "


class ClaudeAgentApproval(WaitingCalls):
    """Stops tool calls of Claude: `query(prompt=…, options=approval.gate(ClaudeAgentOptions(…)))`.

    The options are those of WaitingCalls. Rules name the tools as Claude Code does: `Bash`, `Write`,
    `mcp__shop__refund`.
    """

    def __init__(self, *hooks: Any, **options: Any) -> None:
        super().__init__(*hooks, **options)
        self._decided: dict[str, DecidedCall] = {}

    def gate(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        """Return the options with the hooks of this approval, after those that they have."""
        callbacks = {BEFORE: self._before, AFTER: self._after, FAILED: self._after}
        hooks: dict[Any, list[HookMatcher]] = {**(options.hooks or {})}
        for event, callback in callbacks.items():
            ours = HookMatcher(hooks=[callback], timeout=TIMEOUT_S)
            hooks[event] = [*hooks.get(event, []), ours]
        return replace(options, hooks=hooks)

    async def can_use_tool(
        self, tool_name: str, tool_input: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Decide where Claude Code itself would ask: as `can_use_tool` of the options, without `gate`.

        A tool without a rule is denied, since nobody is asked about it.
        """
        call_id = context.tool_use_id or ""
        try:
            decided = await asyncio.to_thread(self.decide, tool_name, tool_input, None)
            allowed = self._find_allowed(decided)
            if not isinstance(allowed, ToolCall):
                return PermissionResultDeny(message=allowed)
            if not self._is_reviewed(decided):
                return PermissionResultDeny(message=f"No rule says who approves {tool_name}.")
        except Exception as error:
            return PermissionResultDeny(message=f"{UNDECIDED}{error}")
        self._decided[call_id] = decided
        return PermissionResultAllow(updated_input=allowed.arguments)

    # Hooks

    async def _before(self, sent: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Decide about a call; say nothing about one that no rule wants to be reviewed."""
        try:
            decided = await asyncio.to_thread(self.decide, sent["tool_name"], sent["tool_input"], None)
            allowed = self._find_allowed(decided)
        except Exception as error:
            return _format(permissionDecision="deny", permissionDecisionReason=f"{UNDECIDED}{error}")
        if not isinstance(allowed, ToolCall):
            return _format(permissionDecision="deny", permissionDecisionReason=allowed)
        if not self._is_reviewed(decided):
            return {}
        self._decided[sent["tool_use_id"]] = decided
        said: dict[str, Any] = {"permissionDecision": "allow"}
        if allowed.arguments != decided.asked.arguments:
            said |= {
                "updatedInput": allowed.arguments,
                "additionalContext": f"{EDITED}{allowed.arguments}",
            }
        return _format(**said)

    async def _after(self, sent: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Record that a call ran or failed."""
        decided = self._decided.pop(sent["tool_use_id"], None)
        if decided is None:
            return {}
        if sent["hook_event_name"] == FAILED:
            await asyncio.to_thread(self.fail, decided, HookError(str(sent.get("error"))))
        else:
            await asyncio.to_thread(self.finish, decided, sent.get("tool_response"))
        return {}

    def _find_allowed(self, decided: DecidedCall) -> ToolCall | str:
        """Return the call that may run, or what Claude reads in its place."""
        permission: Run | Replace = decided.permission
        if isinstance(permission, Replace):
            return permission.result
        if permission.call.name != decided.asked.name:
            return self.fail(decided, HookError(ONLY_ARGUMENTS))
        return permission.call

    def _is_reviewed(self, decided: DecidedCall) -> bool:
        return self.approver.waiting(decided.key) is not None


def _format(**said: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": BEFORE, **said}}
