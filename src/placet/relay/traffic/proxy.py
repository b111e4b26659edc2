"""The relay's ASGI application: authenticate, parse the call, and send the answer."""

import asyncio
import re
import time
from contextlib import suppress
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from placet.desk import clock, random_values
from placet.errors import (
    BodyTooLarge,
    CaseNotFound,
    InvalidToken,
    MethodNotAllowed,
    Unavailable,
    Unreachable,
)
from placet.relay.a2a.call import INSPECTED_HEADERS, ROUTINE_HEADER_VALUES
from placet.relay.a2a.call_parsing import CallParseError, parse_call
from placet.relay.a2a.cards import WELL_KNOWN_PATHS
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError, RpcId, build_error_body, get_error_status
from placet.relay.asgi import Authenticate, ReadBody, Receive, Scope, Send, get_path_below, read_body_in_time
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.call_recorder import CallOutcome, CallRecorder
from placet.relay.audit.payload_bodies import MAX_BODY_BYTES
from placet.relay.registry.subscriptions import RegisteredAgent, Registry, Subscription
from placet.relay.traffic.call_handler import CallHandler, Exchange, RelayAnswer
from placet.relay.traffic.streaming import StreamRelay
from placet.relay.upstream.agent_cards import AgentCardCache

PREFIX = "/relay/v1/agents/"
MAX_QUERY = 4096
CARD_FRESH_S = 60
CALL_INTERRUPTED = "The call could not be carried to its end."

Header = tuple[bytes, bytes]
Reply = tuple[int, list[Header], bytes]
"""Status, headers and body."""

# All that passes of a caller's headers: nobody can list every header that might be a credential.
FORWARDED_HEADERS = frozenset(
    {b"accept", b"a2a-version", b"a2a-extensions", b"x-a2a-extensions", b"content-type", b"last-event-id"}
    | {b"accept-language", b"traceparent", b"tracestate"}
)
NO_STORE: Header = (b"cache-control", b"no-store")
NOSNIFF: Header = (b"x-content-type-options", b"nosniff")
_CORRELATION = re.compile(r"[!-~]{1,128}")


