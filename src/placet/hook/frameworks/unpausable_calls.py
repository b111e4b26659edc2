"""Calls that cannot wait: those that need no review run, all others are refused."""

from uuid import uuid4

from placet.errors import HookError
from placet.hook.approval_rules import Hook, State
from placet.hook.approver import Approver, Run
from placet.hook.grants import GrantSource
from placet.hook.savers.memory import MemorySaver
from placet.hook.tool_call import ToolCall


class UnpausableCalls:
    """Evaluates calls for which a framework could not continue a run. No case is opened for them."""

    def __init__(self, *hooks: Hook, grants: GrantSource | None = None) -> None:
        self._approver = Approver(*hooks, saver=MemorySaver(), grants=grants)

    async def require_no_review(self, call: ToolCall, state: State, advice: str) -> None:
        """Raise HookError with the `advice` if a reviewer would have to decide the call."""
        key = uuid4().hex
        permission = await self._approver.aask(key, call, state=state)
        self._approver.release(key)
        if not isinstance(permission, Run) or permission.call != call:
            raise HookError(f"{call.name} needs approval and cannot wait here. {advice}")
