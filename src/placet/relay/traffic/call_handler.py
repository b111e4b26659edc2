"""Handle one call: inspect it, send it to the agent, and inspect the reply."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace
from yarl import URL

from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import REST_1_0, Dialect
from placet.relay.a2a.errors import A2AError, as_agent_error
from placet.relay.a2a.json_format import Json, get_state
from placet.relay.a2a.push_configs import may_contain_config
from placet.relay.a2a.reply import A2AReply, build_get_reply, build_task_call, parse_reply_to
from placet.relay.detectors.stream_plan import StreamPlan
from placet.relay.holds.hold_service import HoldService
from placet.relay.inspection.message_inspector import MessageInspector
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import Leg
from placet.relay.policy.verdict import ChangeVerdict, QuickCheck, ReleaseVerdict
from placet.relay.push import CONFIG_CARRYING_OPERATIONS, PushOutbox, PushProxy, is_config_operation
from placet.relay.settings import RelayLimits
from placet.relay.task import Task
from placet.relay.tasks.access import TaskAccess, TaskOwnedByRelay
from placet.relay.tasks.background_calls import BackgroundCalls
from placet.relay.tasks.relay_tasks import RelayTasks, TaskHandle, asks_for_input
from placet.relay.tasks.task_list import add_relay_tasks
from placet.relay.tasks.task_waiters import TaskWaiters
from placet.relay.tenants import RegisteredAgent, Subscription
from placet.relay.traceback_redaction import redact_traceback
from placet.relay.traffic.early_returns import EarlyReturns
from placet.relay.traffic.exchange import (
    AnsweredByRelay,
    Exchange,
    RelayAnswer,
    apply_verdict,
    build_inspection_request,
)
from placet.relay.traffic.task_notifier import TaskNotifier
from placet.relay.upstream.agent_cards import AgentCardCache, resolve_url
from placet.relay.upstream.agent_client import (
    EVENTS_TYPE,
    JSON_TYPES,
    NETWORK_ERRORS,
    AgentClient,
    as_a2a_error,
    check_response_head,
    get_media_type,
    select_response_headers,
)
from placet.relay.upstream.connection import Deadlines, PendingRequest, UpstreamResponse

__all__ = ["AnsweredByRelay", "CallHandler", "Exchange", "RelayAnswer"]

INLINE_WITHIN_S = 0.05
log = logging.getLogger("placet.relay")
T = TypeVar("T")


class CallHandler:
    """Sends calls to agents and returns their replies."""

    def __init__(
        self,
        *,
        upstream: AgentClient,
        directory: AgentCardCache,
        access: TaskAccess,
        inspector: MessageInspector,
        limits: RelayLimits,
        pushes: PushProxy,
        outbox: PushOutbox,
        relay_tasks: RelayTasks,
        waiters: TaskWaiters,
        holds: HoldService | None,
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
        self._holds = holds
        self._deadlines = Deadlines(limits.early_return_for.total_seconds(), PendingRequest.interrupt)
        self._call_s = limits.call_for.total_seconds()
        self._directory = directory
        self._access = access
        self._inspector = inspector
        self._pushes = pushes

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
        try:
            call = await self.prepare_request(exchange)
            url = resolve_url(offer, call)
            # Most agents answer soon, over an open connection. These calls need no asyncio task.
            pending = self._send(exchange, call, url) if loop.time() - began < INLINE_WITHIN_S else None
            if pending is None:
                send = partial(
                    self._catch_relay_answer,
                    exchange,
                    partial(self._call_agent, exchange, call, url, self._call_s),
                )
                return await self.early_returns.answer_or_return_early(exchange, send, deadline)
            try:
                response = await pending.wait_for_head(self._deadlines)
            except NETWORK_ERRORS as failure:
                self.upstream.availability.note_failure(exchange.subscription.sink)
                raise as_a2a_error(failure) from failure
            if response is None or not response.whole:
                receive = partial(
                    self._catch_relay_answer, exchange, partial(self._await_answer, exchange, pending)
                )
                return await self.early_returns.answer_or_return_early(exchange, receive, deadline, pending)
            return await self._read_answer(exchange, response)
        except AnsweredByRelay as answered:
            return await self.answer_from_relay(exchange, answered)

    async def _catch_relay_answer(
        self, exchange: Exchange, answer: Callable[[], Awaitable[RelayAnswer]]
    ) -> RelayAnswer:
        try:
            return await answer()
        except AnsweredByRelay as answered:
            return await self.answer_from_relay(exchange, answered)

    async def send_and_receive(self, exchange: Exchange, *, within: float) -> RelayAnswer:
        """Inspect the call, send it to the agent, and return the answer."""
        try:
            call = await self.prepare_request(exchange)
            url = await self.url_for(exchange, call)
            return await self._call_agent(exchange, call, url, within)
        except AnsweredByRelay as answered:
            return await self.answer_from_relay(exchange, answered)

    def _send(self, exchange: Exchange, call: A2ACall, url: URL) -> PendingRequest | None:
        try:
            return self.upstream.send(exchange.build_request(call, url), within=self._call_s)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _call_agent(self, exchange: Exchange, call: A2ACall, url: URL, within: float) -> RelayAnswer:
        head = self.upstream.begin(exchange.build_request(call, url), within=within)
        return await self._read_answer(exchange, await self._await_head(head))

    async def _await_answer(self, exchange: Exchange, pending: PendingRequest) -> RelayAnswer:
        """Return the answer to a request that was sent before."""
        return await self._read_answer(exchange, await self._await_head(pending.head()))

    async def _await_head(self, head: Awaitable[T]) -> T:
        try:
            return await head
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _read_answer(self, exchange: Exchange, response: UpstreamResponse) -> RelayAnswer:
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
        return await self.answer(exchange, response, media_type, body)

    async def answer_from_relay(self, exchange: Exchange, answered: AnsweredByRelay) -> RelayAnswer:
        """Return the relay's own answer with the caller's ids."""
        call = exchange.call
        reply = A2AReply(dialect=call.dialect, operation=call.operation, document=answered.document)
        reply = await self._access.translate_reply(
            exchange.subscription, reply, except_task_id=reply.task_id, call=exchange.handle.writes
        )
        if exchange.webhook is not None and reply.task_id is not None:
            await self._pushes.bind(exchange.webhook, agent_task_id=None, caller_task_id=reply.task_id)
        return RelayAnswer(body=reply.body(), content_type=call.dialect.content_type, reply=reply)

    # The request

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

    async def prepare_request(self, exchange: Exchange) -> A2ACall:
        """Return the call that the agent gets.

        Raises A2AError if the call is refused, and AnsweredByRelay if the relay answers it.
        """
        call = await self._inspect_and_translate_call(exchange)
        if call.message is not None:
            await self._record_forwarded(exchange, call, call.message)
        return call

    async def _record_forwarded(self, exchange: Exchange, call: A2ACall, message: Json) -> None:
        """Store the digest of a message in its task, so that it is recognized when the agent repeats it."""
        handle, subscription = exchange.handle, exchange.subscription
        digest = handle.record_sent(message)
        for task_id in {handle.task_id, call.target_task_id} - {None}:
            task = await self._access.find_caller_task(subscription, str(task_id))
            if task is not None:
                await self._access.record_forwarded(subscription, task, digest, call=handle.writes)

    async def recognize_forwarded(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return the reply with the digests of the messages that its history may repeat."""
        handle = exchange.handle
        return await self._access.recognize_forwarded(
            exchange.subscription, reply, sent=handle.forwarded, caller_task_id=handle.task_id
        )

    async def _inspect_and_translate_call(self, exchange: Exchange) -> A2ACall:
        call = exchange.call
        if exchange.has_passed(Leg.REQUEST_TO_SINK):
            return call
        if self._must_inspect(Leg.REQUEST_FROM_SOURCE, exchange, call):
            call = await self._inspect_request(Leg.REQUEST_FROM_SOURCE, exchange, call)
        tasks = await self._access.find_call_tasks(exchange.subscription, call) if call.task_ids else []
        for task in tasks:
            if self.relay_tasks.answers_for(task, call, except_task_id=exchange.handle.task_id):
                if is_config_operation(call):
                    raise AnsweredByRelay(await self._answer_config_call(exchange, call, task))
                raise AnsweredByRelay(await self.relay_tasks.answer(exchange.subscription, call, task))
        if tasks or call.context_id is not None:
            call = await self._access.translate_call(exchange.subscription, call, tasks)
        if self._must_inspect(Leg.REQUEST_TO_SINK, exchange, call):
            call = await self._inspect_request(Leg.REQUEST_TO_SINK, exchange, call)
        return call

    async def url_for(self, exchange: Exchange, call: A2ACall) -> URL:
        """Return the agent's URL for this call."""
        return resolve_url(await self._directory.get_card(exchange.subscription.sink), call)

    async def choose_dialect(self, sink: RegisteredAgent, preferred: Dialect) -> Dialect:
        """Return the preferred dialect if the agent offers it, or another one that the agent offers."""
        offered = [one.dialect for one in (await self._directory.get_card(sink)).interfaces]
        if preferred in offered or not offered:
            return preferred
        return next((one for one in offered if one.binding == preferred.binding), offered[0])

    def _must_inspect(self, leg: Leg, exchange: Exchange, call: A2ACall) -> bool:
        """Return whether the call must be inspected on this leg."""
        if exchange.after is not None and exchange.has_passed(leg):
            return False
        return self._inspector.check_quickly(leg, exchange.subscription, call) is QuickCheck.UNSURE

    async def _inspect_request(self, leg: Leg, exchange: Exchange, call: A2ACall) -> A2ACall:
        verdict = await apply_verdict(
            exchange, self._inspector.inspect(leg, build_inspection_request(exchange, call, None))
        )
        return replace(call, document=verdict.document) if isinstance(verdict, ChangeVerdict) else call

    # The reply

    async def read_whole(self, response: UpstreamResponse) -> tuple[str, bytes]:
        """Return the media type and the body of a response. Raises A2AError if it is a stream."""
        return _get_whole_media_type(response), await self.upstream.read_whole(response)

    async def answer(
        self, exchange: Exchange, response: UpstreamResponse, media_type: str, body: bytes
    ) -> RelayAnswer:
        """Inspect a whole response, and return the answer. Raises A2AError if the response is not valid."""
        call, status = exchange.call, response.status
        headers = select_response_headers(response, exchange.headers)
        if not body and not call.dialect.rpc and status in (200, 202, 204):
            await self._pushes.remove_config(exchange.subscription, call)
            return RelayAnswer(
                body=b"", status=status, content_type=call.dialect.content_type, headers=headers
            )
        if media_type not in JSON_TYPES:
            raise _build_not_json_error(call, status)
        reply = parse_reply_to(call, body)
        try:
            processed = await self.process_reply(exchange, reply)
        except A2AError as problem:
            raise as_agent_error(problem) from problem.__cause__
        return RelayAnswer(
            body=body if processed is reply else processed.body(),
            content_type=media_type,
            status=200 if call.dialect.rpc else status,
            headers=headers,
            reply=processed,
        )

    async def process_reply(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return a reply or stream event as the caller gets it: the same object if nothing was changed.

        Raises A2AError if the reply is refused, and AnsweredByRelay if the relay answers instead.
        """
        check_quickly, subscription, processed = self._inspector.check_quickly, exchange.subscription, reply
        if reply.operation == "list" and self._holds is not None:
            await self._hold_listed_questions(exchange, reply)
        from_sink = to_source = QuickCheck.CLEAR
        if not exchange.has_passed(Leg.RESPONSE_FROM_SINK):
            if exchange.handle.task_id is not None:
                await self._link_task(exchange, reply)
            from_sink = check_quickly(Leg.RESPONSE_FROM_SINK, subscription, processed)
            if from_sink is QuickCheck.UNSURE:
                processed = await self._inspect_response(Leg.RESPONSE_FROM_SINK, exchange, processed)
            processed = await self._rewrite_reply(exchange, processed)
        if not exchange.has_passed(Leg.RESPONSE_TO_SOURCE):
            to_source = check_quickly(Leg.RESPONSE_TO_SOURCE, subscription, processed)
            if to_source is QuickCheck.UNSURE:
                processed = await self._inspect_response(Leg.RESPONSE_TO_SOURCE, exchange, processed)
        if self._holds is not None and asks_for_input(processed):
            await self._hold_input_request(exchange, processed, self._holds)
        # Send the inspected document, encoded again: the agent's bytes may repeat a field with another value.
        is_watched = from_sink is not QuickCheck.UNWATCHED or to_source is not QuickCheck.UNWATCHED
        return processed.copy() if is_watched and processed is reply else processed

    async def process_stream(self, exchange: Exchange, replies: Sequence[A2AReply]) -> Sequence[A2AReply]:
        """Return all events of a stream as the caller gets them. Raises as `process_reply` does."""
        for reply in replies:
            await self._link_task(exchange, reply)
        replies = await self._inspect_stream(Leg.RESPONSE_FROM_SINK, exchange, replies)
        replies = [await self._rewrite_reply(exchange, reply) for reply in replies]
        replies = await self._inspect_stream(Leg.RESPONSE_TO_SOURCE, exchange, replies)
        for reply in replies:
            if self._holds is not None and asks_for_input(reply):
                await self._hold_input_request(exchange, reply, self._holds)
        return replies

    async def _rewrite_reply(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return a reply or stream event with the caller's ids, push addresses and URLs."""
        if reply.error is not None:
            if exchange.webhook is not None:
                await self._pushes.discard_webhook(exchange.webhook)
            return reply
        try:
            handle = exchange.handle
            translated = await self._access.translate_reply(
                exchange.subscription,
                reply,
                except_task_id=handle.task_id,
                forwarded=handle.forwarded,
                call=handle.writes,
            )
        except TaskOwnedByRelay as owned:
            raise AnsweredByRelay(self.relay_tasks.build_answer(exchange.call, owned.task)) from None
        if is_config_operation(exchange.call):
            return await self._rewrite_config_answer(exchange, translated)
        if exchange.webhook is not None and reply.task_id is not None and translated.task_id is not None:
            await self._pushes.bind(
                exchange.webhook, agent_task_id=reply.task_id, caller_task_id=translated.task_id
            )
        if translated.operation == "list":
            return await add_relay_tasks(self.relay_tasks, exchange.subscription, exchange.call, translated)
        return (
            await self._rewrite_card(exchange, translated)
            if reply.operation == "extended_card"
            else translated
        )

    async def _link_task(self, exchange: Exchange, reply: A2AReply) -> None:
        """Store the agent's id of a task as an alias of the id that the caller got before."""
        caller_task_id, agent_task_id = exchange.handle.task_id, reply.task_id
        if caller_task_id is None or agent_task_id is None or agent_task_id == caller_task_id:
            return
        if reply.error is not None:
            return
        exchange.handle.upstream_id = agent_task_id
        tenant, agent = exchange.subscription.tenant, exchange.subscription.sink.id
        if await self._access.tasks.find(tenant, agent, "task", agent_task_id) is None:
            alias = Task(
                id=agent_task_id,
                owner=exchange.subscription.source.name,
                upstream_id=agent_task_id,
                caller_task_id=caller_task_id,
                context_id=reply.context_id,
            )
            await self._access.tasks.write(
                tenant, agent, "task", alias, at_once=True, call=exchange.handle.writes
            )

    async def _hold_input_request(self, exchange: Exchange, reply: A2AReply, holds: HoldService) -> None:
        """Hold an agent's request for input. The policies have inspected it before."""
        await apply_verdict(
            exchange,
            holds.hold_input_request(
                build_inspection_request(
                    exchange, exchange.call, await self.recognize_forwarded(exchange, reply)
                )
            ),
        )

    async def _hold_listed_questions(self, exchange: Exchange, reply: A2AReply) -> None:
        """Hold the questions in a task list, as if the caller had fetched each task that asks for input."""
        subscription, dialect = exchange.subscription, reply.dialect
        if subscription.sink.input_required != "hold":
            return
        for document in reply.tasks:
            task_id = document.get("id")
            if get_state(document.get("status")) != "input-required" or not isinstance(task_id, str):
                continue
            task = await self._access.find_caller_task(subscription, task_id)
            if task is None or task.owner != subscription.source.name or task.is_kept_by_relay:
                continue
            call = build_task_call(dialect, "get", task_id, exchange.call.tenant)
            fetch = replace(exchange, call=call, handle=TaskHandle(writes=exchange.handle.writes))
            try:
                await self.process_reply(fetch, build_get_reply(dialect, document))
            except AnsweredByRelay:
                pass  # the task is held, and the list shows it so
            except A2AError as problem:  # such as too many pending holds: the list does not show the question
                log.info("listed_question_not_held task=%s error=%s", task_id, problem.kind)

    async def _answer_config_call(self, exchange: Exchange, call: A2ACall, task: Task) -> dict[str, Any]:
        """Return the response to a call about the push configs of a task that the agent does not know."""
        response = await self._pushes.handle_config_call(
            exchange.subscription, call, exchange.webhook, task.id
        )
        if exchange.webhook is not None:
            self.early_returns.notify_when_done(exchange, task, announce=True)
        return response

    async def _rewrite_config_answer(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        subscription, call = exchange.subscription, exchange.call
        [task, *_] = await self._access.find_call_tasks(subscription, call)
        return await self._pushes.restore_targets(
            subscription, call, exchange.webhook, reply, task.upstream_id or task.id
        )

    def is_inspected(self, exchange: Exchange) -> bool:
        """Return whether a policy inspects the agent's replies."""
        legs = (Leg.RESPONSE_FROM_SINK, Leg.RESPONSE_TO_SOURCE)
        return any(self._inspector.has_policies(leg, exchange.subscription) for leg in legs)

    def is_withheld(self, exchange: Exchange) -> bool:
        """Return whether events of a stream must not be sent before they are inspected together."""
        return self.plan_stream(exchange).mode in ("window", "whole")

    def plan_stream(self, exchange: Exchange) -> StreamPlan:
        """Return how the agent's stream is inspected."""
        return self._inspector.plan_stream(exchange.subscription)

    async def inspect_window(
        self, exchange: Exchange, texts: Sequence[Scannable]
    ) -> Sequence[Finding] | None:
        """Return what policies mask, hold or block in texts of a stream. None if a check failed."""
        return await self._inspector.inspect_window(exchange.subscription, texts)

    async def rewrite_event(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return an inspected event of a stream as the caller gets it. Raises as `process_reply` does."""
        await self._link_task(exchange, reply)
        return await self._rewrite_reply(exchange, reply)

    async def forward_observed(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return an event of a stream that policies only observe. Raises as `process_reply` does."""
        processed = await self.rewrite_event(exchange, reply)
        if self._holds is not None and asks_for_input(processed):
            await self._hold_input_request(exchange, processed, self._holds)
        return processed

    async def report_observed(self, exchange: Exchange, replies: Sequence[A2AReply]) -> None:
        """Record what policies find in a stream that the caller has got."""
        try:
            replies = [await self.recognize_forwarded(exchange, reply) for reply in replies]
            request = build_inspection_request(exchange, exchange.call, None)
            await self._inspector.observe_stream(request, replies)
        except Exception as error:
            extra = {"correlation_id": exchange.correlation_id}
            log.error("stream_not_observed error=%s", redact_traceback(error), extra=extra)

    async def inspect_card(self, subscription: Subscription, card: Json, correlation_id: str) -> Json:
        """Return an agent's card as a caller gets it. Raises A2AError if a policy does not let it pass."""
        if not self._inspector.has_policies(Leg.AGENT_CARD, subscription):
            return card
        call = A2ACall(dialect=REST_1_0, operation="extended_card", method="GET")
        exchange = Exchange(subscription=subscription, call=call, correlation_id=correlation_id, headers={})
        reply = A2AReply(dialect=REST_1_0, operation="extended_card", document=card)
        request = build_inspection_request(exchange, call, reply)
        verdict = await apply_verdict(exchange, self._inspector.inspect(Leg.AGENT_CARD, request))
        return verdict.document if isinstance(verdict, ChangeVerdict) else card

    async def _rewrite_card(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        card = self._directory.build_public_card(exchange.subscription.sink, reply.result)
        card = await self.inspect_card(exchange.subscription, card, exchange.correlation_id)
        return replace(reply, document=reply.document | {"result": card} if reply.dialect.rpc else card)

    async def _inspect_response(self, leg: Leg, exchange: Exchange, reply: A2AReply) -> A2AReply:
        reply = await self.recognize_forwarded(exchange, reply)
        verdict = await apply_verdict(
            exchange, self._inspector.inspect(leg, build_inspection_request(exchange, exchange.call, reply))
        )
        return replace(reply, document=verdict.document) if isinstance(verdict, ChangeVerdict) else reply

    async def _inspect_stream(
        self, leg: Leg, exchange: Exchange, replies: Sequence[A2AReply]
    ) -> Sequence[A2AReply]:
        if not self._inspector.has_policies(leg, exchange.subscription):
            return replies
        replies = [await self.recognize_forwarded(exchange, reply) for reply in replies]
        request = build_inspection_request(exchange, exchange.call, None)
        verdict = await apply_verdict(exchange, self._inspector.inspect_stream(leg, request, replies))
        return verdict.replies if isinstance(verdict, ReleaseVerdict) else replies

    async def aclose(self) -> None:
        """Cancel background calls and push notifications in progress."""
        await self.notifier.aclose()
        await self.background_calls.aclose()


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
