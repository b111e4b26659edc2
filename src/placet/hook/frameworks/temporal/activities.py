"""The worker's side: activities that ask about calls and run them, and signals that continue workflows."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Unpack

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from placet.errors import CheckpointConflict, HookError, PlacetError, ThreadBusy, Unavailable
from placet.hook.answer_validation import Feedback
from placet.hook.approval_rules import Hook
from placet.hook.approver import Approver, Replace, TurnContext, Wait
from placet.hook.checkpoint import Checkpoint
from placet.hook.frameworks.temporal.workflow_calls import (
    DECIDED,
    RELEASE,
    RUN_CALL,
    WAITING,
    CallProgress,
    CallTask,
    read_workflow_id,
)
from placet.hook.gate import GateOptions
from placet.hook.interruption import InterruptionMetadata
from placet.hook.savers.saver import Saver
from placet.hook.thread_resumption import AgentThreads
from placet.hook.tool_call import ToolCall
from placet.hook.tools import Tool, describe_missing_tool, index_tools

CUT_OFF = "The call was cancelled while it ran. It is not known whether it took effect."
BEATS_PER_TIMEOUT = 3
BUSY_RETRY = timedelta(seconds=1)


class TemporalApproval:
    """Runs the calls of workflows after a reviewer has decided them; pass `activities` to your workers.

    `tools` are the functions that workflows may call by name. The other options are those of Approver.
    """

    def __init__(
        self,
        *hooks: Hook,
        tools: Sequence[Callable[..., Any] | Tool],
        saver: Saver,
        repeatable: Collection[str] = (),
        **options: Unpack[GateOptions],
    ) -> None:
        self._tools = index_tools(tools)
        for each in self._tools.values():
            _require_plain(each)
        names = {*repeatable, *(each.name for each in self._tools.values() if each.repeatable)}
        self.approver = Approver(*hooks, saver=saver, repeatable=names, **options)
        self._clock = options.get("clock") or (lambda: datetime.now(UTC))

    @property
    def activities(self) -> list[Callable[..., Any]]:
        """The activities that `ApprovedCalls` starts."""
        return [self._run_call, self._release]

    async def waiting(self, handle: WorkflowHandle[Any, Any]) -> InterruptionMetadata | None:
        """Return the calls of a workflow that wait for a decision, with their case; None if none wait."""
        key = await handle.query(WAITING)
        return (
            None
            if key is None
            else await self.approver.gate.run_blocking(partial(self.approver.waiting, key))
        )

    async def answer(
        self, client: Client, waiting: InterruptionMetadata, feedback: Feedback | None = None
    ) -> InterruptionMetadata:
        """Store decisions, and continue the workflow if all of its calls are decided.

        Without feedback, takes up the decision made on the page.
        """
        return await self._answer(client, waiting.thread_id, feedback)

    def threads_of(self, client: Client) -> AgentThreads:
        """Return the waiting turns for `aresume_as_decided`, which continues their workflows by signal."""

        def refuse_blocking(key: str) -> Any:
            raise HookError("Temporal's client is async: use aresume_pending or aresume_as_decided.")

        async def signal(key: str) -> Any:
            answered = await self._answer(client, key, None)
            return answered if answered.undecided else None

        def find_key(checkpoint: Checkpoint) -> str | None:
            is_ours = checkpoint.interruption is not None and read_workflow_id(checkpoint.thread_id)
            return checkpoint.thread_id if is_ours and checkpoint.stage == "paused" else None

        return self.approver.gate.threads_of(refuse_blocking, aresume=signal, find_thread=find_key)

    async def _answer(self, client: Client, key: str, feedback: Feedback | None) -> InterruptionMetadata:
        answered = await self.approver.gate.run_blocking(partial(self.approver.answer, key, feedback))
        workflow_id = read_workflow_id(key)
        if not answered.undecided and workflow_id is not None:
            try:
                await client.get_workflow_handle(workflow_id).signal(DECIDED, key)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:  # that one has ended
                    raise
        return answered

    @activity.defn(name=RUN_CALL)
    async def _run_call(self, task: CallTask) -> CallProgress:
        with _as_activity_errors():
            calls = [ToolCall(**call) for call in task.calls]
            call = next(each for each in calls if each.id == task.call_id)
            if call.name not in self._tools:
                return CallProgress(result=describe_missing_tool(call.name))
            turn = [each for each in calls if each.name in self._tools]
            schemas = {name: each.schema for name, each in self._tools.items()}
            context: TurnContext = {"turn": turn, "state": task.state, "schemas": schemas}
            permission = await self.approver.aask(task.key, call, **context)
            if isinstance(permission, Wait):
                return CallProgress(expires_in=self._find_seconds_left(permission.interruption))
            if isinstance(permission, Replace):
                return CallProgress(result=permission.result)
            async with _heartbeats():
                return CallProgress(result=await self._run_tool(task.key, call, permission.call))

    @activity.defn(name=RELEASE)
    async def _release(self, key: str) -> None:
        """Withdraw the case of a workflow that was cancelled while it waited."""
        with _as_activity_errors():
            await self.approver.gate.run_blocking(partial(self.approver.release, key))

    async def _run_tool(self, key: str, asked: ToolCall, call: ToolCall) -> str:
        tool = self._tools[call.name]
        arguments = tool.prepare_arguments(call.arguments, f"{key}/{asked.id}")
        try:
            if inspect.iscoroutinefunction(tool.function):
                result = await tool.function(**arguments)
            else:
                result = await asyncio.to_thread(tool.function, **arguments)
        except Exception as error:
            return await self.approver.afail(key, asked, error)
        except BaseException:
            self.approver.fail(key, asked, HookError(CUT_OFF))
            raise
        return await self.approver.afinish(key, asked, result)

    def _find_seconds_left(self, stopped: InterruptionMetadata) -> float | None:
        """Return how long reviewers have: until the calls or their case expire."""
        ends = [stopped.expires_at, _read_time((stopped.case or {}).get("expires_at"))]
        now = self._clock()
        return min(((end - now).total_seconds() for end in ends if end is not None), default=None)


def _require_plain(tool: Tool) -> None:
    if tool.timeout is not None:
        raise HookError(f"{tool.name} has a timeout. Pass start_to_close to ApprovedCalls instead.")
    if tool.agent is not None:
        raise HookError(f"{tool.name} is an agent. Run it as a child workflow with ApprovedCalls of its own.")


def _read_time(text: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None


@contextmanager
def _as_activity_errors() -> Iterator[None]:
    """Say which errors another try may cure: a call that runs elsewhere, and a server that is away."""
    try:
        yield
    except (ThreadBusy, CheckpointConflict, Unavailable) as error:
        raise ApplicationError(str(error), type=error.code, next_retry_delay=BUSY_RETRY) from error
    except PlacetError as error:
        raise ApplicationError(str(error), type=error.code, non_retryable=True) from error


@asynccontextmanager
async def _heartbeats() -> AsyncIterator[None]:
    """Tell Temporal that the call still runs, so that it notices when this worker dies."""
    limit = activity.info().heartbeat_timeout

    async def beat() -> None:
        while limit is not None:
            activity.heartbeat()
            await asyncio.sleep(limit.total_seconds() / BEATS_PER_TIMEOUT)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
