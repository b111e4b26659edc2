"""Carry out decisions about held messages: forward, release, send input, or cancel the task."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace
from yarl import URL

from placet.desk.new_deliveries import HoldRelease
from placet.errors import CaseNotFound, Unavailable
from placet.ports.courier import DeliveryReply, OutgoingRequest
from placet.ports.hold_store import HoldRow, HoldStore
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_NAMES, Dialect, Operation
from placet.relay.a2a.errors import A2AError, ErrorKind
from placet.relay.a2a.json_format import build_message, build_text_part
from placet.relay.a2a.reply import A2AReply, build_task_call, parse_reply_to
from placet.relay.a2a.sse import EventSplitter, get_event_data
from placet.relay.a2a.stream_merging import merge_events
from placet.relay.exchange import Answered, Exchange, ExchangeState, pass_reply
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
from placet.relay.holds.resolution import HoldResolver
from placet.relay.policy.policy import Leg
from placet.relay.registry import LiveRegistry
from placet.relay.runtime.call_handler import CallHandler, get_forwarded_call
from placet.relay.task import FinishTask, ReleaseTask, Task, TaskEnding
from placet.relay.tasks.relay_tasks import BAD_ANSWER
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tenants import RegisteredAgent, Subscription
from placet.relay.traceback_redaction import redact_traceback
from placet.relay.upstream.agent_client import (
    EVENTS_TYPE,
    JSON_TYPES,
    NETWORK_ERRORS,
    UNAVAILABLE_STATUSES,
    as_a2a_error,
    build_request,
    get_media_type,
)
from placet.relay.upstream.connection import (
    ConnectionClosed,
    ConnectTimeout,
    ResponseTruncated,
    UpstreamResponse,
)

APPROVED = "Approved"
"""The input for the agent if the reviewer approved without a message."""
CHANGED = "The stored message differs from what the reviewer approved. It was not forwarded."
NOT_ALLOWED = "The caller may no longer call this agent."
TRANSIENT_KINDS: frozenset[ErrorKind] = frozenset({"unreachable", "busy", "internal"})
"""Errors that a retry may resolve. The agent has not responded to any of them."""

log = logging.getLogger("placet.relay")

NotifyCaller = Callable[[Subscription, str, str], Awaitable[None]]


CANCEL_WITHIN_S = 10.0
UNCERTAIN_STATUSES = frozenset({502, 504})
"""The statuses after which the agent may have received the message."""
OnTaskId = Callable[[str], Awaitable[None]]
"""Called with the agent's id for the task, as soon as a stream contains it."""
WAIT_FOR = timedelta(seconds=2)
RETRY_AFTER = timedelta(seconds=10)
RESUME_FAILED = "The relay could not resume the message because of an internal error."
LEASE_FOR = timedelta(seconds=61)
"""A delivery that is due within this time may be in progress, leased by another server. It is left alone."""


class RetryLater(Exception):
    """The hold cannot be resumed now; try again later."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class HeldMessageForwarder:
    """Forwards approved calls and releases approved replies."""

    def __init__(self, calls: CallHandler) -> None:
        self._calls = calls

    async def forward(self, exchange: Exchange, on_task_id: OnTaskId) -> A2AReply | Answered:
        """Send a call to the agent, and return the whole reply as the caller may see it.

        The events of a stream are merged into one reply. Return Answered if the message or its reply is held
        again. Raises A2AError if the call fails.
        """
        calls = self._calls
        run = calls.begin(exchange)
        step = await run.advance()
        if isinstance(step, Answered):
            return step
        call = get_forwarded_call(step)
        url = await self._build_url_for(exchange, call)
        try:
            async with asyncio.timeout(calls.limits.call_for.total_seconds()):
                reply = await self._call_agent(exchange, call, url, on_task_id)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        passed = await run.advance(reply)
        return passed if isinstance(passed, Answered | A2AReply) else reply

    async def release(self, exchange: Exchange, reply: A2AReply) -> A2AReply | Answered:
        """Return a held reply as the caller may see it. Raises and returns as `forward` does."""
        return await self._calls.run(exchange, pass_reply(reply, after=exchange.after))

    async def cancel(self, exchange: Exchange) -> None:
        """Cancel a task of the agent. Raises A2AError if the agent cannot be reached or refuses."""
        calls = self._calls
        url = await calls.url_for(exchange, exchange.call)
        try:
            async with asyncio.timeout(CANCEL_WITHIN_S):
                await self._call_agent(exchange, exchange.call, url, _ignore_task_id)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def dialect_of(self, sink: RegisteredAgent, preferred: Dialect) -> Dialect:
        """Return a dialect that the agent supports, `preferred` if possible."""
        return await self._calls.choose_dialect(sink, preferred)

    async def _build_url_for(self, exchange: Exchange, call: A2ACall) -> URL:
        """Return the agent's URL for this call.

        A failure to read the agent's card is raised without its cause, because nothing was sent yet.
        """
        try:
            return await self._calls.url_for(exchange, call)
        except A2AError as problem:
            if isinstance(problem.__cause__, ResponseTruncated | ConnectionClosed):
                raise A2AError(problem.kind, problem.message) from None
            raise

    async def _call_agent(
        self, exchange: Exchange, call: A2ACall, url: URL, on_task_id: OnTaskId
    ) -> A2AReply:
        upstream = self._calls.upstream
        response = await upstream.begin(build_request(exchange, call, url))
        try:
            if response.status in UNAVAILABLE_STATUSES:
                cause = (
                    ResponseTruncated("the gateway got no response from the agent")
                    if response.status in UNCERTAIN_STATUSES
                    else None
                )
                raise A2AError("unreachable", "The agent is not available.") from cause
            if get_media_type(response) == EVENTS_TYPE:
                return await self._merge_stream(call, response, on_task_id)
            media_type, body = get_media_type(response), await upstream.read_whole(response)
        finally:
            response.close()
        if media_type not in JSON_TYPES:
            raise A2AError("agent_response", "The agent's response is not JSON.")
        return parse_reply_to(call, body)

    async def _merge_stream(
        self, call: A2ACall, response: UpstreamResponse, on_task_id: OnTaskId
    ) -> A2AReply:
        """Read a stream to its end, and merge its events into one reply."""
        limit = self._calls.limits.max_message_bytes
        splitter = EventSplitter(limit=limit)
        replies: list[A2AReply] = []
        size = 0
        has_task_id = False
        while chunk := await response.read_some():
            size += len(chunk)
            for event in splitter.feed(chunk):
                data = get_event_data(event)
                if data is not None:
                    replies.append(parse_reply_to(call, data))
                    if not has_task_id and replies[-1].task_id is not None:
                        has_task_id = True
                        await on_task_id(replies[-1].task_id)
            if size > limit or splitter.overrun:
                raise A2AError("agent_response", f"The agent's response is larger than {limit} bytes.")
        merged = merge_events(replies, call.rpc_id)
        if merged is None:
            raise A2AError("agent_response", "The agent's stream has no events.")
        return merged


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
        if frozen.digest != hold.body.digest or not await self.resolver.is_approved_as_shown(hold):
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
            state=ExchangeState(row.task_id),
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
        agent_task_id = exchange.state.upstream_id or hold.body.frame.upstream_task or known_id
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
                state=ExchangeState(hold.task_id),
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


def build_follow_up(exchange: Exchange, task_id: str, operation: Operation) -> Exchange:
    """Return the exchange of another call about the task of a call."""
    return replace(
        exchange,
        call=build_task_call(exchange.call.dialect, operation, task_id, exchange.call.tenant),
        webhook=None,
    )


def build_input_call(
    dialect: Dialect,
    text: str,
    *,
    message_id: str,
    task_id: str | None,
    context_id: str | None,
    tenant: str | None = None,
) -> A2ACall:
    """Return a call with a message that answers an agent's request for input."""
    message = build_message(
        message_id=message_id,
        role="user",
        parts=[build_text_part(text, dialect)],
        dialect=dialect,
        task_id=task_id,
        context_id=context_id,
    )
    params: dict[str, Any] = {"request" if dialect.legacy and dialect.proto else "message": message}
    if dialect.legacy:
        params["configuration"] = {"blocking": True}
    if not dialect.rpc:
        return A2ACall(dialect=dialect, operation="send", document=params, tenant=tenant)
    document = {"jsonrpc": "2.0", "id": message_id, "method": RPC_NAMES[dialect, "send"], "params": params}
    return A2ACall(dialect=dialect, operation="send", document=document, rpc_id=message_id, tenant=tenant)


