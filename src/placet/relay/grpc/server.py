"""The A2A gRPC service; each call is passed to the relay's ASGI application."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
from a2a.types import a2a_pb2_grpc
from google.protobuf.message import Message  # type: ignore[import-untyped]

from placet.desk.access import require_scope
from placet.errors import InvalidToken, PlacetError, SettingsError, ValidationFailed
from placet.relay.a2a.dialects import REST_1_0, RPC_1_0, Dialect, Operation
from placet.relay.a2a.errors import A2AError
from placet.relay.asgi import Authenticate
from placet.relay.grpc.internal_call import Header, InternalCall
from placet.relay.grpc.status_codes import GrpcRefusal, refusal_from_document, refusal_from_error
from placet.relay.grpc.translation import call_from_message, message_from_result
from placet.relay.route_addresses import CALL_SCOPE
from placet.relay.settings import AGENT_ID, GrpcSettings, parse_grpc_listen
from placet.relay.tenants import Registry
from placet.relay.traffic.proxy import RelayApp

MAX_CALLS = 1000
STOP_WITHIN_S = 2.0
# The metadata of a call that is forwarded as headers. The rest belongs to the transport.
FORWARDED_METADATA = frozenset(
    {"authorization", "a2a-version", "a2a-extensions", "x-correlation-id", "traceparent", "tracestate"}
)

GrpcContext = Any  # grpc has no type annotations

log = logging.getLogger("placet.relay")


class GrpcServer(a2a_pb2_grpc.A2AServiceServicer):
    """Serves A2A 1.0 over gRPC. A request names the agent in `tenant`, as in the agent's card."""

    def __init__(
        self,
        settings: GrpcSettings,
        *,
        app: RelayApp,
        registry: Registry,
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

    async def SendMessage(self, request: Message, context: GrpcContext) -> Message:
        """Send a message."""
        return await self._single("send", request, context)

    async def SendStreamingMessage(
        self, request: Message, context: GrpcContext
    ) -> AsyncGenerator[Message, None]:
        """Send a message and stream the events of its task."""
        async with aclosing(self._stream("stream", request, context)) as events:
            async for event in events:
                yield event

    async def GetTask(self, request: Message, context: GrpcContext) -> Message:
        """Get a task."""
        return await self._single("get", request, context)

    async def ListTasks(self, request: Message, context: GrpcContext) -> Message:
        """List tasks."""
        return await self._single("list", request, context)

    async def CancelTask(self, request: Message, context: GrpcContext) -> Message:
        """Cancel a task."""
        return await self._single("cancel", request, context)

    async def SubscribeToTask(self, request: Message, context: GrpcContext) -> AsyncGenerator[Message, None]:
        """Stream the events of a task."""
        async with aclosing(self._stream("subscribe", request, context)) as events:
            async for event in events:
                yield event

    async def CreateTaskPushNotificationConfig(self, request: Message, context: GrpcContext) -> Message:
        """Create a push config."""
        return await self._single("push_create", request, context)

    async def GetTaskPushNotificationConfig(self, request: Message, context: GrpcContext) -> Message:
        """Get a push config."""
        return await self._single("push_get", request, context)

    async def ListTaskPushNotificationConfigs(self, request: Message, context: GrpcContext) -> Message:
        """List push configs."""
        return await self._single("push_list", request, context)

    async def DeleteTaskPushNotificationConfig(self, request: Message, context: GrpcContext) -> Message:
        """Delete a push config."""
        return await self._single("push_delete", request, context)

    async def GetExtendedAgentCard(self, request: Message, context: GrpcContext) -> Message:
        """Get the extended card."""
        return await self._single("extended_card", request, context)

    # Shared by all methods

    async def _single(self, operation: Operation, request: Message, context: GrpcContext) -> Message:
        async with aclosing(self._stream(operation, request, context)) as messages:
            async for message in messages:
                return message
        await _abort(context, GrpcRefusal(grpc.StatusCode.INTERNAL, "The relay sent no response."))
        raise AssertionError("unreachable: _abort raises")

    async def _stream(
        self, operation: Operation, request: Message, context: GrpcContext
    ) -> AsyncGenerator[Message, None]:
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
