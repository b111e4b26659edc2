"""Carry out a decision about a held message: forward it, release it, send input, or cancel the task."""

import logging
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from placet.cases.case import matches_digest
from placet.errors import CaseNotFound, Unavailable
from placet.ports.hold_store import HoldRow
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError, ErrorKind
from placet.relay.a2a.reply import A2AReply, build_task_call
from placet.relay.exchange import Answered
from placet.relay.hold import (
    BeginSending,
    FrozenMessage,
    Hold,
    HoldStage,
    MessageFrame,
    NoteDelivery,
    UndoSending,
    hold_from_row,
)
from placet.relay.holds.message_excerpts import format_label
from placet.relay.holds.resolution import HoldResolver
from placet.relay.policy.policy import Leg
from placet.relay.registry import LiveRegistry
from placet.relay.task import FinishTask, ReleaseTask, Task, TaskEnding
from placet.relay.tasks.relay_tasks import TaskHandle
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tasks.task_view import BAD_ANSWER
from placet.relay.tenants import Subscription
from placet.relay.traffic.exchange import Exchange
from placet.relay.traffic.forwarding import (
    HeldMessageForwarder,
    build_follow_up,
    build_input_call,
)
from placet.relay.upstream.connection import ConnectionClosed, ConnectTimeout, ResponseTruncated

APPROVE = "approve"
APPROVED = "Approved"
"""The input for the agent if the reviewer approved without a message."""
CHANGED = "The stored message differs from what the reviewer approved. It was not forwarded."
NOT_ALLOWED = "The caller may no longer call this agent."
TRANSIENT_KINDS: frozenset[ErrorKind] = frozenset({"unreachable", "busy", "internal"})
"""Errors that a retry may resolve. The agent has not responded to any of them."""

log = logging.getLogger("placet.relay")

NotifyCaller = Callable[[Subscription, str, str], Awaitable[None]]


