"""The relay's ASGI application: authenticate, parse the call, and send the answer."""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from placet.desk import clock, random_values
from placet.desk.access import require_scope
from placet.errors import (
    BodyTooLarge,
    CaseNotFound,
    InvalidToken,
    MethodNotAllowed,
    NotPermitted,
    Unavailable,
    Unreachable,
)
from placet.http.asgi import (
    NO_STORE,
    NOSNIFF,
    RawReply,
    Receive,
    Scope,
    Send,
    get_route_path,
    read_text_header,
    send_reply,
)
from placet.relay.a2a.call import INSPECTED_HEADERS, ROUTINE_HEADER_VALUES, CallParseError, parse_call
from placet.relay.a2a.cards import WELL_KNOWN_PATHS, compute_etag
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError, RpcId, build_error_body, get_error_status
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.payload_bodies import MAX_BODY_BYTES
from placet.relay.exchange import CallWrites, Exchange, ExchangeState, RelayAnswer
from placet.relay.registry import LiveRegistry
from placet.relay.route_addresses import AGENT_PROXY, CALL_SCOPE, CARD_SCOPE
from placet.relay.runtime.call_handler import CallHandler
from placet.relay.runtime.call_recorder import CallOutcome, CallRecorder
from placet.relay.runtime.streaming import StreamRelay
from placet.relay.tenants import RegisteredCaller, Subscription
from placet.relay.transports.request_reading import Authenticate, ReadBody, read_body_in_time
from placet.relay.upstream.agent_cards import AgentCardCache

MAX_QUERY = 4096
CARD_FRESH_S = 60
CALL_INTERRUPTED = "The call was interrupted before it ended."

# The headers of callers that are forwarded. A list of headers to remove could miss a credential.
FORWARDED_HEADERS = frozenset(
    {b"accept", b"a2a-version", b"a2a-extensions", b"x-a2a-extensions", b"content-type", b"last-event-id"}
    | {b"accept-language", b"traceparent", b"tracestate"}
)
_CORRELATION = re.compile(r"[!-~]{1,128}")


