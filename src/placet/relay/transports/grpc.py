"""The relay's gRPC endpoint: it serves A2A 1.0 by translating each call to and from A2A JSON."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import grpc
import msgspec
from a2a.types import a2a_pb2, a2a_pb2_grpc
from google.protobuf import any_pb2, empty_pb2  # type: ignore[import-untyped]
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from placet.desk.access import require_scope
from placet.errors import InvalidToken, PlacetError, SettingsError, ValidationFailed
from placet.http.asgi import AsgiMessage, Header, Scope
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import REST_1_0, RPC_1_0, RPC_NAMES, Dialect, Operation
from placet.relay.a2a.errors import ERROR_CODES, A2AError, ErrorCodes
from placet.relay.a2a.json_format import Json
from placet.relay.a2a.sse import EventSplitter, get_event_data
from placet.relay.registry import LiveRegistry
from placet.relay.route_addresses import AGENT_PROXY, CALL_SCOPE
from placet.relay.settings import AGENT_ID, GrpcSettings, parse_grpc_listen
from placet.relay.transports.http import RelayApp
from placet.relay.transports.request_reading import App, Authenticate
from placet.relay.upstream.agent_client import EVENTS_TYPE

DETAILS = "grpc-status-details-bin"
DOMAIN = "a2a-protocol.org"
CODES_BY_HTTP_STATUS = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
}
_BY_CODE: dict[int, ErrorCodes] = {codes.rpc_code: codes for codes in reversed(ERROR_CODES.values())}
_UNKNOWN = ErrorCodes(-32603, 500, "INTERNAL", "INTERNAL_ERROR", "InternalError")

RESULT_TYPES: dict[Operation, type[Message]] = {
    "send": a2a_pb2.SendMessageResponse,
    "stream": a2a_pb2.StreamResponse,
    "subscribe": a2a_pb2.StreamResponse,
    "get": a2a_pb2.Task,
    "cancel": a2a_pb2.Task,
    "list": a2a_pb2.ListTasksResponse,
    "push_create": a2a_pb2.TaskPushNotificationConfig,
    "push_get": a2a_pb2.TaskPushNotificationConfig,
    "push_list": a2a_pb2.ListTaskPushNotificationConfigsResponse,
    "push_delete": empty_pb2.Empty,
    "extended_card": a2a_pb2.AgentCard,
}
BODY_OPERATIONS: frozenset[Operation] = frozenset({"send", "stream", "push_create"})
CONFIG_OPERATIONS: frozenset[Operation] = frozenset({"push_get", "push_delete"})
HTTP_METHODS: dict[Operation, str] = {
    "get": "GET",
    "list": "GET",
    "push_get": "GET",
    "push_list": "GET",
    "push_delete": "DELETE",
    "extended_card": "GET",
}
MAX_QUEUED = 16
MAX_CALLS = 1000
STOP_WITHIN_S = 2.0
# The metadata of a call that is forwarded as headers. The rest belongs to the transport.
FORWARDED_METADATA = frozenset(
    {"authorization", "a2a-version", "a2a-extensions", "x-correlation-id", "traceparent", "tracestate"}
)
log = logging.getLogger("placet.relay")


class GrpcRefusal(Exception):
    """A call ends with a gRPC error status."""

    def __init__(self, code: grpc.StatusCode, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason

    def trailers(self) -> tuple[tuple[str, bytes], ...]:
        """Return the trailing metadata with the full status, as A2A clients expect it."""
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        if self.reason is not None:
            packed = any_pb2.Any()
            packed.Pack(error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN))
            status.details.append(packed)
        return ((DETAILS, status.SerializeToString()),)


def refusal_from_error(failure: PlacetError | A2AError) -> GrpcRefusal:
    """Return the refusal for an exception."""
    if isinstance(failure, A2AError):
        codes = failure.codes
        return GrpcRefusal(grpc.StatusCode[codes.rpc_status], failure.message, codes.reason)
    return GrpcRefusal(CODES_BY_HTTP_STATUS.get(failure.status, grpc.StatusCode.INTERNAL), failure.message)


def refusal_from_document(error: Any) -> GrpcRefusal:
    """Return the refusal for an error in A2A JSON, in either binding."""
    fields = error if isinstance(error, dict) else {}
    code, message = fields.get("code"), fields.get("message")
    codes = _BY_CODE.get(code, _UNKNOWN) if isinstance(code, int) else _UNKNOWN
    name, reason = codes.rpc_status, _find_reason(fields) or codes.reason
    if isinstance(fields.get("status"), str) and fields["status"] in grpc.StatusCode.__members__:
        name = fields["status"]
    return GrpcRefusal(grpc.StatusCode[name], message if isinstance(message, str) else "", reason)


def _find_reason(error: dict[str, Any]) -> str | None:
    for details in (error.get("data"), error.get("details")):
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict) and isinstance(detail.get("reason"), str):
                reason: str = detail["reason"]
                return reason
    return None


def call_from_message(
    operation: Operation, request: Message, dialect: Dialect, tenant: str | None
) -> A2ACall:
    """Return the request as a call in a 1.0 dialect. `tenant` is the tenant that the agent gets."""
    params: Json = MessageToDict(request)
    params.pop("tenant", None)
    if dialect.rpc:
        if tenant:
            params["tenant"] = tenant
        document: Json = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": RPC_NAMES[dialect, operation],
            "params": params,
        }
        return A2ACall(dialect=dialect, operation=operation, document=document, rpc_id=1)
    push = params.pop("id", None) if operation in CONFIG_OPERATIONS else None
    by_id = operation in ("get", "cancel", "subscribe")
    task = params.pop("id" if by_id else "taskId", None) if operation not in ("send", "stream") else None
    has_body = operation in BODY_OPERATIONS or operation == "cancel"
    return A2ACall(
        dialect=dialect,
        operation=operation,
        method=HTTP_METHODS.get(operation, "POST"),
        document=params if has_body else None,
        path_task=task,
        path_push=push,
        tenant=tenant,
        query="" if has_body else urlencode(_flatten_params(params)),
    )


def message_from_result(operation: Operation, result: Any) -> Message:
    """Return a result as the response message of the operation. Raises A2AError if it is not valid.

    Drops fields that the protocol buffers do not define.
    """
    try:
        return ParseDict(result or {}, RESULT_TYPES[operation](), ignore_unknown_fields=True)
    except (ParseError, RecursionError) as error:
        raise A2AError("agent_response", "The agent's response is not a valid A2A result.") from error


def _flatten_params(params: Json) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()
    }


class InternalCall:
    """One call to the relay's ASGI application, whose response is read as a stream of JSON documents."""

    def __init__(self, app: App, call: A2ACall, agent_id: str, headers: list[Header], *, limit: int) -> None:
        self._app = app
        self._body = call.body()
        self._scope = _build_scope(call, agent_id, headers)
        self._limit = limit
        self._disconnected = asyncio.Event()
        self._body_sent = False
        # The queue is bounded, so that a caller that does not read delays only its own call.
        self._messages: asyncio.Queue[AsgiMessage | None] = asyncio.Queue(MAX_QUEUED)

    async def documents(self) -> AsyncGenerator[Any, None]:
        """Yield the documents of the response. Raises the exceptions of the relay."""
        task = asyncio.create_task(self._run())
        try:
            async with aclosing(self._read()) as documents:
                async for document in documents:
                    yield document
            await task
        finally:
            self._disconnected.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._messages.put)
        finally:
            await self._messages.put(None)

    async def _receive(self) -> AsgiMessage:
        if not self._body_sent:
            self._body_sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _read(self) -> AsyncGenerator[Any, None]:
        started, streamed, body = False, False, bytearray()
        splitter = EventSplitter(limit=self._limit)
        while (message := await self._messages.get()) is not None:
            if message["type"] == "http.response.start":
                started = True
                types = [value for name, value in message["headers"] if name == b"content-type"]
                streamed = bool(types) and types[0].decode("latin-1").startswith(EVENTS_TYPE)
            elif streamed:
                for event in splitter.feed(message.get("body", b"")):
                    data = get_event_data(event)
                    if data is not None:
                        yield _decode_document(data)
            else:
                body += message.get("body", b"")
        if started and not streamed:
            yield _decode_document(bytes(body))


