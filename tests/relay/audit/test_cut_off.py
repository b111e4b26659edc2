"""A call that breaks off half-way stands in the audit like any other."""

from collections.abc import Iterator

import httpx
import pytest

from placet.bootstrap.storage import open_memory_store
from placet.deliveries.guarded_resolver import GuardedResolver, SystemLookup
from placet.desk import clock
from placet.errors import Unavailable
from placet.relay.bootstrap import build_relay_app
from placet.relay.push.encryption import SecretBox
from placet.relay.push.push_proxy import PushProxy
from placet.relay.push.webhooks import WebhookRepository
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from placet.relay.tasks.task_repository import MemoryTaskRepository, NameKind, Task
from placet.server.serving import bind
from tests.relay.a2a.raw_agent import raw_agent
from tests.relay.a2a.sdk_agent import served
from tests.relay.inspection.judged import MemoryTrail
from tests.relay.traffic.test_pass_through_inspection import anyone, anywhere, read_at_most
from tests.waiting import PATIENCE_S


class LostBook(MemoryTaskRepository):
    """A book that cannot be read."""

    async def find(self, tenant: str, agent: str, kind: NameKind, id: str) -> Task | None:
        raise Unavailable


@pytest.fixture
def relay() -> Iterator[tuple[str, MemoryTrail]]:
    """The relay by itself, whose store of tasks is away."""
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    trail = MemoryTrail()
    with raw_agent() as agent:
        app = build_relay_app(
            RelaySettings(
                agents={"raw": AgentSettings(url=agent.url)},
                callers={"acme": CallerSettings(agents=("raw",))},
            ),
            environ={},
            public_url=url,
            allow_loopback=True,
            resolver=GuardedResolver(SystemLookup(), allow_loopback=True),
            authenticate=anyone,
            read_body=read_at_most,
            pushes=PushProxy(
                WebhookRepository(open_memory_store(), SecretBox("s"), public_url=url, now=clock.now),
                check=anywhere,
            ),
            now=clock.now,
            monotonic=clock.monotonic,
            book=LostBook(),
            trail=trail,
        )

        async def refusing(scope, receive, send):  # as the server tells it
            try:
                await app(scope, receive, send)
            except Unavailable:
                await send({"type": "http.response.start", "status": 503, "headers": []})
                await send({"type": "http.response.body", "body": b""})

        with served(refusing, listener, close=app.aclose):
            yield f"{url}/relay/v1/agents/raw", trail


def test_a_call_that_breaks_off_is_told_of(relay: tuple[str, MemoryTrail]):
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
    assert event["payload"]["errorMessage"] == "The call could not be carried to its end."