class RelayApp:
    """The ASGI app for `/relay/v1/agents/`."""

    def __init__(
        self,
        *,
        registry: LiveRegistry,
        directory: AgentCardCache,
        calls: CallHandler,
        authenticate: Authenticate,
        read_body: ReadBody,
        audit_log: AuditLog,
        public_cards: bool = False,
    ) -> None:
        self._registry = registry
        self._directory = directory
        self._calls = calls
        self._authenticate = authenticate
        self._read_body = read_body
        self._public_cards = public_cards
        self._recorder = CallRecorder(audit_log)
        self.streams = StreamRelay(calls)

    @property
    def directory(self) -> AgentCardCache:
        """The cache of agent cards."""
        return self._directory

    @property
    def calls(self) -> CallHandler:
        """The handler of calls."""
        return self._calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Errors before the call is parsed are raised, and the server sends them."""
        agent_id, slash, below = get_route_path(scope).removeprefix(AGENT_PROXY).partition("/")
        if slash + below in WELL_KNOWN_PATHS:
            subscription, is_public = await self._find_card_subscription(scope, agent_id)
            await self._send_card(scope, send, subscription, is_public=is_public)
            return
        received, correlation_id = await self._receive_call(scope, receive, agent_id, slash + below)
        if isinstance(received, RelayAnswer):
            await send_reply(send, _build_reply(received, correlation_id))
        elif received.call.streamed:
            await self._stream_call(received, receive, send)
        else:
            await send_reply(send, _build_reply(await self._answer_call(received), correlation_id))

    async def reply(self, scope: Scope, receive: Receive) -> RawReply | None:
        """Return the reply to a request whose body was read. Return None if the reply must be streamed.

        If it returns None, nothing was done. Raises as a call of this app does.
        """
        agent_id, slash, below = get_route_path(scope).removeprefix(AGENT_PROXY).partition("/")
        if slash + below in WELL_KNOWN_PATHS:
            return None
        received, correlation_id = await self._receive_call(scope, receive, agent_id, slash + below)
        if isinstance(received, RelayAnswer):
            return _build_reply(received, correlation_id)
        if received.call.streamed:
            return None
        return _build_reply(await self._answer_call(received), correlation_id)

    async def _receive_call(
        self, scope: Scope, receive: Receive, agent_id: str, path: str
    ) -> tuple[Exchange | RelayAnswer, str]:
        """Return the exchange of a request, or the answer to an invalid call; and the correlation id."""
        subscription = await self._find_subscription(scope, agent_id, CALL_SCOPE)
        if path in ("", "/") and scope["method"] != "POST":
            raise MethodNotAllowed(allow="POST")
        sent: dict[bytes, bytes] = dict(scope["headers"])
        correlation_id = _get_correlation_id(sent)
        body = getattr(receive, "body", None)
        if not isinstance(body, bytes) or len(body) > self._calls.limits.max_message_bytes:
            # The body was not received yet: read it with a timeout.
            body = await read_body_in_time(
                self._read_body, scope, receive, self._calls.limits, noun="request"
            )
        try:
            state = ExchangeState(writes=CallWrites())
            exchange = _parse_exchange(scope, path, sent, body, subscription, correlation_id, state)
            return exchange, correlation_id
        except CallParseError as refusal:
            self._recorder.record_invalid_call(subscription, refusal.dialect, refusal.problem, correlation_id)
            answer = _build_error_answer(refusal.problem, refusal.dialect, refusal.rpc_id)
            return answer, correlation_id

    async def aclose(self) -> None:
        """End all streams and calls, and close the connections to agents."""
        await self.streams.close()
        await self._calls.aclose()
        await self._directory.aclose()
        await self._calls.upstream.aclose()

    async def _answer_call(self, exchange: Exchange) -> RelayAnswer:
        """Handle and record a call that is not streamed, and return the answer."""
        began = time.perf_counter()
        problem: A2AError | None = None
        try:
            self._recorder.check_capacity()
            if self._calls.has_push_config(exchange):
                answer = await self._calls.handle(await self._calls.register_webhook(exchange))
            else:
                answer = await self._calls.handle(exchange)
        except A2AError as found:
            problem, answer = found, _build_error_answer(found, exchange.call.dialect, exchange.call.rpc_id)
        except (Exception, asyncio.CancelledError):
            self._record_failure(exchange, began)
            raise
        try:
            self._record(exchange, began, None, answer, problem)
        except Unavailable as full:
            problem = A2AError("busy", full.message)
            answer = _build_error_answer(problem, exchange.call.dialect, exchange.call.rpc_id)
        return answer

    async def _stream_call(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Handle, stream and record a call."""
        began = time.perf_counter()
        stream = _CallerStream(
            send, exchange.correlation_id, before_write=lambda: self._recorder.record_started_task(exchange)
        )
        problem: A2AError | None = None
        answer: RelayAnswer | None = None
        try:
            self._recorder.check_capacity()
            answer = await self.streams.relay(
                await self._calls.register_webhook(exchange), receive, stream.write
            )
        except A2AError as found:
            problem, answer = found, _build_error_answer(found, exchange.call.dialect, exchange.call.rpc_id)
        except (Exception, asyncio.CancelledError):
            self._record_failure(exchange, began, stream)
            raise
        try:
            self._record(exchange, began, stream, answer, problem)
        except Unavailable as full:
            problem = A2AError("busy", full.message)
            answer = _build_error_answer(problem, exchange.call.dialect, exchange.call.rpc_id)
        is_rpc_error = problem is not None and exchange.call.dialect.rpc
        if answer is not None and is_rpc_error and not stream.is_started:
            await stream.write(b"data: " + answer.body + b"\n\n")  # JSON-RPC clients expect an event stream
        if stream.is_started:
            await stream.end()
        elif answer is not None:
            await send_reply(send, _build_reply(answer, exchange.correlation_id))

    def _record(
        self,
        exchange: Exchange,
        began: float,
        stream: "_CallerStream | None",
        answer: RelayAnswer | None,
        problem: A2AError | None,
    ) -> None:
        """Record the call. Raises Unavailable if it cannot be recorded; the caller then gets an error."""
        took_for = timedelta(seconds=time.perf_counter() - began)
        if stream is not None and (answer is None or stream.is_started):
            outcome = CallOutcome(size=stream.size, events=stream.first_events, streamed=True)
            self._recorder.record(exchange, outcome, took_for)
        elif answer is not None:
            size, reply = len(answer.body), answer.reply
            outcome = CallOutcome(status=answer.status, size=size, reply=reply, problem=problem)
            self._recorder.record(exchange, outcome, took_for)

    def _record_failure(
        self, exchange: Exchange, began: float, stream: "_CallerStream | None" = None
    ) -> None:
        """Record a call that an unexpected error or a disconnect has interrupted."""
        problem = A2AError("internal", CALL_INTERRUPTED)
        answer = _build_error_answer(problem, exchange.call.dialect, exchange.call.rpc_id)
        with suppress(Unavailable):
            self._record(exchange, began, stream, answer, problem)

    async def _find_subscription(self, scope: Scope, agent_id: str, key_scope: str) -> Subscription:
        principal = await self._authenticate(scope)
        if principal.name is None:
            raise InvalidToken("Not authenticated. Send an API key: `Authorization: Bearer …`.")
        require_scope(principal, key_scope)
        return await self._registry.subscription(principal.name, agent_id)

    async def _find_card_subscription(self, scope: Scope, agent_id: str) -> tuple[Subscription, bool]:
        """Return the subscription of a card request, and whether the card is public."""
        if self._public_cards and all(name != b"authorization" for name, _ in scope["headers"]):
            return await self._find_public_subscription(agent_id), True
        try:
            return await self._find_subscription(scope, agent_id, CARD_SCOPE), False
        except CaseNotFound:
            if not self._public_cards:
                raise
        return await self._find_public_subscription(agent_id), True

    async def _find_public_subscription(self, agent_id: str) -> Subscription:
        """Return a subscription of a caller without a name, for whom no policy of a caller applies."""
        agent = await self._registry.agent(agent_id)
        return Subscription(source=RegisteredCaller(name="", kind="agent"), sink=agent, tenant=agent.tenant)

    async def _send_card(
        self, scope: Scope, send: Send, subscription: Subscription, *, is_public: bool
    ) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(allow="GET, HEAD")
        try:
            offer = await self._directory.get_card(subscription.sink)
            correlation_id = _get_correlation_id(dict(scope["headers"]))
            card = await self._calls.inspect_card(subscription, offer.card, correlation_id)
        except A2AError as problem:
            if problem.kind == "refused":
                raise NotPermitted(problem.message) from problem
            raise Unreachable(problem.message) from problem
        etag = offer.etag if card is offer.card else compute_etag(card)
        sent_etag = read_text_header(scope, b"if-none-match") or ""
        unchanged = etag in sent_etag or sent_etag.strip() == "*"
        visibility = b"public" if is_public else b"private"
        headers = [
            (b"etag", etag.encode()),
            (b"cache-control", b"%s, max-age=%d" % (visibility, CARD_FRESH_S)),
            (b"vary", b"authorization"),
            NOSNIFF,
        ]
        body = b"" if unchanged else msgspec.json.encode(card)
        if not unchanged:
            headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        sent = b"" if scope["method"] == "HEAD" else body
        await send_reply(send, RawReply(304 if unchanged else 200, headers, sent))


