"""Handle one call: inspect it, send it to the agent, and inspect the reply."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace
from yarl import URL

from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import REST_1_0, Dialect
from placet.relay.a2a.errors import A2AError, as_agent_error
from placet.relay.a2a.json_format import Json, get_state
from placet.relay.a2a.push_configs import may_contain_config
from placet.relay.a2a.reply import A2AReply, build_get_reply, build_task_call, parse_reply_to
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.detectors.stream_plan import StreamPlan
from placet.relay.exchange import (
    Answered,
    AnswerFromTask,
    ExchangeEffect,
    ExchangeSteps,
    FindTasks,
    Forward,
    HoldListedQuestions,
    HoldMessage,
    HoldQuestion,
    Inspect,
    InspectEvents,
    LinkTask,
    Record,
    RewriteReply,
    TranslateCall,
    pass_card,
    pass_event,
    pass_events,
    pass_observed_event,
    pass_reply,
    pass_request,
    relay_call,
)
from placet.relay.inspection.message_holder import MessageHolder
from placet.relay.inspection.message_inspector import InspectionRequest, MessageInspector
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import Leg
from placet.relay.policy.verdict import PASS, UNWATCHED, PolicyVerdict, QuickCheck
from placet.relay.push import CONFIG_CARRYING_OPERATIONS, PushOutbox, PushProxy, is_config_operation
from placet.relay.settings import RelayLimits
from placet.relay.task import Task
from placet.relay.tasks.access import TaskAccess, TaskOwnedByRelay
from placet.relay.tasks.background_calls import BackgroundCalls
from placet.relay.tasks.relay_tasks import RelayTasks, TaskHandle
from placet.relay.tasks.task_list import add_relay_tasks
from placet.relay.tasks.task_waiters import TaskWaiters
from placet.relay.tenants import RegisteredAgent, Subscription
from placet.relay.traceback_redaction import redact_traceback
from placet.relay.traffic.early_returns import EarlyReturns
from placet.relay.traffic.exchange import (
    AnsweredByRelay,
    Exchange,
    RelayAnswer,
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

INLINE_WITHIN_S = 0.05
NOT_CHECKED = "The message could not be checked, so it was not forwarded."
log = logging.getLogger("placet.relay")
T = TypeVar("T")


class ExchangeRun(Generic[T]):
    """One exchange in progress: does what the exchange asks for, until it forwards the call or ends."""

    def __init__(self, performer: "EffectPerformer", exchange: Exchange, steps: ExchangeSteps[T]) -> None:
        self._performer = performer
        self._exchange = exchange
        self._steps = steps

    async def advance(self, reply: A2AReply | None = None) -> Forward | T:
        """Continue with the agent's reply. Return the call to forward, or the result of the exchange.

        Raises A2AError if a message is refused, or the call fails.
        """
        send, performer, exchange = self._steps.send, self._performer, self._exchange
        try:
            effect = send(reply)
            while not isinstance(effect, Forward):
                effect = send(await performer.perform(exchange, effect))
        except StopIteration as end:
            result: T = end.value
            return result
        return effect


class EffectPerformer:
    """Does what exchanges ask for, except forwarding calls."""

    def __init__(
        self,
        *,
        access: TaskAccess,
        directory: AgentCardCache,
        inspector: MessageInspector,
        pushes: PushProxy,
        relay_tasks: RelayTasks,
        early_returns: EarlyReturns,
        holds: MessageHolder | None,
    ) -> None:
        self._access = access
        self._directory = directory
        self._inspector = inspector
        self._pushes = pushes
        self._relay_tasks = relay_tasks
        self._early_returns = early_returns
        self._holds = holds
        self._performers: Mapping[type[Any], Callable[[Exchange, Any], Awaitable[Any]]] = {
            Inspect: self._inspect,
            InspectEvents: self._inspect_events,
            HoldMessage: self._hold_message,
            HoldQuestion: self._hold_question,
            HoldListedQuestions: self._hold_listed_questions,
            FindTasks: self._find_tasks,
            AnswerFromTask: self._answer_from_task,
            TranslateCall: self._translate_call,
            Record: self._record,
            LinkTask: self._link_task,
            RewriteReply: self._rewrite_reply,
        }

    def perform(self, exchange: Exchange, effect: ExchangeEffect) -> Awaitable[Any]:
        """Return what the exchange asked for."""
        return self._performers[type(effect)](exchange, effect)

    async def run(self, exchange: Exchange, steps: ExchangeSteps[T]) -> T:
        """Return the result of steps that forward no call."""
        result = await ExchangeRun(self, exchange, steps).advance()
        if isinstance(result, Forward):
            raise TypeError("These steps must not forward a call.")
        return result

    # Inspect and hold

    async def _inspect(self, exchange: Exchange, effect: Inspect) -> PolicyVerdict:
        check = self._inspector.check_quickly(effect.leg, exchange.subscription, effect.message)
        if check is QuickCheck.UNWATCHED:
            return UNWATCHED
        if check is QuickCheck.CLEAR:
            return PASS
        request = await self._build_request(exchange, effect.message)
        return await self._guard(exchange, self._inspector.inspect(effect.leg, request))

    async def _inspect_events(self, exchange: Exchange, effect: InspectEvents) -> PolicyVerdict:
        if not self._inspector.has_policies(effect.leg, exchange.subscription):
            return UNWATCHED
        replies = [await self.recognize_forwarded(exchange, reply) for reply in effect.replies]
        request = build_inspection_request(exchange, exchange.call, None)
        return await self._guard(exchange, self._inspector.inspect_stream(effect.leg, request, replies))

    async def _hold_message(self, exchange: Exchange, effect: HoldMessage) -> Json:
        if self._holds is None:
            raise effect.verdict.build_refusal()
        request = await self._build_request(exchange, effect.message)
        return await self._guard(exchange, self._holds.hold(effect.leg, request, effect.verdict.evaluation))

    async def _hold_question(self, exchange: Exchange, effect: HoldQuestion) -> Json | None:
        if self._holds is None:
            return None
        request = await self._build_request(exchange, effect.reply)
        return await self._guard(exchange, self._holds.hold_input_request(request))

    async def _hold_listed_questions(self, exchange: Exchange, effect: HoldListedQuestions) -> None:
        """Hold the questions in a task list, as if the caller had fetched each task that asks for input."""
        subscription, dialect = exchange.subscription, effect.reply.dialect
        if self._holds is None or subscription.sink.input_required != "hold":
            return
        for document in effect.reply.tasks:
            task_id = document.get("id")
            if get_state(document.get("status")) != "input-required" or not isinstance(task_id, str):
                continue
            task = await self._access.find_caller_task(subscription, task_id)
            if task is None or task.owner != subscription.source.name or task.is_kept_by_relay:
                continue
            call = build_task_call(dialect, "get", task_id, exchange.call.tenant)
            fetch = replace(exchange, call=call, handle=TaskHandle(writes=exchange.handle.writes))
            try:  # if the task is held, the list shows it so
                await self.run(fetch, pass_reply(build_get_reply(dialect, document)))
            except A2AError as problem:  # such as too many pending holds: the list does not show the question
                log.info("listed_question_not_held task=%s error=%s", task_id, problem.kind)

    async def _build_request(self, exchange: Exchange, message: A2ACall | A2AReply) -> InspectionRequest:
        if isinstance(message, A2ACall):
            return build_inspection_request(exchange, message, None)
        reply = await self.recognize_forwarded(exchange, message)
        return build_inspection_request(exchange, exchange.call, reply)

    async def _guard(self, exchange: Exchange, inspection: Awaitable[T]) -> T:
        """Return the result of an inspection or a hold. An unexpected failure ends the exchange."""
        try:
            with exchange.handle.count_inspection():
                return await inspection
        except A2AError:
            raise
        except Exception as error:
            extra = {"correlation_id": exchange.correlation_id}
            log.error("message_check_failed error=%s", redact_traceback(error), extra=extra)
            raise A2AError("internal", NOT_CHECKED) from error

    async def recognize_forwarded(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return the reply with the digests of the messages that its history may repeat."""
        handle = exchange.handle
        return await self._access.recognize_forwarded(
            exchange.subscription, reply, sent=handle.forwarded, caller_task_id=handle.task_id
        )

    async def inspect_card(self, subscription: Subscription, card: Json, correlation_id: str) -> Json:
        """Return an agent's card as a caller gets it. Raises A2AError if a policy does not let it pass."""
        call = A2ACall(dialect=REST_1_0, operation="extended_card", method="GET")
        exchange = Exchange(subscription=subscription, call=call, correlation_id=correlation_id, headers={})
        reply = A2AReply(dialect=REST_1_0, operation="extended_card", document=card)
        passed = await self.run(exchange, pass_card(reply))
        return passed.document

    # Tasks

    async def _find_tasks(self, exchange: Exchange, effect: FindTasks) -> Sequence[Task]:
        return await self._access.find_call_tasks(exchange.subscription, effect.call)

    async def _answer_from_task(self, exchange: Exchange, effect: AnswerFromTask) -> Json:
        if is_config_operation(effect.call):
            return await self._answer_config_call(exchange, effect.call, effect.task)
        return await self._relay_tasks.answer(exchange.subscription, effect.call, effect.task)

    async def _translate_call(self, exchange: Exchange, effect: TranslateCall) -> A2ACall:
        return await self._access.translate_call(exchange.subscription, effect.call, effect.tasks)

    async def _record(self, exchange: Exchange, effect: Record) -> None:
        """Store the digest of a message in its task."""
        handle, subscription = exchange.handle, exchange.subscription
        digest = handle.record_sent(effect.message)
        for task_id in {handle.task_id, effect.call.target_task_id} - {None}:
            task = await self._access.find_caller_task(subscription, str(task_id))
            if task is not None:
                await self._access.record_forwarded(subscription, task, digest, call=handle.writes)

    async def _link_task(self, exchange: Exchange, effect: LinkTask) -> None:
        """Store the agent's id of a task as an alias of the id that the caller got before."""
        reply = effect.reply
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

    async def _rewrite_reply(self, exchange: Exchange, effect: RewriteReply) -> A2AReply | Answered:
        """Return a reply or stream event with the caller's ids, push addresses and URLs."""
        reply = effect.reply
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
            return Answered(self._relay_tasks.build_answer(exchange.call, owned.task))
        if is_config_operation(exchange.call):
            return await self._rewrite_config_answer(exchange, translated)
        if exchange.webhook is not None and reply.task_id is not None and translated.task_id is not None:
            await self._pushes.bind(
                exchange.webhook, agent_task_id=reply.task_id, caller_task_id=translated.task_id
            )
        if translated.operation == "list":
            return await add_relay_tasks(self._relay_tasks, exchange.subscription, exchange.call, translated)
        return (
            await self._rewrite_card(exchange, translated)
            if reply.operation == "extended_card"
            else translated
        )

    async def _answer_config_call(self, exchange: Exchange, call: A2ACall, task: Task) -> dict[str, Any]:
        """Return the response to a call about the push configs of a task that the agent does not know."""
        response = await self._pushes.handle_config_call(
            exchange.subscription, call, exchange.webhook, task.id
        )
        if exchange.webhook is not None:
            self._early_returns.notify_when_done(exchange, task, announce=True)
        return response

    async def _rewrite_config_answer(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        subscription, call = exchange.subscription, exchange.call
        [task, *_] = await self._access.find_call_tasks(subscription, call)
        return await self._pushes.restore_targets(
            subscription, call, exchange.webhook, reply, task.upstream_id or task.id
        )

    async def _rewrite_card(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        card = self._directory.build_public_card(exchange.subscription.sink, reply.result)
        card = await self.inspect_card(exchange.subscription, card, exchange.correlation_id)
        return replace(reply, document=reply.document | {"result": card} if reply.dialect.rpc else card)

    async def build_own_reply(self, exchange: Exchange, document: Json) -> A2AReply:
        """Return the relay's own answer with the caller's ids."""
        call = exchange.call
        reply = A2AReply(dialect=call.dialect, operation=call.operation, document=document)
        reply = await self._access.translate_reply(
            exchange.subscription, reply, except_task_id=reply.task_id, call=exchange.handle.writes
        )
        if exchange.webhook is not None and reply.task_id is not None:
            await self._pushes.bind(exchange.webhook, agent_task_id=None, caller_task_id=reply.task_id)
        return reply


CallRun = ExchangeRun[A2AReply | Answered | None]


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
        holds: MessageHolder | None,
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
        self._inspector = inspector
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
        steps = relay_call(exchange.call, after=exchange.after, own_task_id=exchange.handle.task_id)
        return ExchangeRun(self._performer, exchange, steps)

    def _send(self, exchange: Exchange, call: A2ACall, url: URL) -> PendingRequest | None:
        try:
            return self.upstream.send(exchange.build_request(call, url), within=self._call_s)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _forward(
        self, exchange: Exchange, run: CallRun, call: A2ACall, url: URL, within: float
    ) -> RelayAnswer:
        try:
            response = await self.upstream.begin(exchange.build_request(call, url), within=within)
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

    async def prepare_request(self, exchange: Exchange) -> A2ACall:
        """Return the call that the agent gets.

        Raises A2AError if the call is refused, and AnsweredByRelay if the relay answers it.
        """
        steps = pass_request(exchange.call, after=exchange.after, own_task_id=exchange.handle.task_id)
        return _get_passed(await self.run(exchange, steps))

    async def process_reply(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return a stream event as the caller gets it: the same object if nothing was changed.

        Raises as `prepare_request` does.
        """
        return _get_passed(await self.run(exchange, pass_reply(reply, after=exchange.after)))

    async def process_stream(self, exchange: Exchange, replies: Sequence[A2AReply]) -> Sequence[A2AReply]:
        """Return all events of a stream as the caller gets them. Raises as `prepare_request` does."""
        return _get_passed(await self.run(exchange, pass_events(replies)))

    async def rewrite_event(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return an inspected event as the caller gets it. Raises as `prepare_request` does."""
        return _get_passed(await self.run(exchange, pass_event(reply)))

    async def forward_observed(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return an event that policies only observe. Raises as `prepare_request` does."""
        return _get_passed(await self.run(exchange, pass_observed_event(reply)))

    async def recognize_forwarded(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """Return the reply with the digests of the messages that its history may repeat."""
        return await self._performer.recognize_forwarded(exchange, reply)

    async def report_observed(self, exchange: Exchange, replies: Sequence[A2AReply]) -> None:
        """Record what policies find in a stream that the caller has got."""
        try:
            replies = [await self.recognize_forwarded(exchange, reply) for reply in replies]
            request = build_inspection_request(exchange, exchange.call, None)
            await self._inspector.observe_stream(request, replies)
        except Exception as error:
            extra = {"correlation_id": exchange.correlation_id}
            log.error("stream_not_observed error=%s", redact_traceback(error), extra=extra)

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

    async def is_stream_clean(
        self, exchange: Exchange, replies: Sequence[A2AReply], pieces: Sequence[Sequence[TextPiece]]
    ) -> bool:
        """Return whether nothing is found in a stream with these texts, and the caller knows its task's id.

        False also if a check fails, or if the events have to be inspected in another way.
        """
        first = next((reply for reply in replies if reply.task_id is not None), None)
        if first is None or (await self.rewrite_event(exchange, first)).task_id != first.task_id:
            return False
        recognized = [await self.recognize_forwarded(exchange, reply) for reply in replies]
        request = build_inspection_request(exchange, exchange.call, first)
        return await self._inspector.is_stream_clean(request, recognized, pieces)

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


def _get_passed(passed: T | Answered) -> T:
    if isinstance(passed, Answered):
        raise AnsweredByRelay(passed.document)
    return passed


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