class RetryLater(Exception):
    """The hold cannot be resumed now; try again later."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class HoldResumer:
    """Carries out decisions. Each step can be repeated.

    `notify_caller` pushes the task's state to the caller.
    """

    def __init__(
        self,
        *,
        resolver: HoldResolver,
        forwarding: HeldMessageForwarder,
        registry: LiveRegistry,
        tasks: TaskRepository,
        notify_caller: NotifyCaller,
    ) -> None:
        self.resolver = resolver
        self._notify_caller = notify_caller
        self._forwarding = forwarding
        self._registry = registry
        self._tasks = tasks

    async def resume(self, hold_id: str, case_id: str) -> None:
        """Carry out the decision of a closed case; raise RetryLater after a temporary failure."""
        row = await self.resolver.store.get_hold(hold_id)
        if row is None or row.case_id != case_id:
            log.warning("hold_not_found hold_id=%s case_id=%s", hold_id, case_id)
            return
        hold = hold_from_row(await self.resolver.resolve(row))
        if hold.stage is HoldStage.WAITING:
            raise RetryLater("The case is not closed yet.")
        if hold.stage.is_final:
            return
        if hold.stage is HoldStage.REFUSED:
            await self._drop(hold)
        else:
            await self._carry_out(hold)
        await self._notify(hold)

    async def fail(self, hold_id: str, message: str) -> None:
        """End the task with this failure after the last attempt."""
        hold = await self.resolver.get(hold_id)
        if hold is not None and not hold.stage.is_final:
            await self.resolver.fail(hold, message)
            await self._notify(hold)

    # Forward or release

    async def _carry_out(self, hold: Hold) -> None:
        frozen = hold.message
        if frozen.digest != hold.body.digest or not await self._matches_offer(hold):
            await self.resolver.fail(hold, CHANGED)
            return
        try:
            exchange = await self._build_exchange(hold, frozen)
            reply = await self._deliver(hold, frozen, exchange)
        except CaseNotFound:
            await self.resolver.fail(hold, NOT_ALLOWED)
        except Unavailable as outage:
            raise RetryLater(outage.message) from outage
        except A2AError as problem:
            if problem.kind in TRANSIENT_KINDS or isinstance(problem.__cause__, ConnectTimeout):
                raise RetryLater(problem.message) from problem
            await self.resolver.fail(hold, problem.message)
        else:
            if isinstance(reply, Answered):
                await self._finish_held_again(hold)
            else:
                await self._finish(hold, exchange, reply)

    async def _matches_offer(self, hold: Hold) -> bool:
        """Return whether digest, caller and agent match the offer of a case that was approved.

        The offer itself must match the digest under which the person's answer was signed. Of an erased case
        nothing is left to compare; a case that does not exist approves nothing.
        """
        row = hold.row
        case = await self.resolver.store.get_case(row.case_id)
        if case is None or case.altered_at is not None:
            return False
        found = await self.resolver.store.get_case_and_offer(row.case_id)
        if found is None:
            return case.erased_at is not None
        case, offer = found
        if not matches_digest(case, offer) or case.decision is None or case.decision.result.action != APPROVE:
            return False
        held = offer.context.get("held_message")
        stored = {
            "digest": hold.body.digest,
            "caller": format_label(row.source),
            "agent": format_label(row.sink),
        }
        return not isinstance(held, dict) or all(held.get(name) == value for name, value in stored.items())

    async def _deliver(self, hold: Hold, frozen: FrozenMessage, exchange: Exchange) -> A2AReply | Answered:
        if frozen.frame.matter == "response":
            return await self._forwarding.release(exchange, frozen.reply())
        if hold.stage is HoldStage.DELIVERED:  # the agent has the message: only fetch the result
            query = _build_status_query(exchange, hold.body.agent_task_id or "")
            return await self._forwarding.forward(query, _ignore_task_id)
        return await self._send(hold, exchange)

    async def _send(self, hold: Hold, exchange: Exchange) -> A2AReply | Answered:
        """Forward a message. After an unknown result it is sent at most once more."""
        hold = await self.resolver.advance(hold, BeginSending())

        async def note_delivery(task_id: str) -> None:
            await self.resolver.advance(hold, NoteDelivery(agent_task_id=task_id))

        try:
            return await self._forwarding.forward(exchange, note_delivery)
        except (A2AError, Unavailable) as problem:
            if not isinstance(problem.__cause__, ResponseTruncated | ConnectionClosed):
                await self.resolver.advance(hold, UndoSending())
            raise

    async def _build_exchange(self, hold: Hold, frozen: FrozenMessage) -> Exchange:
        """Return the exchange to resume, with the agent's current credentials.

        Raises CaseNotFound if the caller may no longer call the agent.
        """
        row = hold.row
        subscription = await self._registry.subscription(row.source, row.sink)
        if subscription.tenant != row.tenant:
            raise CaseNotFound(NOT_ALLOWED)
        frame = frozen.frame
        call, after = frozen.call(), frame.leg
        if frame.matter == "input":
            call = await self._build_input_call(hold, frozen, subscription)
            after = Leg.REQUEST_FROM_SOURCE
        return Exchange(
            subscription=subscription,
            call=call,
            correlation_id=row.correlation_id,
            headers={
                **_build_headers(call, frame.headers, row.correlation_id),
                **subscription.sink.credentials,
            },
            webhook=frame.webhook,
            after=after,
            handle=TaskHandle(row.task_id),
        )

    async def _build_input_call(
        self, hold: Hold, frozen: FrozenMessage, subscription: Subscription
    ) -> A2ACall:
        frame, resolution = frozen.frame, hold.body.resolution
        return build_input_call(
            await self._forwarding.dialect_of(subscription.sink, frame.dialect),
            (resolution.message if resolution is not None else None) or APPROVED,
            message_id=hold.id,
            task_id=frame.upstream_task,
            context_id=frame.upstream_context,
            tenant=frame.tenant,
        )

    # Finish

    async def _finish_held_again(self, hold: Hold) -> None:
        """Finish a hold whose response was held again. Fails if the response belongs to another task."""
        task = await self.resolver.find_task(hold.row)
        if task is not None and task.hold_id == hold.id:
            await self.resolver.fail(hold, BAD_ANSWER)
        else:
            await self.resolver.finish(hold)

    async def _finish(self, hold: Hold, exchange: Exchange, reply: A2AReply) -> None:
        task = await self.resolver.find_task(hold.row)
        known_id = None if task is None else task.upstream_id
        agent_task_id = exchange.handle.upstream_id or hold.body.frame.upstream_task or known_id
        if task is not None and task.hold_id == hold.id:
            await self._link_context(hold.row, task, reply)
        await self.resolver.finish(hold, _build_outcome(hold, reply, agent_task_id), reply)

    async def _link_context(self, hold: HoldRow, task: Task, reply: A2AReply) -> None:
        """Store the agent's id of a context that the relay has named."""
        caller_context, agent_context = task.context_id, reply.context_id
        if caller_context is None or agent_context is None or caller_context == agent_context:
            return
        known = await self._tasks.find(hold.tenant, hold.sink, "context", caller_context)
        if known is not None and known.upstream_id is None:
            linked = replace(known, upstream_id=agent_context)
            await self._tasks.write(hold.tenant, hold.sink, "context", linked)

    async def _drop(self, hold: Hold) -> None:
        """Drop a message that was not approved. If the agent has a task, try to cancel it."""
        task = await self.resolver.find_task(hold.row)
        agent_task_id = hold.body.frame.upstream_task or (task.upstream_id if task is not None else None)
        if agent_task_id is not None:
            try:
                await self._cancel(hold.row, hold.body.frame, agent_task_id)
            except (A2AError, CaseNotFound, Unavailable) as failure:
                log.info("upstream_cancel_failed hold_id=%s error=%s", hold.id, failure)
        await self.resolver.finish(hold)

    async def _cancel(self, hold: HoldRow, frame: MessageFrame, task_id: str) -> None:
        subscription = await self._registry.subscription(hold.source, hold.sink)
        dialect = await self._forwarding.dialect_of(subscription.sink, frame.dialect)
        call = build_task_call(dialect, "cancel", task_id, frame.tenant)
        headers = _build_headers(call, frame.headers, hold.correlation_id)
        await self._forwarding.cancel(
            Exchange(
                subscription=subscription,
                call=call,
                correlation_id=hold.correlation_id,
                headers={**headers, **subscription.sink.credentials},
                handle=TaskHandle(hold.task_id),
            )
        )

    async def _notify(self, hold: Hold) -> None:
        row = hold.row
        try:
            subscription = await self._registry.subscription(row.source, row.sink)
            await self._notify_caller(subscription, row.task_id, row.correlation_id)
        except CaseNotFound:
            log.info("caller_notice_skipped caller=%s reason=not_subscribed", row.source)


