"""Carry one call to an agent and back over the four legs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace
from yarl import URL

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError, as_agent_error
from placet.relay.a2a.reply import A2AReply, parse_reply
from placet.relay.inspection.message_inspector import (
    ChangeVerdict,
    MessageInspector,
    QuickCheck,
    ReleaseVerdict,
)
from placet.relay.limits import RelayLimits
from placet.relay.policies.policy import Leg
from placet.relay.push.configs import may_contain_config
from placet.relay.push.push_proxy import CONFIG_CARRYING_OPERATIONS, PushProxy, is_config_operation
from placet.relay.registry.subscriptions import RegisteredAgent
from placet.relay.tasks.access import TaskAccess, TaskOwnedByRelay
from placet.relay.tasks.background_calls import BackgroundCalls
from placet.relay.tasks.relay_tasks import HoldGuard, RelayTasks, asks_for_input
from placet.relay.tasks.task_list import add_relay_tasks
from placet.relay.tasks.task_repository import Task
from placet.relay.traffic.early_returns import EarlyReturns
from placet.relay.traffic.exchange import (
    AnsweredByRelay,
    Exchange,
    RelayAnswer,
    apply_verdict,
    build_inspection_request,
)
from placet.relay.upstream.agent_cards import AgentCardCache, resolve_url
from placet.relay.upstream.agent_client import (
    EVENTS_TYPE,
    JSON_TYPES,
    NETWORK_ERRORS,
    AgentClient,
    as_a2a_error,
    check_response_head,
    get_media_type,
)
from placet.relay.upstream.deadlines import Deadlines
from placet.relay.upstream.http_client import PendingRequest, UpstreamResponse
from placet.relay.upstream.response_headers import select_response_headers

__all__ = ["AnsweredByRelay", "CallHandler", "Exchange", "RelayAnswer"]

INLINE_WITHIN_S = 0.05
T = TypeVar("T")


class CallHandler:
    """Carries calls to agents and their replies back."""

    def __init__(
        self,
        *,
        upstream: AgentClient,
        directory: AgentCardCache,
        access: TaskAccess,
        inspector: MessageInspector,
        limits: RelayLimits,
        pushes: PushProxy,
        now: Callable[[], datetime],
    ) -> None:
        self.upstream = upstream
        self.limits = limits
        self.overdue = BackgroundCalls(access.book, now)
        self.own = RelayTasks(access.book, now)
        self.early = EarlyReturns(
            book=access.book, own=self.own, overdue=self.overdue, pushes=pushes, now=now
        )
        self._early = Deadlines(limits.early_return_for.total_seconds(), PendingRequest.interrupt)
        self._call_s = limits.call_for.total_seconds()
        self._directory = directory
        self._access = access
        self._inspector = inspector
        self._pushes = pushes

    async def handle(self, exchange: Exchange) -> RelayAnswer:
        """The answer to a call that is not streamed; raises A2AError."""
        if exchange.call.operation != "send":
            return await self.send_and_receive(exchange, within=self._early.within_s)
        loop = asyncio.get_running_loop()
        began = loop.time()
        early = began + self._early.within_s
        offer = self._directory.get_cached_card(exchange.subscription.sink)
        if offer is None:
            return await self.early.answer_or_return_early(
                exchange, partial(self.send_and_receive, exchange, within=self._call_s), early
            )
        try:
            call = await self.prepare_request(exchange)
            url = resolve_url(offer, call)
            # Nearly every agent answers soon, over a connection that is there: that takes no task of its own.
            asked = self._send(exchange, call, url) if loop.time() - began < INLINE_WITHIN_S else None
            if asked is None:
                ask = partial(
                    self._catch_relay_answer,
                    exchange,
                    partial(self._ask_agent, exchange, call, url, self._call_s),
                )
                return await self.early.answer_or_return_early(exchange, ask, early)
            try:
                response = await asked.wait_for_head(self._early)
            except NETWORK_ERRORS as failure:
                raise as_a2a_error(failure) from failure
            if response is None or not response.whole:
                hear = partial(
                    self._catch_relay_answer, exchange, partial(self._await_answer, exchange, asked)
                )
                return await self.early.answer_or_return_early(exchange, hear, early, asked)
            return await self._read_answer(exchange, response)
        except AnsweredByRelay as taken:
            return await self.answer_from_relay(exchange, taken)

    async def _catch_relay_answer(
        self, exchange: Exchange, answer: Callable[[], Awaitable[RelayAnswer]]
    ) -> RelayAnswer:
        try:
            return await answer()
        except AnsweredByRelay as taken:
            return await self.answer_from_relay(exchange, taken)

    async def send_and_receive(self, exchange: Exchange, *, within: float) -> RelayAnswer:
        """There and back."""
        try:
            call = await self.prepare_request(exchange)
            url = await self.url_for(exchange, call)
            return await self._ask_agent(exchange, call, url, within)
        except AnsweredByRelay as taken:
            return await self.answer_from_relay(exchange, taken)

    def _send(self, exchange: Exchange, call: A2ACall, url: URL) -> PendingRequest | None:
        try:
            return self.upstream.send(
                exchange.subscription.sink,
                call.method,
                url,
                headers=exchange.headers,
                body=call.body(),
                within=self._call_s,
            )
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _ask_agent(self, exchange: Exchange, call: A2ACall, url: URL, within: float) -> RelayAnswer:
        begun = self.upstream.begin(
            exchange.subscription.sink,
            call.method,
            url,
            headers=exchange.headers,
            body=call.body(),
            within=within,
        )
        return await self._read_answer(exchange, await self._head(begun))

    async def _await_answer(self, exchange: Exchange, asked: PendingRequest) -> RelayAnswer:
        """The answer to what was sent before."""
        return await self._read_answer(exchange, await self._head(asked.head()))

    async def _head(self, answering: Awaitable[T]) -> T:
        try:
            return await answering
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _read_answer(self, exchange: Exchange, response: UpstreamResponse) -> RelayAnswer:
        """The answer of which the head is there."""
        try:
            check_response_head(response)
            kind, body = _get_whole_media_type(response), self.upstream.read_now(response)
            if body is None:
                body = await self.upstream.read_whole(response)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        finally:
            response.close()
        return await self.answer(exchange, response, kind, body)

    async def answer_from_relay(self, exchange: Exchange, taken: AnsweredByRelay) -> RelayAnswer:
        """What the relay answers itself, in the caller's own names."""
        call = exchange.call
        reply = A2AReply(dialect=call.dialect, operation=call.operation, document=taken.document)
        noted = await self._access.note(exchange.subscription, reply, own=reply.task_id)
        if exchange.webhook is not None and noted.task_id is not None:
            await self._pushes.bind(exchange.webhook, task=None, shown=noted.task_id)
        return RelayAnswer(body=noted.body(), content_type=call.dialect.content_type, reply=noted)

    # The way there

    def has_push_config(self, exchange: Exchange) -> bool:
        """Whether `addressed` may have anything to do."""
        return exchange.call.operation in CONFIG_CARRYING_OPERATIONS and may_contain_config(exchange.call)

    async def register_webhook(self, exchange: Exchange) -> Exchange:
        """The way with a webhook of the relay's, if the caller wants to be told of changes.

        Raises A2AError for an address that may not be called.
        """
        call, webhook = await self._pushes.take(exchange.subscription, exchange.call, exchange.correlation_id)
        return exchange if webhook is None else replace(exchange, call=call, webhook=webhook)

    async def prepare_request(self, exchange: Exchange) -> A2ACall:
        """The call as the agent gets it; raises A2AError if it may not pass, Taken if the relay answers."""
        if exchange.has_passed(Leg.REQUEST_TO_SINK):
            return exchange.call
        call = exchange.call
        if self._must_inspect(Leg.REQUEST_FROM_SOURCE, exchange, call):
            call = await self._inspect_request(Leg.REQUEST_FROM_SOURCE, exchange, call)
        entries = await self._access.entries(exchange.subscription, call) if call.task_ids else []
        for entry in entries:
            if self.own.answers_for(entry, call, besides=exchange.handle.task_id):
                if is_config_operation(call):
                    raise AnsweredByRelay(await self._answer_configs(exchange, call, entry))
                raise AnsweredByRelay(await self.own.answer(exchange.subscription, call, entry))
        if entries or call.context_id is not None:
            call = await self._access.admit(exchange.subscription, call, entries)
        if self._must_inspect(Leg.REQUEST_TO_SINK, exchange, call):
            call = await self._inspect_request(Leg.REQUEST_TO_SINK, exchange, call)
        return call

    async def url_for(self, exchange: Exchange, call: A2ACall) -> URL:
        """Where the agent takes this call."""
        return resolve_url(await self._directory.offer(exchange.subscription.sink), call)

    async def choose_dialect(self, sink: RegisteredAgent, preferred: Dialect) -> Dialect:
        """The dialect that is preferred, if the agent offers its binding, else one that it offers."""
        offered = [one.dialect for one in (await self._directory.offer(sink)).interfaces]
        if preferred in offered or not offered:
            return preferred
        return next((one for one in offered if one.binding == preferred.binding), offered[0])

    def _must_inspect(self, leg: Leg, exchange: Exchange, call: A2ACall) -> bool:
        """Whether a call has to be inspected on a leg."""
        if exchange.after is not None and exchange.has_passed(leg):
            return False
        return self._inspector.check_quickly(leg, exchange.subscription, call) is QuickCheck.UNSURE

    async def _inspect_request(self, leg: Leg, exchange: Exchange, call: A2ACall) -> A2ACall:
        verdict = await apply_verdict(
            exchange, self._inspector.inspect(leg, build_inspection_request(exchange, call, None))
        )
        return replace(call, document=verdict.document) if isinstance(verdict, ChangeVerdict) else call

    # The way back

    async def read_whole(self, response: UpstreamResponse) -> tuple[str, bytes]:
        """Media type and body of an answer that is no stream; raises A2AError for one that is."""
        return _get_whole_media_type(response), await self.upstream.read_whole(response)

    async def answer(
        self, exchange: Exchange, response: UpstreamResponse, kind: str, body: bytes
    ) -> RelayAnswer:
        """A whole answer, checked; raises A2AError for what is none."""
        call, status = exchange.call, response.status
        headers = select_response_headers(response, exchange.headers)
        if not body and not call.dialect.rpc and status in (200, 202, 204):
            await self._pushes.remove_config(exchange.subscription, call)
            return RelayAnswer(
                body=b"", status=status, content_type=call.dialect.content_type, headers=headers
            )
        if kind not in JSON_TYPES:
            raise _build_not_json_error(call, status)
        reply = parse_reply(call.dialect, call.operation, body)
        try:
            back = await self.process_reply(exchange, reply)
        except A2AError as problem:
            raise as_agent_error(problem) from problem.__cause__
        return RelayAnswer(
            body=body if back is reply else back.body(),
            content_type=kind,
            status=200 if call.dialect.rpc else status,
            headers=headers,
            reply=back,
        )

    async def process_reply(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """An answer or an event as the caller gets it, the very same if nothing was changed.

        Raises A2AError if it may not pass, Taken if the relay answers instead.
        """
        check_quickly, subscription, back = self._inspector.check_quickly, exchange.subscription, reply
        from_sink = to_source = QuickCheck.CLEAR
        if not exchange.has_passed(Leg.RESPONSE_FROM_SINK):
            if exchange.handle.task_id is not None:
                await self._link_task(exchange, reply)
            from_sink = check_quickly(Leg.RESPONSE_FROM_SINK, subscription, back)
            if from_sink is QuickCheck.UNSURE:
                back = await self._inspect_response(Leg.RESPONSE_FROM_SINK, exchange, back)
            back = await self._rewrite_reply(exchange, back)
        if not exchange.has_passed(Leg.RESPONSE_TO_SOURCE):
            to_source = check_quickly(Leg.RESPONSE_TO_SOURCE, subscription, back)
            if to_source is QuickCheck.UNSURE:
                back = await self._inspect_response(Leg.RESPONSE_TO_SOURCE, exchange, back)
        if self.own.guard is not None and asks_for_input(back):
            await self._hold_input_request(exchange, back, self.own.guard)
        # What was looked at is what travels: a second value of one name is in the bytes only.
        seen = from_sink is not QuickCheck.UNWATCHED or to_source is not QuickCheck.UNWATCHED
        return back.copy() if seen and back is reply else back

    async def process_stream(self, exchange: Exchange, replies: Sequence[A2AReply]) -> Sequence[A2AReply]:
        """All events of a stream as the caller gets them; raises as `inward` does."""
        for reply in replies:
            await self._link_task(exchange, reply)
        replies = await self._inspect_stream(Leg.RESPONSE_FROM_SINK, exchange, replies)
        replies = [await self._rewrite_reply(exchange, reply) for reply in replies]
        replies = await self._inspect_stream(Leg.RESPONSE_TO_SOURCE, exchange, replies)
        for reply in replies:
            if self.own.guard is not None and asks_for_input(reply):
                await self._hold_input_request(exchange, reply, self.own.guard)
        return replies

    async def _rewrite_reply(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """An answer or an event between the two legs of its way back: in the caller's own names."""
        if reply.error is not None:
            if exchange.webhook is not None:
                await self._pushes.discard_webhook(exchange.webhook)
            return reply
        try:
            noted = await self._access.note(exchange.subscription, reply, own=exchange.handle.task_id)
        except TaskOwnedByRelay as spoken_for:
            raise AnsweredByRelay(self.own.build_answer(exchange.call, spoken_for.entry)) from None
        if is_config_operation(exchange.call):
            return await self._rewrite_config_answer(exchange, noted)
        if exchange.webhook is not None and reply.task_id is not None and noted.task_id is not None:
            await self._pushes.bind(exchange.webhook, task=reply.task_id, shown=noted.task_id)
        if noted.operation == "list":
            return await add_relay_tasks(self.own, exchange.subscription, exchange.call, noted)
        return self._rewrite_card(exchange, noted) if noted.operation == "extended_card" else noted

    async def _link_task(self, exchange: Exchange, reply: A2AReply) -> None:
        """Have the agent's name for a task lead to the one that the caller was given before."""
        shown, theirs = exchange.handle.task_id, reply.task_id
        if shown is None or theirs is None or theirs == shown or reply.error is not None:
            return
        exchange.handle.upstream_id = theirs
        place = (exchange.subscription.tenant, exchange.subscription.sink.id)
        if await self._access.book.find(*place, "task", theirs) is None:
            joined = Task(
                id=theirs,
                owner=exchange.subscription.source.name,
                upstream_id=theirs,
                shown_as=shown,
                context_id=reply.context_id,
            )
            await self._access.book.write(*place, "task", joined, at_once=True)

    async def _hold_input_request(self, exchange: Exchange, reply: A2AReply, guard: HoldGuard) -> None:
        """Hold what the agent asks of people; whatever policies say of it was heard before."""
        await apply_verdict(
            exchange, guard.hold_input_request(build_inspection_request(exchange, exchange.call, reply))
        )

    async def _answer_configs(self, exchange: Exchange, call: A2ACall, entry: Task) -> dict[str, Any]:
        """What the relay says of the configs of a task that no agent knows."""
        found = await self._pushes.own(exchange.subscription, call, exchange.webhook, entry.id)
        if exchange.webhook is not None:
            self.early.notify_when_done(exchange, entry, announce=True)
        return found

    async def _rewrite_config_answer(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        subscription, call = exchange.subscription, exchange.call
        [entry, *_] = await self._access.entries(subscription, call)
        return await self._pushes.rewrite_answer(
            subscription, call, exchange.webhook, reply, entry.upstream_id or entry.id
        )

    def is_inspected(self, exchange: Exchange) -> bool:
        """Whether anything looks at what the agent answers."""
        legs = (Leg.RESPONSE_FROM_SINK, Leg.RESPONSE_TO_SOURCE)
        return any(self._inspector.has_policies(leg, exchange.subscription) for leg in legs)

    def is_withheld(self, exchange: Exchange) -> bool:
        """Whether a stream must be seen whole before its caller gets any text of it."""
        return self._inspector.must_withhold(exchange.subscription)

    def _rewrite_card(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        card = self._directory.build_public_card(exchange.subscription.sink, reply.result)
        return replace(reply, document=reply.document | {"result": card} if reply.dialect.rpc else card)

    async def _inspect_response(self, leg: Leg, exchange: Exchange, reply: A2AReply) -> A2AReply:
        verdict = await apply_verdict(
            exchange, self._inspector.inspect(leg, build_inspection_request(exchange, exchange.call, reply))
        )
        return replace(reply, document=verdict.document) if isinstance(verdict, ChangeVerdict) else reply

    async def _inspect_stream(
        self, leg: Leg, exchange: Exchange, replies: Sequence[A2AReply]
    ) -> Sequence[A2AReply]:
        if not self._inspector.has_policies(leg, exchange.subscription):
            return replies
        request = build_inspection_request(exchange, exchange.call, None)
        verdict = await apply_verdict(exchange, self._inspector.inspect_stream(leg, request, replies))
        return verdict.replies if isinstance(verdict, ReleaseVerdict) else replies

    async def aclose(self) -> None:
        """Give up what is under way."""
        await self._pushes.aclose()
        await self.overdue.aclose()


def _get_whole_media_type(response: UpstreamResponse) -> str:
    kind = get_media_type(response)
    if kind == EVENTS_TYPE:
        raise A2AError("agent_response", "The agent answered with a stream where none was asked for.")
    return kind


def _build_not_json_error(call: A2ACall, status: int) -> A2AError:
    """Over HTTP+JSON an agent's framework speaks for it where it has no such route, and seldom in JSON."""
    if not call.dialect.rpc and status == 405:
        return A2AError("not_allowed", "The agent does not take that method.")
    if not call.dialect.rpc and status == 404:
        return A2AError("method", "The agent has no such method.")
    return A2AError("agent_response", "The agent's answer is not JSON.")
