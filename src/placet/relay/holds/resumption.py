"""Carry out a decision about a held message: forward, release, answer or cancel."""

import logging
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from placet.errors import CaseNotFound, Unavailable
from placet.ports.hold_store import HoldRow
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError, ErrorKind
from placet.relay.a2a.reply import A2AReply
from placet.relay.holds.frozen_message import FrozenMessage
from placet.relay.holds.hold_body import HoldBody, decode_hold_body, frozen_message_from_hold
from placet.relay.holds.message_excerpts import format_label
from placet.relay.holds.resolution import HoldResolver, subscription_from_hold
from placet.relay.policies.policy import Leg
from placet.relay.registry.subscriptions import Registry, Subscription
from placet.relay.tasks.relay_tasks import TaskHandle
from placet.relay.tasks.task_repository import Task, TaskEnding, TaskRepository
from placet.relay.tasks.task_view import BAD_ANSWER
from placet.relay.traffic.exchange import AnsweredByRelay, Exchange
from placet.relay.traffic.forwarding import (
    HeldMessageForwarder,
    OnTaskId,
    build_follow_up,
    build_input_call,
    build_task_call,
)
from placet.relay.upstream.errors import ConnectionClosed, ConnectTimeout, ResponseTruncated

APPROVED = "Approved"
"""What an agent is told that asked for input, where the reviewer said nothing."""
CHANGED = "What was stored is not what was shown to the reviewer; it was not forwarded."
DELIVERY_UNKNOWN = "The message was sent twice and never answered; whether the agent has it is not known."
MAX_SENDS = 2
NOT_ALLOWED = "The caller may no longer call this agent."
TRANSIENT_KINDS: frozenset[ErrorKind] = frozenset({"unreachable", "busy", "internal"})
"""What may be different later: nothing that an agent has answered."""

log = logging.getLogger("placet.relay")

NotifyCaller = Callable[[Subscription, str, str], Awaitable[None]]