def _build_outcome(hold: Hold, reply: A2AReply, agent_task_id: str | None) -> ReleaseTask | FinishTask:
    """Return what becomes of the task after the agent's response to the approved message."""
    ending = _build_ending(reply)
    if ending is None and agent_task_id is not None:
        return ReleaseTask(hold_id=hold.id, agent_task_id=agent_task_id)
    if ending is None:
        ending = TaskEnding(dialect=reply.dialect, failure=BAD_ANSWER)
    return FinishTask(hold_id=hold.id, ending=ending, agent_task_id=agent_task_id)


def _build_ending(reply: A2AReply) -> TaskEnding | None:
    """Return how the task ends; None if the agent continues it."""
    if reply.error is not None:
        message = reply.error.get("message") if isinstance(reply.error, dict) else None
        return TaskEnding(dialect=reply.dialect, failure=message if isinstance(message, str) else BAD_ANSWER)
    if reply.message is not None:
        return TaskEnding(dialect=reply.dialect, message=reply.message)
    return TaskEnding(dialect=reply.dialect, task=reply.task) if reply.final and reply.task else None


def _build_status_query(exchange: Exchange, task_id: str) -> Exchange:
    query = build_follow_up(exchange, task_id, "get")
    return replace(query, after=Leg.REQUEST_TO_SINK)


def _build_headers(call: A2ACall, stored: dict[str, str], correlation_id: str) -> dict[str, str]:
    """Return the stored headers of the first call, adapted to this call."""
    defaults = {
        "accept": "text/event-stream" if call.streamed else "application/json",
        "content-type": "application/json",
        "x-correlation-id": correlation_id,
    }
    version = {"a2a-version": call.dialect.version}
    return defaults | stored | ({} if "a2a-version" not in stored and call.dialect.legacy else version)


async def _ignore_task_id(task_id: str) -> None:
    """Do nothing, because the task id is already stored."""
