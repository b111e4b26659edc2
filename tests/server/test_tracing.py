"""Traces: every request is a span joined to its caller's, and no token enters one."""

from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.cli.process import serving
from tests.server.receiver import receiving
from tests.server.running import running

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DRAFT = {"type": "confirmation", "prompt": "Send it?", "inline_actions": ["confirm"]}


@pytest.fixture(scope="module")
def span_exporter() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def test_a_request_becomes_a_span_in_the_callers_trace(
    tmp_path: Path, span_exporter: InMemorySpanExporter
) -> None:
    with running(tmp_path, tracing=True) as server, server.client(server.api_key) as client:
        opened = client.post("/v1/cases", json=DRAFT, headers={"traceparent": CALLER})
        review_url = opened.json()["hitl"]["review_url"]
        client.get(review_url, headers={"traceparent": CALLER})
    found = {span.name: span for span in span_exporter.get_finished_spans()}
    opening = found["POST /v1/cases"]
    assert opening.parent is not None
    assert format(opening.parent.span_id, "016x") == "b7ad6b7169203331"
    assert opening.attributes is not None
    assert opening.attributes["http.response.status_code"] == 202
    token = review_url.partition("token=")[2]
    assert not any(token in str(span.to_json()) for span in span_exporter.get_finished_spans())


def test_a_callback_becomes_a_span_that_its_receiver_can_join(
    tmp_path: Path, span_exporter: InMemorySpanExporter
) -> None:
    with (
        receiving() as receiver,
        running(tmp_path, tracing=True) as server,
        server.client(server.api_key) as client,
    ):
        hitl = client.post("/v1/cases", json=DRAFT | {"callback_url": f"{receiver.url}/told"}).json()["hitl"]
        server.press(hitl, "confirm")
        (received,) = receiver.wait("/told")
    callback = next(span for span in span_exporter.get_finished_spans() if span.name == "callback")
    assert callback.context is not None
    assert format(callback.context.span_id, "016x") in received.headers["traceparent"]


def test_a_server_sends_its_spans_where_the_environment_says(tmp_path: Path) -> None:
    with receiving() as collector:
        told = {"PLACET_TRACING": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with serving(tmp_path, env=told) as server:
            with server.client() as client:
                client.get("/healthz")
            assert server.stop() == 0
        (spans,) = collector.wait("/v1/traces")
        assert b"GET /healthz" in spans.body