async def _ignore_task_id(task_id: str) -> None:
    """Do nothing: the id of a task that is canceled is known."""


class RelayCourier:
    """A `Courier` that resumes a held message for each delivery. The outbox retries failed deliveries.

    An agent may take as long as the call timeout allows. The delivery then stays in the outbox, so that it
    does not block others.
    """

    def __init__(self, resumer: HoldResumer) -> None:
        self._resumer = resumer
        self._jobs: dict[str, asyncio.Task[None]] = {}

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Start to resume the hold, or check the attempt in progress."""
        release = msgspec.json.decode(request.body, type=HoldRelease)
        job = self._jobs.get(release.hold_id)
        if job is None:
            work = self._resumer.resume(release.hold_id, release.case_id)
            job = self._jobs[release.hold_id] = asyncio.create_task(work)
        await asyncio.wait({job}, timeout=WAIT_FOR.total_seconds())
        if not job.done():
            return DeliveryReply(
                status=None, error=None, took_for=timedelta(0), retry_after=RETRY_AFTER, under_way=True
            )
        del self._jobs[release.hold_id]
        return await self._build_reply(release, job, request.last)

    async def aclose(self) -> None:
        """Cancel the attempts in progress. Their deliveries stay in the outbox."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _build_reply(
        self, release: HoldRelease, job: "asyncio.Task[None]", last: bool
    ) -> DeliveryReply:
        failure = job.exception()
        if failure is None:
            return DeliveryReply(status=200, error=None, took_for=timedelta(0))
        message = failure.message if isinstance(failure, RetryLater) else RESUME_FAILED
        if not isinstance(failure, RetryLater):
            log.error("hold_resume_failed hold_id=%s", release.hold_id, exc_info=failure)
        if last:
            await self._resumer.fail(release.hold_id, message)
        return DeliveryReply(status=None, error=message, took_for=timedelta(0))


class ReleaseScheduler:
    """Makes the waiting releases of an agent due."""

    def __init__(
        self, store: HoldStore, *, now: Callable[[], datetime], wake_outbox: Callable[[], None]
    ) -> None:
        self._store = store
        self._now = now
        self._wake_outbox = wake_outbox
        self._jobs: set[asyncio.Task[None]] = set()

    def release_waiting(self, agent: RegisteredAgent) -> None:
        """Make due what waits for this agent. Returns at once; a failure is logged."""
        job = asyncio.create_task(self._release_waiting(agent))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def aclose(self) -> None:
        """Wait for the changes in progress."""
        await asyncio.gather(*self._jobs, return_exceptions=True)

    async def _release_waiting(self, agent: RegisteredAgent) -> None:
        now = self._now()
        try:
            if await self._store.make_releases_due(agent.tenant, agent.id, now=now, after=now + LEASE_FOR):
                self._wake_outbox()
        except Exception as error:
            log.error("release_scheduling_failed agent=%s error=%s", agent.id, redact_traceback(error))
