"""A call that breaks off half-way stands in the audit like any other."""

from collections.abc import Iterator

import httpx
import pytest

from placet.errors import Unavailable
from placet.relay.task import IdKind, Task
from tests.relay.a2a.raw_agent import run_raw_agent
from tests.relay.a2a.sdk_agent import serve_app
from tests.relay.fakes import MemoryTaskRepository, PassthroughInspector
from tests.relay.inspection.inspected_relay import MemoryAuditLog
from tests.relay.relay_app import bind_free_port, build_app, settings_for_one_agent
from tests.waiting import PATIENCE_S


class UnreadableTaskRepository(MemoryTaskRepository):
    """A repository that cannot be read."""

    async def find(self, tenant: str, agent: str, kind: IdKind, id: str) -> Task | None:
        raise Unavailable


@pytest.fixture
def relay() -> Iterator[tuple[str, MemoryAuditLog]]:
    """The relay by itself, whose store of tasks is away."""
    listener, url = bind_free_port()
    trail = MemoryAuditLog()
    with run_raw_agent() as agent:
        app = build_app(
            settings_for_one_agent("raw", agent.url),
            public_url=url,
            inspector=PassthroughInspector(),
            tasks=UnreadableTaskRepository(),
            audit_log=trail,
        )

        async def refusing(scope, receive, send):  # as the server tells it
            try:
                await app(scope, receive, send)
            except Unavailable:
                await send({"type": "http.response.start", "status": 503, "headers": []})
                await send({"type": "http.response.body", "body": b""})

        with serve_app(refusing, listener, close=app.aclose):
            yield f"{url}/relay/v1/agents/raw", trail


def test_interrupted_call_is_audited_as_error(relay: tuple[str, MemoryAuditLog]):
    url, trail = relay
    asked = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t-1"}}
    headers = {"A2A-Version": "1.0", "X-Correlation-Id": "lost"}
    assert httpx.post(url, json=asked, headers=headers, timeout=PATIENCE_S).status_code == 503
    (event,) = trail.of("lost")
    assert (event["auditType"], event["auditAction"], event["taskId"]) == (
        "COMMUNICATION_AUDIT",
        "ERROR",
        "t-1",
    )
    assert event["payload"]["errorMessage"] == "The call was interrupted before it ended."