class _CallerStream:
    """The response to a caller's streaming call. The first write sends the head."""

    def __init__(self, send: Send, correlation_id: str, before_write: Callable[[], None]) -> None:
        self._send = send
        self._before_write = before_write
        self._correlation_id = correlation_id
        self.is_started = False
        self.size = 0
        self.first_events: list[bytes] = []
        """The beginning of the stream, as much as the audit event stores."""

    async def write(self, data: bytes) -> None:
        if not self.is_started:
            self.is_started = True
            headers = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                NO_STORE,
                NOSNIFF,
                (b"x-accel-buffering", b"no"),
                (b"x-correlation-id", self._correlation_id.encode()),
            ]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if data:
            self._before_write()
            if self.size <= MAX_BODY_BYTES:
                self.first_events.append(data)
            self.size += len(data)
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _parse_exchange(
    scope: Scope,
    path: str,
    sent: dict[bytes, bytes],
    body: bytes,
    subscription: Subscription,
    correlation_id: str,
    state: ExchangeState,
) -> Exchange:
    """Return the exchange of a request. Raises CallParseError if it is not a valid call."""
    query = scope.get("query_string", b"").decode("latin-1")
    if len(query) > MAX_QUERY:
        raise BodyTooLarge(f"The query string is larger than {MAX_QUERY} bytes.")
    agent = subscription.sink
    headers, inspected = {}, {}
    for name, value in sent.items():
        if name in FORWARDED_HEADERS or (
            agent.forward_headers and name.decode("latin-1") in agent.forward_headers
        ):
            header, text = name.decode("latin-1"), value.decode("latin-1")
            if text not in ROUTINE_HEADER_VALUES and header in INSPECTED_HEADERS:
                if not value.isascii():
                    continue  # agents decode it differently, so that it cannot be inspected
                inspected[header] = text
            headers[header] = text
    call = parse_call(
        method=scope["method"],
        path=path,
        query=query,
        version=headers.get("a2a-version"),
        content_type=headers.get("content-type"),
        body=body,
    )
    content_type = headers.get("content-type", "")
    if content_type and content_type not in ROUTINE_HEADER_VALUES:
        # The body is encoded again, in UTF-8. So the caller's charset is removed.
        headers["content-type"] = content_type.partition(";")[0].strip().lower()
    headers["x-correlation-id"] = correlation_id
    if b"x-correlation-id" in sent:
        inspected["x-correlation-id"] = correlation_id
    headers.update(agent.credentials)
    return Exchange(
        subscription=subscription,
        call=replace(call, headers=inspected) if inspected else call,
        correlation_id=correlation_id,
        headers=headers,
        size=len(body),
        transport=scope.get("placet.transport"),
        state=state,
    )


def _get_correlation_id(sent: dict[bytes, bytes]) -> str:
    """Return the caller's correlation id if it is valid, or a new one."""
    sent_id = sent.get(b"x-correlation-id", b"").decode("latin-1")
    if _CORRELATION.fullmatch(sent_id):
        return sent_id
    return random_values.generate_correlation_id(clock.now())


def _build_error_answer(problem: A2AError, dialect: Dialect, rpc_id: RpcId) -> RelayAnswer:
    return RelayAnswer(
        body=msgspec.json.encode(build_error_body(problem, dialect, rpc_id)),
        content_type="application/json",
        status=get_error_status(problem, dialect),
    )


def _build_reply(answer: RelayAnswer, correlation_id: str) -> RawReply:
    headers = [
        (b"content-type", answer.content_type.encode("latin-1")),
        (b"content-length", b"%d" % len(answer.body)),
        NO_STORE,
        NOSNIFF,
        (b"x-correlation-id", correlation_id.encode()),
        *answer.headers,
    ]
    return RawReply(answer.status, headers, answer.body)