def _build_scope(call: A2ACall, agent_id: str, headers: list[Header]) -> Scope:
    return {
        "type": "http",
        "method": call.method,
        "path": f"{AGENT_PROXY}{agent_id}{unquote(call.path)}",
        "root_path": "",
        "query_string": call.query.encode(),
        "headers": headers,
        "placet.transport": "GRPC",
    }


def _decode_document(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data) if data else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise A2AError("agent_response", "The agent's response is not valid JSON.") from None


GrpcContext = Any  # grpc has no type annotations


def _define_unary(operation: Operation) -> Callable[["GrpcServer", Message, GrpcContext], Awaitable[Message]]:
    """Return the method of an operation with one response."""

    async def answer(server: "GrpcServer", request: Message, context: GrpcContext) -> Message:
        return await server.answer_call(operation, request, context)

    return answer


def _define_stream(
    operation: Operation,
) -> Callable[["GrpcServer", Message, GrpcContext], AsyncGenerator[Message, None]]:
    """Return the method of an operation whose responses are a stream."""

    async def stream(
        server: "GrpcServer", request: Message, context: GrpcContext
    ) -> AsyncGenerator[Message, None]:
        async with aclosing(server.stream_call(operation, request, context)) as events:
            async for event in events:
                yield event

    return stream


