"""One call from its caller to an agent and back: the four legs, and agents that take their time."""

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
    """Carries calls."""

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

    async def whole(self, way: Exchange) -> RelayAnswer:
        """The answer to a call that is not streamed; raises A2AError."""
        if way.call.operation != "send":
            return await self.exchange(way, within=self._early.within_s)
        loop = asyncio.get_running_loop()
        began = loop.time()
        early = began + self._early.within_s
        offer = self._directory.at_hand(way.subscription.sink)
        if offer is None:
            return await self.early.unless_late(way, partial(self.exchange, way, within=self._call_s), early)
        try:
            call = await self.outward(way)
            url = resolve_url(offer, call)
            # Nearly every agent answers soon, over a connection that is there: that takes no task of its own.
            asked = self._send(way, call, url) if loop.time() - began < INLINE_WITHIN_S else None
            if asked is None:
                ask = partial(self._or_taken, way, partial(self._ask_agent, way, call, url, self._call_s))
                return await self.early.unless_late(way, ask, early)
            try:
                response = await asked.head_by(self._early)
            except NETWORK_ERRORS as failure:
                raise as_a2a_error(failure) from failure
            if response is None or not response.whole:
                hear = partial(self._or_taken, way, partial(self._hear, way, asked))
                return await self.early.unless_late(way, hear, early, asked)
            return await self._received(way, response)
        except AnsweredByRelay as taken:
            return await self.taken(way, taken)

    async def _or_taken(self, way: Exchange, answer: Callable[[], Awaitable[RelayAnswer]]) -> RelayAnswer:
        try:
            return await answer()
        except AnsweredByRelay as taken:
            return await self.taken(way, taken)

    async def exchange(self, way: Exchange, *, within: float) -> RelayAnswer:
        """There and back."""
        try:
            call = await self.outward(way)
            url = await self.url_for(way, call)
            return await self._ask_agent(way, call, url, within)
        except AnsweredByRelay as taken:
            return await self.taken(way, taken)

    def _send(self, way: Exchange, call: A2ACall, url: URL) -> PendingRequest | None:
        try:
            return self.upstream.send(
                way.subscription.sink,
                call.method,
                url,
                headers=way.headers,
                body=call.body(),
                within=self._call_s,
            )
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _ask_agent(self, way: Exchange, call: A2ACall, url: URL, within: float) -> RelayAnswer:
        begun = self.upstream.begin(
            way.subscription.sink, call.method, url, headers=way.headers, body=call.body(), within=within
        )
        return await self._received(way, await self._head(begun))

    async def _hear(self, way: Exchange, asked: PendingRequest) -> RelayAnswer:
        """The answer to what was sent before."""
        return await self._received(way, await self._head(asked.head()))

    async def _head(self, answering: Awaitable[T]) -> T:
        try:
            return await answering
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def _received(self, way: Exchange, response: UpstreamResponse) -> RelayAnswer:
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
        return await self.answer(way, response, kind, body)

    async def taken(self, way: Exchange, taken: AnsweredByRelay) -> RelayAnswer:
        """What the relay answers itself, in the caller's own names."""
        call = way.call
        reply = A2AReply(dialect=call.dialect, operation=call.operation, document=taken.document)
        noted = await self._access.note(way.subscription, reply, own=reply.task_id)
        if way.webhook is not None and noted.task_id is not None:
            await self._pushes.bind(way.webhook, task=None, shown=noted.task_id)
        return RelayAnswer(body=noted.body(), content_type=call.dialect.content_type, reply=noted)

    # The way there

    def asks_for_pushes(self, way: Exchange) -> bool:
        """Whether `addressed` may have anything to do."""
        return way.call.operation in CONFIG_CARRYING_OPERATIONS and may_contain_config(way.call)

    async def addressed(self, way: Exchange) -> Exchange:
        """The way with a webhook of the relay's, if the caller wants to be told of changes.

        Raises A2AError for an address that may not be called.
        """
        call, webhook = await self._pushes.take(way.subscription, way.call, way.correlation_id)
        return way if webhook is None else replace(way, call=call, webhook=webhook)

    async def outward(self, way: Exchange) -> A2ACall:
        """The call as the agent gets it; raises A2AError if it may not pass, Taken if the relay answers."""
        if way.past(Leg.REQUEST_TO_SINK):
            return way.call
        call = way.call
        if self._unsure(Leg.REQUEST_FROM_SOURCE, way, call):
            call = await self._ask_on_request(Leg.REQUEST_FROM_SOURCE, way, call)
        entries = await self._access.entries(way.subscription, call) if call.task_ids else []
        for entry in entries:
            if self.own.speaks_for(entry, call, besides=way.handle.task_id):
                if is_config_operation(call):
                    raise AnsweredByRelay(await self._own_configs(way, call, entry))
                raise AnsweredByRelay(await self.own.answer(way.subscription, call, entry))
        if entries or call.context_id is not None:
            call = await self._access.admit(way.subscription, call, entries)
        if self._unsure(Leg.REQUEST_TO_SINK, way, call):
            call = await self._ask_on_request(Leg.REQUEST_TO_SINK, way, call)
        return call

    async def url_for(self, way: Exchange, call: A2ACall) -> URL:
        """Where the agent takes this call."""
        return resolve_url(await self._directory.offer(way.subscription.sink), call)

    async def spoken(self, sink: RegisteredAgent, preferred: Dialect) -> Dialect:
        """The dialect that is preferred, if the agent offers its binding, else one that it offers."""
        offered = [one.dialect for one in (await self._directory.offer(sink)).interfaces]
        if preferred in offered or not offered:
            return preferred
        return next((one for one in offered if one.binding == preferred.binding), offered[0])

    def _unsure(self, leg: Leg, way: Exchange, call: A2ACall) -> bool:
        """Whether a call has to be inspected on a leg."""
        if way.after is not None and way.past(leg):
            return False
        return self._inspector.glance(leg, way.subscription, call) is QuickCheck.UNSURE

    async def _ask_on_request(self, leg: Leg, way: Exchange, call: A2ACall) -> A2ACall:
        verdict = await apply_verdict(
            way, self._inspector.inspect(leg, build_inspection_request(way, call, None))
        )
        return replace(call, document=verdict.document) if isinstance(verdict, ChangeVerdict) else call

    # The way back

    async def read_whole(self, response: UpstreamResponse) -> tuple[str, bytes]:
        """Media type and body of an answer that is no stream; raises A2AError for one that is."""
        return _get_whole_media_type(response), await self.upstream.read_whole(response)

    async def answer(self, way: Exchange, response: UpstreamResponse, kind: str, body: bytes) -> RelayAnswer:
        """A whole answer, checked; raises A2AError for what is none."""
        call, status = way.call, response.status
        headers = select_response_headers(response, way.headers)
        if not body and not call.dialect.rpc and status in (200, 202, 204):
            await self._pushes.deleted(way.subscription, call)
            return RelayAnswer(
                body=b"", status=status, content_type=call.dialect.content_type, headers=headers
            )
        if kind not in JSON_TYPES:
            raise _build_not_json_error(call, status)
        reply = parse_reply(call.dialect, call.operation, body)
        try:
            back = await self.inward(way, reply)
        except A2AError as problem:
            raise as_agent_error(problem) from problem.__cause__
        return RelayAnswer(
            body=body if back is reply else back.body(),
            content_type=kind,
            status=200 if call.dialect.rpc else status,
            headers=headers,
            reply=back,
        )

    async def inward(self, way: Exchange, reply: A2AReply) -> A2AReply:
        """An answer or an event as the caller gets it, the very same if nothing was changed.

        Raises A2AError if it may not pass, Taken if the relay answers instead.
        """
        glance, subscription, back = self._inspector.glance, way.subscription, reply
        from_sink = to_source = QuickCheck.CLEAR
        if not way.past(Leg.RESPONSE_FROM_SINK):
            if way.handle.task_id is not None:
                await self._join(way, reply)
            from_sink = glance(Leg.RESPONSE_FROM_SINK, subscription, back)
            if from_sink is QuickCheck.UNSURE:
                back = await self._ask_on_response(Leg.RESPONSE_FROM_SINK, way, back)
            back = await self._between(way, back)
        if not way.past(Leg.RESPONSE_TO_SOURCE):
            to_source = glance(Leg.RESPONSE_TO_SOURCE, subscription, back)
            if to_source is QuickCheck.UNSURE:
                back = await self._ask_on_response(Leg.RESPONSE_TO_SOURCE, way, back)
        if self.own.guard is not None and asks_for_input(back):
            await self._ask_a_person(way, back, self.own.guard)
        # What was looked at is what travels: a second value of one name is in the bytes only.
        seen = from_sink is not QuickCheck.UNWATCHED or to_source is not QuickCheck.UNWATCHED
        return back.again() if seen and back is reply else back

    async def inward_together(self, way: Exchange, replies: Sequence[A2AReply]) -> Sequence[A2AReply]:
        """All events of a stream as the caller gets them; raises as `inward` does."""
        for reply in replies:
            await self._join(way, reply)
        replies = await self._ask_on_stream(Leg.RESPONSE_FROM_SINK, way, replies)
        replies = [await self._between(way, reply) for reply in replies]
        replies = await self._ask_on_stream(Leg.RESPONSE_TO_SOURCE, way, replies)
        for reply in replies:
            if self.own.guard is not None and asks_for_input(reply):
                await self._ask_a_person(way, reply, self.own.guard)
        return replies

    async def _between(self, way: Exchange, reply: A2AReply) -> A2AReply:
        """An answer or an event between the two legs of its way back: in the caller's own names."""
        if reply.error is not None:
            if way.webhook is not None:
                await self._pushes.refused(way.webhook)
            return reply
        try:
            noted = await self._access.note(way.subscription, reply, own=way.handle.task_id)
        except TaskOwnedByRelay as spoken_for:
            raise AnsweredByRelay(self.own.told(way.call, spoken_for.entry)) from None
        if is_config_operation(way.call):
            return await self._about_configs(way, noted)
        if way.webhook is not None and reply.task_id is not None and noted.task_id is not None:
            await self._pushes.bind(way.webhook, task=reply.task_id, shown=noted.task_id)
        if noted.operation == "list":
            return await add_relay_tasks(self.own, way.subscription, way.call, noted)
        return self._own_card(way, noted) if noted.operation == "extended_card" else noted

    async def _join(self, way: Exchange, reply: A2AReply) -> None:
        """Have the agent's name for a task lead to the one that the caller was given before."""
        shown, theirs = way.handle.task_id, reply.task_id
        if shown is None or theirs is None or theirs == shown or reply.error is not None:
            return
        way.handle.upstream_id = theirs
        place = (way.subscription.tenant, way.subscription.sink.id)
        if await self._access.book.find(*place, "task", theirs) is None:
            joined = Task(
                id=theirs,
                owner=way.subscription.source.name,
                upstream_id=theirs,
                shown_as=shown,
                context_id=reply.context_id,
            )
            await self._access.book.write(*place, "task", joined, at_once=True)

    async def _ask_a_person(self, way: Exchange, reply: A2AReply, guard: HoldGuard) -> None:
        """Hold what the agent asks of people; whatever policies say of it was heard before."""
        await apply_verdict(way, guard.asks(build_inspection_request(way, way.call, reply)))

    async def _own_configs(self, way: Exchange, call: A2ACall, entry: Task) -> dict[str, Any]:
        """What the relay says of the configs of a task that no agent knows."""
        found = await self._pushes.own(way.subscription, call, way.webhook, entry.id)
        if way.webhook is not None:
            self.early.tell_in_the_end(way, entry, announce=True)
        return found

    async def _about_configs(self, way: Exchange, reply: A2AReply) -> A2AReply:
        subscription, call = way.subscription, way.call
        [entry, *_] = await self._access.entries(subscription, call)
        return await self._pushes.answered(
            subscription, call, way.webhook, reply, entry.upstream_id or entry.id
        )

    def watched(self, way: Exchange) -> bool:
        """Whether anything looks at what the agent answers."""
        legs = (Leg.RESPONSE_FROM_SINK, Leg.RESPONSE_TO_SOURCE)
        return any(self._inspector.watches(leg, way.subscription) for leg in legs)

    def withheld(self, way: Exchange) -> bool:
        """Whether a stream must be seen whole before its caller gets any text of it."""
        return self._inspector.withholds(way.subscription)

    def _own_card(self, way: Exchange, reply: A2AReply) -> A2AReply:
        card = self._directory.shown(way.subscription.sink, reply.result)
        return replace(reply, document=reply.document | {"result": card} if reply.dialect.rpc else card)

    async def _ask_on_response(self, leg: Leg, way: Exchange, reply: A2AReply) -> A2AReply:
        verdict = await apply_verdict(
            way, self._inspector.inspect(leg, build_inspection_request(way, way.call, reply))
        )
        return replace(reply, document=verdict.document) if isinstance(verdict, ChangeVerdict) else reply

    async def _ask_on_stream(
        self, leg: Leg, way: Exchange, replies: Sequence[A2AReply]
    ) -> Sequence[A2AReply]:
        if not self._inspector.watches(leg, way.subscription):
            return replies
        exchange = build_inspection_request(way, way.call, None)
        verdict = await apply_verdict(way, self._inspector.inspect_stream(leg, exchange, replies))
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
