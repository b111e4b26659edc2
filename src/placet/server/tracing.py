"""OpenTelemetry traces (an extra): one span per request and per callback, without tokens or queries."""

from typing import Any

from msgspec.structs import replace
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from placet.http.asgi import AsgiMessage, Receive, Scope, Send, get_route_path
from placet.ports.courier import Courier, DeliveryReply, OutgoingRequest
from placet.server.app import PlacetApp
from placet.server.streams import EventStreams

NAME = "placet"


def start_tracing(service_name: str) -> None:
    """Send spans to the OTLP endpoint of the OTEL_… environment, unless the process already does."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return
    provider = TracerProvider(resource=Resource.create({"service.name": service_name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


class TracedApp:
    """Wraps an app so that each request is a span of the caller's trace."""

    def __init__(self, app: PlacetApp) -> None:
        self._app = app
        self._tracer = trace.get_tracer(NAME)

    @property
    def streams(self) -> EventStreams:
        """The app's event streams."""
        return self._app.streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request inside a span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = self._app.find_route_name(scope["method"], get_route_path(scope))
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        attributes: dict[str, Any] = {"http.request.method": scope["method"], "http.route": route}
        with self._tracer.start_as_current_span(
            f"{scope['method']} {route}",
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            attributes=attributes,
        ) as span:

            async def noting(message: AsgiMessage) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            await self._app(scope, receive, noting)


class TracedCourier:
    """Wraps a courier so that each attempt is a span, which its receiver can continue."""

    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self._tracer = trace.get_tracer(NAME)

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Make one attempt inside a span."""
        with self._tracer.start_as_current_span("callback", kind=SpanKind.CLIENT) as span:
            headers = dict(request.headers)
            propagate.inject(headers)
            reply = await self._courier.deliver(replace(request, headers=headers))
            if reply.status is not None:
                span.set_attribute("http.response.status_code", reply.status)
            if reply.error is not None:
                span.set_status(Status(StatusCode.ERROR, reply.error))
            return reply
