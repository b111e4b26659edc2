"""Calls in a step of a workflow: the step waits by the workflow's own events, which its context stores."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any, Unpack

from workflows import Context
from workflows.events import Event, HumanResponseEvent, InputRequiredEvent, WorkflowIdleEvent

from placet.errors import HookError
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook
from placet.hook.approver import Approver, Replace, Run, TurnContext
from placet.hook.gate import GateOptions
from placet.hook.interruption import InterruptionMetadata
from placet.hook.savers.saver import Saver
from placet.hook.thread_resumption import AgentThreads
from placet.hook.tool_call import ToolCall

MAX_ANSWERS = 100
"""How often a waiting step may be continued before its call is decided."""
CUT_OFF = "The call was cancelled while it ran. It is not known whether it took effect."


class ApprovalRequested(InputRequiredEvent):  # type: ignore[misc,unused-ignore]
    """A call waits for a reviewer: `key` names its turn, `call_id` the call."""

    key: str
    call_id: str
    review_url: str | None = None


class ApprovalDecided(HumanResponseEvent):  # type: ignore[misc,unused-ignore]
    """Continues the step of a call. It decides nothing: what runs is what the reviewer decided."""

    key: str
    call_id: str


class WorkflowApproval:
    """Runs calls in the steps of workflows after a reviewer has decided them.

    The options are those of Approver.
    """

    def __init__(
        self, *hooks: Hook, saver: Saver, repeatable: Collection[str] = (), **options: Unpack[GateOptions]
    ) -> None:
        self.approver = Approver(*hooks, saver=saver, repeatable=repeatable, **options)

    async def run(
        self,
        ctx: Context,
        key: str,
        call: ToolCall,
        function: Callable[[ToolCall], Any],
        **context: Unpack[TurnContext],
    ) -> str:
        """Run a call once it is decided, and return what the model reads; call it first in a step.

        `function` receives the call as it was decided. The `key` names the turn: the same in every process,
        and different for every other turn. The `context` is that of `Approver.ask`.
        """
        permission = await self._wait(ctx, key, call, context)
        if isinstance(permission, Replace):
            return permission.result
        try:
            result = function(permission.call)
            if inspect.isawaitable(result):
                result = await result
        except BaseException as error:
            text = self.approver.fail(
                key, call, error if isinstance(error, Exception) else HookError(CUT_OFF)
            )
            if isinstance(error, Exception):
                return text
            raise
        return await self.approver.afinish(key, call, result)

    async def events(self, handler: Any, decided: Sequence[Event] = ()) -> AsyncIterator[Event]:
        """Yield the events of a run until it ends or waits: then its context may be stored.

        `decided` are the events of `answer`, which continue a workflow that was restored from its context.
        """
        waiting = list(decided)
        async for event in handler.stream_events(expose_internal=True):
            if not isinstance(event, WorkflowIdleEvent):
                yield event
            elif waiting:
                for each in waiting:
                    handler.ctx.send_event(each)
                waiting = []
            else:
                return

    def answer(self, key: str, feedback: Feedback | None = None) -> list[Event]:
        """Store decisions; return the events that continue the workflow, none while a call is undecided.

        Without feedback, takes up the decision made on the page.
        """
        answered = self.approver.answer(key, feedback)
        if answered.undecided:
            return []
        calls = [*(each.call for each in answered.tool_feedbacks), *answered.tools_automatically_approved]
        return [ApprovalDecided(key=key, call_id=call.id, response="decided") for call in calls]

    def waiting(self, key: str) -> InterruptionMetadata | None:
        """Return the calls of a turn that were stopped, with the decisions so far."""
        return self.approver.waiting(key)

    def threads_of(
        self, resume: Callable[[str], Any], *, aresume: Callable[[str], Awaitable[Any]] | None = None
    ) -> AgentThreads:
        """Return the waiting turns for `resume_pending` and `resume_as_decided`.

        `resume` gets the key of a turn. It restores the workflow, and sends it the events of `answer`.
        """
        return self.approver.threads_of(resume, aresume=aresume)

    async def _wait(self, ctx: Context, key: str, call: ToolCall, context: TurnContext) -> Run | Replace:
        """Return how the call continues; until it is decided, the workflow leaves the step here."""
        stopped = await self.approver.gate.run_blocking(lambda: self.approver.waiting(key))
        if stopped is None:
            permission = await self.approver.aask(key, call, **context)
            if isinstance(permission, Run | Replace):
                return permission
            stopped = permission.interruption
        link = (stopped.case or {}).get("review_url")
        for number in range(MAX_ANSWERS):
            # The step starts again when the event arrives, and must then wait for it once more.
            await ctx.wait_for_event(
                ApprovalDecided,
                waiter_event=ApprovalRequested(key=key, call_id=call.id, review_url=link),
                waiter_id=f"{key}/{call.id}/{number}",
                requirements={"key": key, "call_id": call.id},
                timeout=None,
            )
            permission = await self.approver.aask(key, call, **context)
            if isinstance(permission, Run | Replace):
                return permission
        raise HookError(f"The step of {call.name} was continued {MAX_ANSWERS} times without a decision.")