class RelayApp:
    """Everything below `/relay/v1/agents/`."""

    def __init__(
        self,
        *,
        registry: Registry,
        directory: AgentCardCache,
        calls: CallHandler,
        authenticate: Authenticate,
        read_body: ReadBody,
        trail: AuditLog | None = None,
        public_cards: bool = False,
    ) -> None:
        self._registry = registry
        self._directory = directory
        self._calls = calls
        self._authenticate = authenticate
        self._read_body = read_body
        self._public_cards = public_cards
        self._audit = CallRecorder(trail) if trail is not None else None
        self.streams = StreamRelay(calls)

    @property
    def directory(self) -> AgentCardCache:
        """What knows agents' cards."""
        return self._directory

    @property
    def calls(self) -> CallHandler:
        """What carries the calls."""
        return self._calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; what is refused before it is a call is raised for the server to tell."""
        agent_id, slash, below = get_path_below(scope, PREFIX).partition("/")
        if slash + below in WELL_KNOWN_PATHS:
            agent, by_anyone = await self._find_card_agent(scope, agent_id)
            await self._card(scope, send, agent, by_anyone=by_anyone)
            return
        received, correlation_id = await self._receive_call(scope, receive, agent_id, slash + below)
        if isinstance(received, RelayAnswer):
            await _send(send, _build_reply(received, correlation_id))
        elif received.call.streamed:
            await self._stream(received, receive, send)
        else:
            await _send(send, _build_reply(await self._whole(received), correlation_id))

    async def reply(self, scope: Scope, receive: Receive) -> Reply | None:
        """The whole reply to a request whose body is there; None, with nothing done, if it is told in pieces.

        Raises as a call of this app does.
        """
        agent_id, slash, below = get_path_below(scope, PREFIX).partition("/")
        if slash + below in WELL_KNOWN_PATHS:
            return None
        received, correlation_id = await self._receive_call(scope, receive, agent_id, slash + below)
        if isinstance(received, RelayAnswer):
            return _build_reply(received, correlation_id)
        if received.call.streamed:
            return None
        return _build_reply(await self._whole(received), correlation_id)

    async def _receive_call(
        self, scope: Scope, receive: Receive, agent_id: str, path: str
    ) -> tuple[Exchange | RelayAnswer, str]:
        """The call in a request, or what to say to one that is none; and its correlation id."""
        subscription = await self._subscription(scope, agent_id)
        if path in ("", "/") and scope["method"] != "POST":
            raise MethodNotAllowed(allow="POST")
        sent: dict[bytes, bytes] = dict(scope["headers"])
        correlation_id = _get_correlation_id(sent)
        body = getattr(receive, "body", None)
        if not isinstance(body, bytes) or len(body) > self._calls.limits.max_message_bytes:
            # It is not there yet, so that somebody watches the time.
            body = await read_body_in_time(
                self._read_body, scope, receive, self._calls.limits, noun="request"
            )
        try:
            return _parse_exchange(scope, path, sent, body, subscription, correlation_id), correlation_id
        except CallParseError as refusal:
            if self._audit is not None:
                self._audit.note_refusal(subscription, refusal.dialect, refusal.problem, correlation_id)
            answer = _build_error_answer(refusal.problem, refusal.dialect, refusal.rpc_id)
            return answer, correlation_id

    async def aclose(self) -> None:
        """Give up what is under way."""
        await self.streams.close()
        await self._calls.aclose()
        await self._directory.aclose()
        await self._calls.upstream.aclose()

    async def _whole(self, exchange: Exchange) -> RelayAnswer:
        """The answer to a call that is not streamed, once the audit has it."""
        began = time.perf_counter()
        problem: A2AError | None = None
        try:
            if self._audit is not None:
                self._audit.admit()
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

    async def _stream(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        stream = _CallerStream(send, exchange.correlation_id)
        problem: A2AError | None = None
        answer: RelayAnswer | None = None
        try:
            if self._audit is not None:
                self._audit.admit()
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
        told_in_events = problem is not None and exchange.call.dialect.rpc
        if answer is not None and told_in_events and not stream.begun:
            await stream.write(b"data: " + answer.body + b"\n\n")  # who asked for events is told in events
        if stream.begun:
            await stream.end()
        elif answer is not None:
            await _send(send, _build_reply(answer, exchange.correlation_id))

    def _record(
        self,
        exchange: Exchange,
        began: float,
        stream: "_CallerStream | None",
        answer: RelayAnswer | None,
        problem: A2AError | None,
    ) -> None:
        """Have the audit tell of the call; raises Unavailable if it cannot, so that nothing passes untold."""
        if self._audit is None:
            return
        took_for = timedelta(seconds=time.perf_counter() - began)
        if stream is not None and (answer is None or stream.begun):
            told = CallOutcome(size=stream.size, events=stream.kept, streamed=True)
            self._audit.note(exchange, told, took_for)
        elif answer is not None:
            size, reply = len(answer.body), answer.reply
            told = CallOutcome(status=answer.status, size=size, reply=reply, problem=problem)
            self._audit.note(exchange, told, took_for)

    def _record_failure(
        self, exchange: Exchange, began: float, stream: "_CallerStream | None" = None
    ) -> None:
        """Have the audit tell of a call that neither the agent nor the relay has ended."""
        failed = A2AError("internal", CALL_INTERRUPTED)
        answer = _build_error_answer(failed, exchange.call.dialect, exchange.call.rpc_id)
        with suppress(Unavailable):
            self._record(exchange, began, stream, answer, failed)

    async def _subscription(self, scope: Scope, agent_id: str) -> Subscription:
        principal = await self._authenticate(scope)
        if principal.name is None:
            raise InvalidToken("Call agents with an API key: `Authorization: Bearer …`.")
        return await self._registry.subscription(principal.name, agent_id)

    async def _find_card_agent(self, scope: Scope, agent_id: str) -> tuple[RegisteredAgent, bool]:
        """The agent whose card is asked for, and whether anyone may read it."""
        if self._public_cards and all(name != b"authorization" for name, _ in scope["headers"]):
            return await self._registry.agent(agent_id), True
        try:
            return (await self._subscription(scope, agent_id)).sink, False
        except CaseNotFound:
            if not self._public_cards:
                raise
        return await self._registry.agent(agent_id), True

    async def _card(self, scope: Scope, send: Send, agent: RegisteredAgent, *, by_anyone: bool) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(allow="GET, HEAD")
        try:
            offer = await self._directory.offer(agent)
        except A2AError as problem:
            raise Unreachable(problem.message) from problem
        known = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
        unchanged = offer.etag in known.decode("latin-1") or known.strip() == b"*"
        reach = b"public" if by_anyone else b"private"
        headers = [
            (b"etag", offer.etag.encode()),
            (b"cache-control", b"%s, max-age=%d" % (reach, CARD_FRESH_S)),
            (b"vary", b"authorization"),
            NOSNIFF,
        ]
        body = b"" if unchanged else msgspec.json.encode(offer.card)
        if not unchanged:
            headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 304 if unchanged else 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


class _CallerStream:
    """The caller's end of a stream; its head goes out with the first piece."""

    def __init__(self, send: Send, correlation_id: str) -> None:
        self._send = send
        self._correlation_id = correlation_id
        self.begun = False
        self.size = 0
        self.kept: list[bytes] = []
        """The beginning of what was sent, as much as the audit keeps."""

    async def write(self, data: bytes) -> None:
        if not self.begun:
            self.begun = True
            headers = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                NO_STORE,
                NOSNIFF,
                (b"x-accel-buffering", b"no"),
                (b"x-correlation-id", self._correlation_id.encode()),
            ]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if data:
            if self.size <= MAX_BODY_BYTES:
                self.kept.append(data)
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
) -> Exchange:
    """The call in a request; raises Unrecognised."""
    query = scope.get("query_string", b"").decode("latin-1")
    if len(query) > MAX_QUERY:
        raise BodyTooLarge(f"The query is larger than {MAX_QUERY} bytes.")
    agent = subscription.sink
    headers, told = {}, {}
    for name, value in sent.items():
        if name in FORWARDED_HEADERS or (
            agent.forward_headers and name.decode("latin-1") in agent.forward_headers
        ):
            called, said = name.decode("latin-1"), value.decode("latin-1")
            if said not in ROUTINE_HEADER_VALUES and called in INSPECTED_HEADERS:
                if not value.isascii():
                    continue  # agents disagree on how to read it, so nobody could say what it tells them
                told[called] = said
            headers[called] = said
    call = parse_call(
        method=scope["method"],
        path=path,
        query=query,
        version=headers.get("a2a-version"),
        content_type=headers.get("content-type"),
        body=body,
    )
    kind = headers.get("content-type", "")
    if (
        kind and kind not in ROUTINE_HEADER_VALUES
    ):  # what was read is written anew, in UTF-8, whatever its sender said of it
        headers["content-type"] = kind.partition(";")[0].strip().lower()
    headers["x-correlation-id"] = correlation_id
    if b"x-correlation-id" in sent:
        told["x-correlation-id"] = correlation_id
    headers.update(agent.credentials)
    return Exchange(
        subscription=subscription,
        call=replace(call, headers=told) if told else call,
        correlation_id=correlation_id,
        headers=headers,
        size=len(body),
        transport=scope.get("placet.transport"),
    )


def _get_correlation_id(sent: dict[bytes, bytes]) -> str:
    """The caller's own correlation id if it is one, else a new one."""
    given = _decode_header(sent.get(b"x-correlation-id"))
    return (
        given
        if given and _CORRELATION.fullmatch(given)
        else random_values.generate_correlation_id(clock.now())
    )


def _decode_header(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _build_error_answer(problem: A2AError, dialect: Dialect, rpc_id: RpcId) -> RelayAnswer:
    return RelayAnswer(
        body=msgspec.json.encode(build_error_body(problem, dialect, rpc_id)),
        content_type="application/json",
        status=get_error_status(problem, dialect),
    )


def _build_reply(answer: RelayAnswer, correlation_id: str) -> Reply:
    headers = [
        (b"content-type", answer.content_type.encode("latin-1")),
        (b"content-length", b"%d" % len(answer.body)),
        NO_STORE,
        NOSNIFF,
        (b"x-correlation-id", correlation_id.encode()),
        *answer.headers,
    ]
    return answer.status, headers, answer.body


async def _send(send: Send, reply: Reply) -> None:
    status, headers, body = reply
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
