"""One relayed call with its headers and state."""

import logging
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field
from yarl import URL

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.reply import A2AReply
from placet.relay.inspection.message_inspector import FindingsRecord, InspectionRequest
from placet.relay.policy.policy import Leg
from placet.relay.tasks.relay_tasks import TaskHandle
from placet.relay.tenants import Subscription
from placet.relay.upstream.agent_client import UpstreamRequest

log = logging.getLogger("placet.relay")


class Exchange(Struct, frozen=True, kw_only=True):
    """One call with everything that the relay needs to handle it."""

    subscription: Subscription
    call: A2ACall
    correlation_id: str
    headers: Mapping[str, str]
    """The headers for the agent, including its credentials."""
    size: int = 0
    """The number of bytes that the caller sent."""
    webhook: str | None = None
    """The relay's webhook for the agent, if the caller wants push notifications."""
    transport: Literal["GRPC"] | None = None
    """The caller's transport, if it is not the one of the dialect."""
    pushed: bool = False
    """Whether this is a push notification of the agent, not a call."""
    after: Leg | None = None
    """The last leg that a held message has passed; None for a call that was not held."""
    handle: TaskHandle = field(default_factory=TaskHandle)
    findings_record: FindingsRecord = field(default_factory=FindingsRecord)
    """The findings on all legs, for the audit event of the call."""

    def build_request(self, call: A2ACall, url: URL) -> UpstreamRequest:
        """Return the request that sends this call to the agent."""
        return UpstreamRequest(self.subscription.sink, call.method, url, self.headers, call.body())


class RelayAnswer(Struct, frozen=True, kw_only=True):
    """A whole response for the caller."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    reply: A2AReply | None = None


class AnsweredByRelay(Exception):
    """The relay answers the call itself, with this document, and the agent does not."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__("the relay answers the call itself")
        self.document = document


def build_inspection_request(exchange: Exchange, call: A2ACall, reply: A2AReply | None) -> InspectionRequest:
    """Return the request that inspectors get for a message of this exchange."""
    return InspectionRequest(
        subscription=exchange.subscription,
        correlation_id=exchange.correlation_id,
        call=call,
        reply=reply,
        headers=exchange.headers,
        task_id=exchange.handle.task_id,
        upstream_task=exchange.handle.upstream_id,
        webhook=exchange.webhook,
        pushed=exchange.pushed,
        forwarded=exchange.handle.forwarded,
        sent_message=exchange.handle.sent_message,
        findings_record=exchange.findings_record,
        writes=exchange.handle.writes,
        released_events=exchange.handle.released_events,
    )
