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
from placet.relay.frozen_message import FrozenMessage
from placet.relay.hold import HoldBody, decode_hold_body, frozen_message_from_hold
from placet.relay.holds.message_excerpts import format_label
from placet.relay.holds.resolution import HoldResolver, subscription_from_hold
from placet.relay.policy.policy import Leg
from placet.relay.tasks.relay_tasks import TaskHandle
from placet.relay.tasks.task_repository import Task, TaskEnding, TaskRepository
from placet.relay.tasks.task_view import BAD_ANSWER
from placet.relay.tenants import Registry, Subscription
from placet.relay.traffic.exchange import AnsweredByRelay, Exchange
from placet.relay.traffic.forwarding import (
    HeldMessageForwarder,
    OnTaskId,
    build_follow_up,
    build_input_call,
)
from placet.relay.upstream.connection import ConnectionClosed, ConnectTimeout, ResponseTruncated

APPROVE = "approve"
APPROVED = "Approved"
"""The input for the agent if the reviewer approved without a message."""
CHANGED = "The stored message differs from what the reviewer approved. It was not forwarded."
DELIVERY_UNKNOWN = "The message was sent twice without a response. The agent may or may not have received it."
MAX_SENDS = 2
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
        registry: Registry,
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
        hold = await self.resolver.store.get_hold(hold_id)
        if hold is None or hold.case_id != case_id:
            log.warning("hold_not_found hold_id=%s case_id=%s", hold_id, case_id)
            return
        hold = await self.resolver.resolve(hold)
        body = decode_hold_body(hold)
        if hold.status == "PENDING":
            raise RetryLater("The case is not closed yet.")
        if body.done_at is not None:
            return
        if hold.status == "APPROVED":
            await self._carry_out(hold, body)
        else:
            await self._drop(hold, body)
        await self._notify(hold, body)

    async def fail(self, hold_id: str, message: str) -> None:
        """End the task with this failure after the last attempt."""
        hold = await self.resolver.store.get_hold(hold_id)
        if hold is not None and decode_hold_body(hold).done_at is None:
            await self.resolver.fail(hold, message)
            await self._notify(hold, decode_hold_body(hold))

    # Forward or release

    async def _carry_out(self, hold: HoldRow, body: HoldBody) -> None:
        frozen = frozen_message_from_hold(hold, body)
        if frozen.digest != body.digest or not await self._matches_offer(hold, body):
            await self.resolver.fail(hold, CHANGED)
            return
        try:
            exchange = await self._build_exchange(hold, body, frozen)
            reply = await self._deliver(hold, body, frozen, exchange)
        except AnsweredByRelay:
            await self._finish_held_again(hold)
        except CaseNotFound:
            await self._fail_hold(hold.id, NOT_ALLOWED)
        except Unavailable as outage:
            raise RetryLater(outage.message) from outage
        except A2AError as problem:
            if problem.kind in TRANSIENT_KINDS or isinstance(problem.__cause__, ConnectTimeout):
                raise RetryLater(problem.message) from problem
            await self._fail_hold(hold.id, problem.message)
        else:
            await self._finish(hold, body, exchange, reply)

    async def _matches_offer(self, hold: HoldRow, body: HoldBody) -> bool:
        """Return whether digest, caller and agent match the offer of a case that was approved.

        The offer itself must match the digest under which the person's answer was signed. Of an erased case
        nothing is left to compare; a case that does not exist approves nothing.
        """
        case = await self.resolver.store.get_case(hold.case_id)
        if case is None or case.altered_at is not None:
            return False
        found = await self.resolver.store.get_case_and_offer(hold.case_id)
        if found is None:
            return case.erased_at is not None
        case, offer = found
        if not matches_digest(case, offer) or case.decision is None or case.decision.result.action != APPROVE:
            return False
        held = offer.context.get("held_message")
        stored = {
            "digest": body.digest,
            "caller": format_label(hold.source),
            "agent": format_label(hold.sink),
        }
        return not isinstance(held, dict) or all(held.get(name) == value for name, value in stored.items())

    async def _deliver(
        self, hold: HoldRow, body: HoldBody, frozen: FrozenMessage, exchange: Exchange
    ) -> A2AReply:
        matter = frozen.frame.matter
        if matter == "response":
            return await self._forwarding.release(exchange, frozen.reply())
        if body.agent_task_id is not None:  # the agent has the message: only fetch the result
            query = _build_status_query(exchange, body.agent_task_id)
            return await self._forwarding.forward(query, _ignore_task_id)

        async def save_task_id(task_id: str) -> None:
            current = await self.resolver.store.get_hold(hold.id)
            if current is not None:
                changed = replace(decode_hold_body(current), agent_task_id=task_id)
                await self.resolver.save_progress(current, changed)

        return await self._send(hold, body, exchange, save_task_id)

    async def _send(
        self, hold: HoldRow, body: HoldBody, exchange: Exchange, save_task_id: OnTaskId
    ) -> A2AReply:
        """Forward a message. After an unknown result it is sent at most once more.

        The count is stored before sending, because the server may be killed while it sends.
        """
        if body.send_count >= MAX_SENDS:
            raise A2AError("agent_response", DELIVERY_UNKNOWN)
        await self.resolver.save_progress(hold, replace(body, send_count=body.send_count + 1))
        try:
            return await self._forwarding.forward(exchange, save_task_id)
        except (A2AError, Unavailable) as problem:
            if not isinstance(problem.__cause__, ResponseTruncated | ConnectionClosed):
                current = await self.resolver.store.get_hold(hold.id)
                if current is not None:
                    changed = replace(decode_hold_body(current), send_count=body.send_count)
                    await self.resolver.save_progress(current, changed)
            raise

    async def _build_exchange(self, hold: HoldRow, body: HoldBody, frozen: FrozenMessage) -> Exchange:
        """Return the exchange to resume, with the agent's current credentials.

        Raises CaseNotFound if the caller may no longer call the agent.
        """
        subscription = await self._registry.subscription(hold.source, hold.sink)
        if subscription.tenant != hold.tenant:
            raise CaseNotFound(NOT_ALLOWED)
        frame = frozen.frame
        call, after = frozen.call(), frame.leg
        if frame.matter == "input":
            call = await self._build_input_call(hold, body, frozen, subscription)
            after = Leg.REQUEST_FROM_SOURCE
        return Exchange(
            subscription=subscription,
            call=call,
            correlation_id=hold.correlation_id,
            headers={
                **_build_headers(call, frame.headers, hold.correlation_id),
                **subscription.sink.credentials,
            },
            webhook=frame.webhook,
            after=after,
            handle=TaskHandle(hold.task_id),
        )

    async def _build_input_call(
        self, hold: HoldRow, body: HoldBody, frozen: FrozenMessage, subscription: Subscription
    ) -> A2ACall:
        frame, resolution = frozen.frame, body.resolution
        return build_input_call(
            await self._forwarding.dialect_of(subscription.sink, frame.dialect),
            (resolution.message if resolution is not None else None) or APPROVED,
            message_id=hold.id,
            task_id=frame.upstream_task,
            context_id=frame.upstream_context,
            tenant=frame.tenant,
        )

    # Finish

    async def _finish_held_again(self, hold: HoldRow) -> None:
        """Finish a hold whose response was held again. Fails if the response belongs to another task."""
        task = await self.resolver.find_task(hold)
        if task is not None and task.hold_id == hold.id:
            await self._fail_hold(hold.id, BAD_ANSWER)
        else:
            await self._mark_done(hold, [])

    async def _finish(self, hold: HoldRow, body: HoldBody, exchange: Exchange, reply: A2AReply) -> None:
        task = await self.resolver.find_task(hold)
        if task is None or task.hold_id != hold.id:
            await self._mark_done(hold, [], reply)
            return
        agent_task_id = exchange.handle.upstream_id or body.frame.upstream_task or task.upstream_id
        ending = _build_ending(reply)
        if ending is None and agent_task_id is None:
            ending = TaskEnding(dialect=reply.dialect, failure=BAD_ANSWER)
        await self._link_context(hold, task, reply)
        released = replace(task, hold_id=None, hold_metadata=None, ending=ending, upstream_id=agent_task_id)
        await self._mark_done(hold, [released], reply)

    async def _mark_done(self, hold: HoldRow, tasks: list[Task], reply: A2AReply | None = None) -> None:
        current = await self.resolver.store.get_hold(hold.id)
        await self.resolver.finish(current or hold, tasks, reply)

    async def _fail_hold(self, hold_id: str, message: str) -> None:
        current = await self.resolver.store.get_hold(hold_id)
        if current is not None:
            await self.resolver.fail(current, message)

    async def _link_context(self, hold: HoldRow, task: Task, reply: A2AReply) -> None:
        """Store the agent's id of a context that the relay has named."""
        caller_context, agent_context = task.context_id, reply.context_id
        if caller_context is None or agent_context is None or caller_context == agent_context:
            return
        known = await self._tasks.find(hold.tenant, hold.sink, "context", caller_context)
        if known is not None and known.upstream_id is None:
            linked = replace(known, upstream_id=agent_context)
            await self._tasks.write(hold.tenant, hold.sink, "context", linked)

    async def _drop(self, hold: HoldRow, body: HoldBody) -> None:
        """Drop a message that was not approved. If the agent has a task, try to cancel it."""
        task = await self.resolver.find_task(hold)
        agent_task_id = body.frame.upstream_task or (task.upstream_id if task is not None else None)
        if agent_task_id is not None:
            try:
                await self._cancel(hold, body, agent_task_id)
            except (A2AError, CaseNotFound, Unavailable) as failure:
                log.info("upstream_cancel_failed hold_id=%s error=%s", hold.id, failure)
        await self._mark_done(hold, [])

    async def _cancel(self, hold: HoldRow, body: HoldBody, task_id: str) -> None:
        subscription = await self._registry.subscription(hold.source, hold.sink)
        dialect = await self._forwarding.dialect_of(subscription.sink, body.frame.dialect)
        call = build_task_call(dialect, "cancel", task_id, body.frame.tenant)
        headers = _build_headers(call, body.frame.headers, hold.correlation_id)
        await self._forwarding.cancel(
            Exchange(
                subscription=subscription,
                call=call,
                correlation_id=hold.correlation_id,
                headers={**headers, **subscription.sink.credentials},
                handle=TaskHandle(hold.task_id),
            )
        )

    async def _notify(self, hold: HoldRow, body: HoldBody) -> None:
        try:
            subscription = await self._registry.subscription(hold.source, hold.sink)
            await self._notify_caller(subscription, hold.task_id, hold.correlation_id)
        except CaseNotFound:
            log.info(
                "caller_notice_skipped caller=%s reason=not_subscribed",
                subscription_from_hold(hold, body).source.name,
            )


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