class GrpcServer(a2a_pb2_grpc.A2AServiceServicer):
    """Serves A2A 1.0 over gRPC. A request names the agent in `tenant`, as in the agent's card."""

    def __init__(
        self,
        settings: GrpcSettings,
        *,
        app: RelayApp,
        registry: LiveRegistry,
        authenticate: Authenticate,
    ) -> None:
        self._settings = settings
        self._app = app
        self._registry = registry
        self._authenticate = authenticate
        self._server: grpc.aio.Server | None = None
        self._port: int | None = None

    @property
    def address(self) -> str | None:
        """The address for agent cards, or None if the server does not run."""
        if self._port is None:
            return None
        return self._settings.url or f"{parse_grpc_listen(self._settings)[0]}:{self._port}"

    async def start(self) -> None:
        """Start to listen. Raises SettingsError if the address or the certificate cannot be used."""
        max_bytes = self._app.calls.limits.max_message_bytes
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", max_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=MAX_CALLS,
        )
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        host, port = parse_grpc_listen(self._settings)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self._port = self._bind_port(server, address)
        except RuntimeError as error:
            raise SettingsError(
                f"relay.grpc.listen: cannot listen on {address}. Use a free port and an address of this host."
            ) from error
        await server.start()
        self._server = server

    async def aclose(self) -> None:
        """Stop the server and cancel calls that do not end in time."""
        server, self._server, self._port = self._server, None, None
        if server is not None:
            await server.stop(STOP_WITHIN_S)

    def _bind_port(self, server: grpc.aio.Server, address: str) -> int:
        settings = self._settings
        if settings.certificate is None or settings.key is None:
            port: int = server.add_insecure_port(address)
            return port
        pair = (_read_file(settings.key), _read_file(settings.certificate))
        port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        return port

    # Methods of the gRPC service

    SendMessage = _define_unary("send")
    SendStreamingMessage = _define_stream("stream")
    GetTask = _define_unary("get")
    ListTasks = _define_unary("list")
    CancelTask = _define_unary("cancel")
    SubscribeToTask = _define_stream("subscribe")
    CreateTaskPushNotificationConfig = _define_unary("push_create")
    GetTaskPushNotificationConfig = _define_unary("push_get")
    ListTaskPushNotificationConfigs = _define_unary("push_list")
    DeleteTaskPushNotificationConfig = _define_unary("push_delete")
    GetExtendedAgentCard = _define_unary("extended_card")

    async def answer_call(self, operation: Operation, request: Message, context: GrpcContext) -> Message:
        """Return the only response to a call."""
        async with aclosing(self.stream_call(operation, request, context)) as messages:
            async for message in messages:
                return message
        await _abort(context, GrpcRefusal(grpc.StatusCode.INTERNAL, "The relay sent no response."))
        raise AssertionError("unreachable: _abort raises")

    async def stream_call(
        self, operation: Operation, request: Message, context: GrpcContext
    ) -> AsyncGenerator[Message, None]:
        """Yield the responses to a call; refusals and failures end it with a gRPC status."""
        try:
            call = await self._build_call(operation, request, context)
            async with aclosing(call.documents()) as documents:
                async for document in documents:
                    yield message_from_result(operation, _get_result(document))
        except GrpcRefusal as refusal:
            await _abort(context, refusal)
        except (PlacetError, A2AError) as failure:
            await _abort(context, refusal_from_error(failure))
        except Exception:  # gRPC would send the exception's text to the caller
            log.exception("grpc_call_failed")
            await _abort(context, GrpcRefusal(grpc.StatusCode.INTERNAL, "Internal error."))

    async def _build_call(self, operation: Operation, request: Message, context: GrpcContext) -> InternalCall:
        agent_id, _, tenant = str(getattr(request, "tenant", "")).partition("/")
        if not AGENT_ID.fullmatch(agent_id):
            raise ValidationFailed("tenant: not a valid agent id. Use the tenant from the agent's card.")
        headers = _build_headers(context)
        dialect = await self._choose_dialect(agent_id, headers)
        call = call_from_message(operation, request, dialect, tenant or None)
        return InternalCall(
            self._app, call, agent_id, headers, limit=self._app.calls.limits.max_message_bytes
        )

    async def _choose_dialect(self, agent_id: str, headers: list[Header]) -> Dialect:
        """Return the 1.0 dialect that the agent supports."""
        principal = await self._authenticate({"type": "http", "headers": headers})
        if principal.name is None:
            raise InvalidToken("No API key. Send the metadata `authorization: Bearer …`.")
        require_scope(principal, CALL_SCOPE)
        sink = (await self._registry.subscription(principal.name, agent_id)).sink
        dialect = await self._app.calls.choose_dialect(sink, RPC_1_0)
        return RPC_1_0 if dialect.rpc else REST_1_0


def _get_result(document: Any) -> Any:
    """Return the result in a response document. Raises GrpcRefusal for an error."""
    if not isinstance(document, dict):
        return document
    if document.get("error") is not None:
        raise refusal_from_document(document["error"])
    return document.get("result") if "jsonrpc" in document else document


def _build_headers(context: GrpcContext) -> list[Header]:
    forwarded = [
        (name.lower().encode(), value.encode("latin-1", "replace"))
        for name, value in context.invocation_metadata() or ()
        if name.lower() in FORWARDED_METADATA and isinstance(value, str)
    ]
    version = [] if any(name == b"a2a-version" for name, _ in forwarded) else [(b"a2a-version", b"1.0")]
    return [*forwarded, *version, (b"content-type", b"application/json")]


async def _abort(context: GrpcContext, refusal: GrpcRefusal) -> None:
    context.set_trailing_metadata(refusal.trailers())
    await context.abort(refusal.code, refusal.message)


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"relay.grpc: {path} cannot be read: {error.strerror}.") from error
