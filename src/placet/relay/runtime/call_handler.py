"""Handle one call: send it to the agent when its exchange says so, and answer the caller."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace
from yarl import URL

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError, as_agent_error
from placet.relay.a2a.json_format import Json
from placet.relay.a2a.push_configs import may_contain_config
from placet.relay.a2a.reply import A2AReply, parse_reply_to
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.detectors.stream_plan import StreamPlan
from placet.relay.exchange import (
    Answered,
    AnsweredByRelay,
    Exchange,
    ExchangeSteps,
    Forward,
    RelayAnswer,
    pass_event,
    pass_reply,
    relay_call,
)
from placet.relay.inspection.policy_inspector import MessageHolder, PolicyInspector
from placet.relay.policy.policy import RESPONSE_LEGS
from placet.relay.push import CONFIG_CARRYING_OPERATIONS, PushOutbox, PushProxy
from placet.relay.runtime.background_calls import BackgroundCalls, EarlyReturns
from placet.relay.runtime.exchange_driver import EffectPerformer, ExchangeRun
from placet.relay.runtime.task_notifier import TaskNotifier
from placet.relay.settings import RelayLimits
from placet.relay.tasks.access import TaskAccess
from placet.relay.tasks.relay_tasks import RelayTasks, TaskWaiters
from placet.relay.tenants import RegisteredAgent, Subscription
from placet.relay.traceback_redaction import redact_traceback
from placet.relay.upstream.agent_cards import AgentCardCache, resolve_url
from placet.relay.upstream.agent_client import (
    EVENTS_TYPE,
    JSON_TYPES,
    NETWORK_ERRORS,
    AgentClient,
    as_a2a_error,
    build_request,
    check_response_head,
    get_media_type,
    select_response_headers,
)
from placet.relay.upstream.connection import Deadlines, PendingRequest, UpstreamResponse

INLINE_WITHIN_S = 0.05
log = logging.getLogger("placet.relay")
T = TypeVar("T")


CallRun = ExchangeRun[A2AReply | Answered | None]


class CallHandler:
    """Sends calls to agents and returns their replies."""

    def __init__(
        self,
        *,
        upstream: AgentClient,
        directory: AgentCardCache,
        access: TaskAccess,
        inspector: PolicyInspector,
        limits: RelayLimits,
        pushes: PushProxy,
        outbox: PushOutbox,
        relay_tasks: RelayTasks,
        waiters: TaskWaiters,
        holds: MessageHolder,
        now: Callable[[], datetime],
    ) -> None:
        self.upstream = upstream
        self.limits = limits
        self.background_calls = BackgroundCalls(access.tasks, now)
        self.relay_tasks = relay_tasks
        self.waiters = waiters
        self.notifier = TaskNotifier(
            calls=self, relay_tasks=relay_tasks, webhooks=pushes.webhooks, outbox=outbox
        )
        self.early_returns = EarlyReturns(
            tasks=access.tasks,
            relay_tasks=self.relay_tasks,
            background_calls=self.background_calls,
            pushes=pushes,
            notifier=self.notifier,
            now=now,
        )
        self._deadlines = Deadlines(limits.early_return_for.total_seconds(), PendingRequest.interrupt)
        self._call_s = limits.call_for.total_seconds()
        self._directory = directory
        self.inspector = inspector
        self._pushes = pushes
        self._performer = EffectPerformer(
            access=access,
            directory=directory,
            inspector=inspector,
            pushes=pushes,
            relay_tasks=relay_tasks,
            early_returns=self.early_returns,
            holds=holds,
        )

    async def handle(self, exchange: Exchange) -> RelayAnswer:
        """Return the answer to a call that is not streamed. Raises A2AError if the call fails."""
        if exchange.call.operation != "send":
            return await self.send_and_receive(exchange, within=self._deadlines.within_s)
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + self._deadlines.within_s
        offer = self._directory.get_cached_card(exchange.subscription.sink)
        if offer is None:
            return await self.early_returns.answer_or_return_early(
                exchange, partial(self.send_and_receive, exchange, within=self._call_s), deadline
            )
        run = self.begin(exchange)
        step = await run.advance()
        if isinstance(step, Answered):
            return await self.answer_from_relay(exchange, step)
        call = get_forwarded_call(step)
        url = resolve_url(offer, call)
        # Most agents answer soon, over an open connection. These calls need no asyncio task.
        pending = self._send(exchange, call, url) if loop.time() - began < INLINE_WITHIN_S else None
        if pending is None:
            forward = partial(self._forward, exchange, run, call, url, self._call_s)
            return await self.early_returns.answer_or_return_early(exchange, forward, deadline)
        try:
            response = await pending.wait_for_head(self._deadlines)
        except NETWORK_ERRORS as failure:
            self.upstream.availability.note_failure(exchange.subscription.sink)
            raise as_a2a_error(failure) from failure
        if response is None or not response.whole:
            receive = partial(self._receive, exchange, run, pending)
            return await self.early_returns.answer_or_return_early(exchange, receive, deadline, pending)
        return await self._read_answer(exchange, run, response)

    async def send_and_receive(self, exchange: Exchange, *, within: float) -> RelayAnswer:
        """Inspect the call, send it to the agent, and return the answer."""
        run = self.begin(exchange)
        step = await run.advance()
        if isinstance(step, Answered):
            return await self.answer_from_relay(exchange, step)
        call = get_forwarded_call(step)
        return await self._forward(exchange, run, call, await self.url_for(exchange, call), within)

    def begin(self, exchange: Exchange) -> CallRun:
        """Return the exchange of a call that is not streamed."""
        steps = relay_call(exchange.call, after=exchange.after, own_task_id=exchange.state.task_id)
        return ExchangeRun(self._performer, exchange, steps)

    def _send(self, exchange: Exchange, call: A2ACall, url: URL) -> PendingRequest | None:
        try:
            return self.upstream.send(build_request(exchange, call, url), within=self._call_s)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _forward(
        self, exchange: Exchange, run: CallRun, call: A2ACall, url: URL, within: float
    ) -> RelayAnswer:
        try:
            response = await self.upstream.begin(build_request(exchange, call, url), within=within)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        return await self._read_answer(exchange, run, response)

    async def _receive(self, exchange: Exchange, run: CallRun, pending: PendingRequest) -> RelayAnswer:
        """Return the answer to a request that was sent before."""
        try:
            response = await pending.head()
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        return await self._read_answer(exchange, run, response)

    async def _read_answer(self, exchange: Exchange, run: CallRun, response: UpstreamResponse) -> RelayAnswer:
        """Read the body of a response, and return the answer."""
        self.upstream.availability.note_answer(exchange.subscription.sink, response.status)
        try:
            check_response_head(response)
            media_type, body = _get_whole_media_type(response), self.upstream.read_now(response)
            if body is None:
                body = await self.upstream.read_whole(response)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        finally:
            response.close()
        return await self._answer(exchange, run.advance, response, media_type, body)

    async def answer(
        self, exchange: Exchange, response: UpstreamResponse, media_type: str, body: bytes
    ) -> RelayAnswer:
        """Inspect a whole response, and return the answer. Raises A2AError if the response is not valid."""

        async def process(reply: A2AReply | None) -> A2AReply | Answered | None:
            return None if reply is None else await self.run(exchange, pass_reply(reply))

        return await self._answer(exchange, process, response, media_type, body)

    async def _answer(
        self,
        exchange: Exchange,
        process: Callable[[A2AReply | None], Awaitable[Any]],
        response: UpstreamResponse,
        media_type: str,
        body: bytes,
    ) -> RelayAnswer:
        """Return the answer to the caller; `process` takes the agent's reply to the caller."""
        call, status = exchange.call, response.status
        headers = select_response_headers(response, exchange.headers)
        if not body and not call.dialect.rpc and status in (200, 202, 204):
            await process(None)
            await self._pushes.remove_config(exchange.subscription, call)
            return RelayAnswer(
                body=b"", status=status, content_type=call.dialect.content_type, headers=headers
            )
        if media_type not in JSON_TYPES:
            raise _build_not_json_error(call, status)
        reply = parse_reply_to(call, body)
        try:
            processed = await process(reply)
        except A2AError as problem:
            raise as_agent_error(problem) from problem.__cause__
        if isinstance(processed, Answered):
            return await self.answer_from_relay(exchange, processed)
        return RelayAnswer(
            body=body if processed is reply else processed.body(),
            content_type=media_type,
            status=200 if call.dialect.rpc else status,
            headers=headers,
            reply=processed,
        )

    async def answer_from_relay(
        self, exchange: Exchange, answered: Answered | AnsweredByRelay
    ) -> RelayAnswer:
        """Return the relay's own answer."""
        reply = await self._performer.build_own_reply(exchange, answered.document)
        return RelayAnswer(body=reply.body(), content_type=exchange.call.dialect.content_type, reply=reply)

    async def read_whole(self, response: UpstreamResponse) -> tuple[str, bytes]:
        """Return the media type and the body of a response. Raises A2AError if it is a stream."""
        return _get_whole_media_type(response), await self.upstream.read_whole(response)

    def has_push_config(self, exchange: Exchange) -> bool:
        """Return whether the call may contain a push notification config; see `register_webhook`."""
        return exchange.call.operation in CONFIG_CARRYING_OPERATIONS and may_contain_config(exchange.call)

    async def register_webhook(self, exchange: Exchange) -> Exchange:
        """Replace the caller's push address with a webhook of the relay, and return the exchange.

        Raises A2AError if the relay may not call the caller's address.
        """
        call, webhook = await self._pushes.replace_target(
            exchange.subscription, exchange.call, exchange.correlation_id
        )
        return exchange if webhook is None else replace(exchange, call=call, webhook=webhook)

    async def url_for(self, exchange: Exchange, call: A2ACall) -> URL:
        """Return the agent's URL for this call."""
        return resolve_url(await self._directory.get_card(exchange.subscription.sink), call)

    async def choose_dialect(self, sink: RegisteredAgent, preferred: Dialect) -> Dialect:
        """Return the preferred dialect if the agent offers it, or another one that the agent offers."""
        offered = [one.dialect for one in (await self._directory.get_card(sink)).interfaces]
        if preferred in offered or not offered:
            return preferred
        return next((one for one in offered if one.binding == preferred.binding), offered[0])

    async def run(self, exchange: Exchange, steps: ExchangeSteps[T]) -> T:
        """Return the result of steps that forward no call. Raises A2AError if a message is refused."""
        return await self._performer.run(exchange, steps)

    # Streams

    async def pass_message(self, exchange: Exchange, steps: ExchangeSteps[T | Answered]) -> T:
        """Return what passes these steps of a stream's exchange.

        Raises A2AError if a message is refused, and AnsweredByRelay if the relay answers.
        """
        passed = await self.run(exchange, steps)
        if isinstance(passed, Answered):
            raise AnsweredByRelay(passed.document)
        return passed

    async def recognize_forwarded(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return the reply with the digests of the messages that its history may repeat."""
        return await self._performer.recognize_forwarded(exchange, reply)

    async def report_observed(self, exchange: Exchange, replies: Sequence[A2AReply]) -> None:
        """Record what policies find in a stream that the caller has got."""
        try:
            replies = [await self.recognize_forwarded(exchange, reply) for reply in replies]
            await self.inspector.observe_stream(exchange, replies)
        except Exception as error:
            extra = {"correlation_id": exchange.correlation_id}
            log.error("stream_not_observed error=%s", redact_traceback(error), extra=extra)

    def is_inspected(self, exchange: Exchange) -> bool:
        """Return whether a policy inspects the agent's replies."""
        return any(self.inspector.has_policies(leg, exchange.subscription) for leg in RESPONSE_LEGS)

    def plan_stream(self, exchange: Exchange) -> StreamPlan:
        """Return how the agent's stream is inspected."""
        return self.inspector.plan_stream(exchange.subscription)

    async def is_stream_clean(
        self, exchange: Exchange, replies: Sequence[A2AReply], pieces: Sequence[Sequence[TextPiece]]
    ) -> bool:
        """Return whether nothing is found in a stream with these texts, and the caller knows its task's id.

        False also if a check fails, or if the events have to be inspected in another way.
        """
        first = next((reply for reply in replies if reply.task_id is not None), None)
        if first is None or (await self.pass_message(exchange, pass_event(first))).task_id != first.task_id:
            return False
        recognized = [await self.recognize_forwarded(exchange, reply) for reply in replies]
        return await self.inspector.is_stream_clean(exchange, recognized, pieces)

    async def inspect_card(self, subscription: Subscription, card: Json, correlation_id: str) -> Json:
        """Return an agent's card as a caller gets it. Raises A2AError if a policy does not let it pass."""
        return await self._performer.inspect_card(subscription, card, correlation_id)

    async def aclose(self) -> None:
        """Cancel background calls and push notifications in progress."""
        await self.notifier.aclose()
        await self.background_calls.aclose()


def get_forwarded_call(step: Forward | A2AReply | None) -> A2ACall:
    """Return the call to forward. An exchange does not end with a reply before the agent has answered."""
    if not isinstance(step, Forward):
        raise TypeError("The exchange has ended before the call was forwarded.")
    return step.call


def _get_whole_media_type(response: UpstreamResponse) -> str:
    media_type = get_media_type(response)
    if media_type == EVENTS_TYPE:
        raise A2AError(
            "agent_response", "The agent answered with a stream, but the call does not ask for one."
        )
    return media_type


def _build_not_json_error(call: A2ACall, status: int) -> A2AError:
    """Return the error for a response that is not JSON.

    Over HTTP+JSON, an agent's web framework answers unknown routes itself, usually not in JSON.
    """
    if not call.dialect.rpc and status == 405:
        return A2AError("not_allowed", "The agent does not support this HTTP method.")
    if not call.dialect.rpc and status == 404:
        return A2AError("method", "The agent does not support this method.")
    return A2AError("agent_response", "The agent's response is not JSON.")