class RetryLater(Exception):
    """The hold cannot be resumed now; try again later."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class HoldResumer:
    """Carries out decisions; every step is idempotent."""

    def __init__(
        self,
        *,
        settling: HoldResolver,
        forwarding: HeldMessageForwarder,
        registry: Registry,
        book: TaskRepository,
        notify_caller: NotifyCaller | None = None,
    ) -> None:
        self.settling = settling
        self.notify_caller = notify_caller
        """Tells a caller that wants to be told of changes."""
        self._forwarding = forwarding
        self._registry = registry
        self._book = book

    async def resume(self, hold_id: str, case_id: str) -> None:
        """Do what the closed case says; raises Later for what may be tried again."""
        hold = await self.settling.store.get_hold(hold_id)
        if hold is None or hold.case_id != case_id:
            log.warning("hold_not_found case_id=%s", case_id)
            return
        hold = await self.settling.resolve(hold)
        body = decode_hold_body(hold)
        if hold.status == "PENDING":
            raise RetryLater("The case is not closed yet.")
        if body.done_at is not None:
            return
        if hold.status == "APPROVED":
            await self._carry_out(hold, body)
        else:
            await self._give_up(hold, body)
        await self._notify(hold, body)

    async def fail(self, hold_id: str, words: str) -> None:
        """No more is tried: the task fails for all to see."""
        hold = await self.settling.store.get_hold(hold_id)
        if hold is not None and decode_hold_body(hold).done_at is None:
            await self.settling.fail(hold, words)
            await self._notify(hold, decode_hold_body(hold))

    # Going on

    async def _carry_out(self, hold: HoldRow, body: HoldBody) -> None:
        frozen = frozen_message_from_hold(hold, body)
        if frozen.digest != body.digest or not await self._is_what_was_shown(hold, body):
            await self.settling.fail(hold, CHANGED)
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

    async def _is_what_was_shown(self, hold: HoldRow, body: HoldBody) -> bool:
        """Whether digest, caller and agent are those on the reviewer's page, as long as there is one."""
        found = await self.settling.store.get_case_and_offer(hold.case_id)
        held = found[1].context.get("held_message") if found is not None else None
        shown = {"digest": body.digest, "caller": format_label(hold.source), "agent": format_label(hold.sink)}
        return not isinstance(held, dict) or all(held.get(name) == value for name, value in shown.items())

    async def _deliver(
        self, hold: HoldRow, body: HoldBody, frozen: FrozenMessage, exchange: Exchange
    ) -> A2AReply:
        matter = frozen.frame.matter
        if matter == "response":
            return await self._forwarding.release(exchange, frozen.reply())
        if body.ran_as is not None:  # the agent has it: all that is left is to ask what came of it
            return await self._forwarding.forward(_build_status_query(exchange, body.ran_as), _ignore_task_id)

        async def save_task_id(task_id: str) -> None:
            current = await self.settling.store.get_hold(hold.id)
            if current is not None:
                await self.settling.note(current, replace(decode_hold_body(current), ran_as=task_id))

        return await self._send(hold, body, exchange, save_task_id)

    async def _send(
        self, hold: HoldRow, body: HoldBody, exchange: Exchange, save_task_id: OnTaskId
    ) -> A2AReply:
        """Forward a message, and once more at most if nobody knows whether it has arrived.

        What is about to be sent is written down before: a server that is killed does not know either.
        """
        if body.sent >= MAX_SENDS:
            raise A2AError("agent_response", DELIVERY_UNKNOWN)
        await self.settling.note(hold, replace(body, sent=body.sent + 1))
        try:
            return await self._forwarding.forward(exchange, save_task_id)
        except (A2AError, Unavailable) as problem:
            if not isinstance(problem.__cause__, ResponseTruncated | ConnectionClosed):
                current = await self.settling.store.get_hold(hold.id)
                if current is not None:
                    await self.settling.note(current, replace(decode_hold_body(current), sent=body.sent))
            raise

    async def _build_exchange(self, hold: HoldRow, body: HoldBody, frozen: FrozenMessage) -> Exchange:
        """The way on, with the agent's credentials as they are now; raises CaseNotFound if there is none."""
        subscription = await self._registry.subscription(hold.source, hold.sink)
        if subscription.tenant != hold.tenant:
            raise CaseNotFound(NOT_ALLOWED)
        frame = frozen.frame
        call, after = frozen.call(), frame.leg
        if frame.matter == "input":
            call, after = await self._answer(hold, body, frozen, subscription), Leg.REQUEST_FROM_SOURCE
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

    async def _answer(
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

    # What it leaves

    async def _finish_held_again(self, hold: HoldRow) -> None:
        """Held once more: the task belongs to another hold now, or the answer was about another task."""
        entry = await self.settling.entry(hold)
        if entry is not None and entry.hold_id == hold.id:
            await self._fail_hold(hold.id, BAD_ANSWER)
        else:
            await self._mark_done(hold, [])

    async def _finish(self, hold: HoldRow, body: HoldBody, exchange: Exchange, reply: A2AReply) -> None:
        entry = await self.settling.entry(hold)
        if entry is None or entry.hold_id != hold.id:
            await self._mark_done(hold, [], reply)
            return
        theirs = exchange.handle.upstream_id or body.frame.upstream_task or entry.upstream_id
        ending = _build_ending(reply)
        if ending is None and theirs is None:
            ending = TaskEnding(dialect=reply.dialect, failure=BAD_ANSWER)
        await self._link_context(hold, entry, reply)
        await self._mark_done(
            hold, [replace(entry, hold_id=None, hold_metadata=None, ending=ending, upstream_id=theirs)], reply
        )

    async def _mark_done(self, hold: HoldRow, entries: list[Task], reply: A2AReply | None = None) -> None:
        current = await self.settling.store.get_hold(hold.id)
        await self.settling.finish(current or hold, entries, reply)

    async def _fail_hold(self, hold_id: str, words: str) -> None:
        current = await self.settling.store.get_hold(hold_id)
        if current is not None:
            await self.settling.fail(current, words)

    async def _link_context(self, hold: HoldRow, entry: Task, reply: A2AReply) -> None:
        """Have a conversation that the relay named lead to the agent's own."""
        ours, theirs = entry.context_id, reply.context_id
        if ours is None or theirs is None or ours == theirs:
            return
        known = await self._book.find(hold.tenant, hold.sink, "context", ours)
        if known is not None and known.upstream_id is None:
            await self._book.write(hold.tenant, hold.sink, "context", replace(known, upstream_id=theirs))

    async def _give_up(self, hold: HoldRow, body: HoldBody) -> None:
        """A refused message goes nowhere; an agent that has begun is told to stop, if that can be done."""
        entry = await self.settling.entry(hold)
        theirs = body.frame.upstream_task or (entry.upstream_id if entry is not None else None)
        if theirs is not None:
            try:
                await self._cancel(hold, body, theirs)
            except (A2AError, CaseNotFound, Unavailable) as failure:
                log.info("upstream_cancel_failed error=%s", failure)
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
        if self.notify_caller is None:
            return
        try:
            subscription = await self._registry.subscription(hold.source, hold.sink)
            await self.notify_caller(subscription, hold.task_id, hold.correlation_id)
        except CaseNotFound:
            log.info(
                "caller_notice_skipped caller=%s reason=not_subscribed",
                subscription_from_hold(hold, body).source.name,
            )


def _build_ending(reply: A2AReply) -> TaskEnding | None:
    """How the task ends; None if the agent goes on with it."""
    if reply.error is not None:
        said = reply.error.get("message") if isinstance(reply.error, dict) else None
        return TaskEnding(dialect=reply.dialect, failure=said if isinstance(said, str) else BAD_ANSWER)
    if reply.message is not None:
        return TaskEnding(dialect=reply.dialect, message=reply.message)
    return TaskEnding(dialect=reply.dialect, task=reply.task) if reply.final and reply.task else None


def _build_status_query(exchange: Exchange, task_id: str) -> Exchange:
    asking = build_follow_up(exchange, task_id, "get")
    return replace(asking, after=Leg.REQUEST_TO_SINK)


def _build_headers(call: A2ACall, kept: dict[str, str], correlation_id: str) -> dict[str, str]:
    """The headers of the first call, fit for the one that is made now."""
    own = {
        "accept": "text/event-stream" if call.streamed else "application/json",
        "content-type": "application/json",
        "x-correlation-id": correlation_id,
    }
    version = {"a2a-version": call.dialect.version}
    return own | kept | ({} if "a2a-version" not in kept and call.dialect.legacy else version)


async def _ignore_task_id(task_id: str) -> None:
    """The name is known."""
