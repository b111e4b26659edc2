"""A call with everything that travels with it, and how verdicts apply to it."""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.inspection.findings_record import FindingsRecord
from placet.relay.inspection.message_inspector import (
    PASS,
    AnswerVerdict,
    ChangeVerdict,
    InspectionRequest,
    PassVerdict,
    RefuseVerdict,
    ReleaseVerdict,
    StreamVerdict,
    Verdict,
)
from placet.relay.policies.policy import Leg
from placet.relay.registry.subscriptions import Subscription
from placet.relay.tasks.relay_tasks import TaskHandle
from placet.relay.traceback_redaction import redact_traceback

NOT_CHECKED = "The message could not be checked, so it was not passed on."
LEG_ORDER = {leg: place for place, leg in enumerate(Leg)}

log = logging.getLogger("placet.relay")


class Exchange(Struct, frozen=True, kw_only=True):
    """A call and everything that travels with it."""

    subscription: Subscription
    call: A2ACall
    correlation_id: str
    headers: Mapping[str, str]
    """What the agent gets, its credentials among them."""
    size: int = 0
    """How many bytes the caller sent."""
    webhook: str | None = None
    """Where the agent is to push to, if the caller wants to be told of changes."""
    transport: Literal["GRPC"] | None = None
    """How the caller came, where its dialect does not say it."""
    pushed: bool = False
    """Whether this is the way of a push notification, which no call asked for."""
    after: Leg | None = None
    """The last leg that a held message had passed, with which it goes on."""
    handle: TaskHandle = field(default_factory=TaskHandle)
    findings_record: FindingsRecord = field(default_factory=FindingsRecord)
    """What was found on the way, for the audit of the call as a whole."""

    def has_passed(self, leg: Leg) -> bool:
        """Whether the message has passed this leg before."""
        return self.after is not None and LEG_ORDER[leg] <= LEG_ORDER[self.after]


class RelayAnswer(Struct, frozen=True, kw_only=True):
    """A whole answer for the caller."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    reply: A2AReply | None = None


class AnsweredByRelay(Exception):
    """The relay answers the call itself, with this document."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__("the relay answers itself")
        self.document = document


def build_inspection_request(exchange: Exchange, call: A2ACall, reply: A2AReply | None) -> InspectionRequest:
    """What those who look at a message are asked about."""
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
        findings_record=exchange.findings_record,
    )


async def apply_verdict(
    exchange: Exchange, verdict: Awaitable[Verdict | StreamVerdict | None]
) -> PassVerdict | ChangeVerdict | ReleaseVerdict:
    """What lets a message go on; raises A2AError or Taken for what does not, and for every failure."""
    exchange.handle.asking += 1
    try:
        found = await verdict or PASS
    except A2AError:
        raise
    except Exception as error:
        told = {"correlation_id": exchange.correlation_id}
        log.error("message_check_failed error=%s", redact_traceback(error), extra=told)
        raise A2AError("internal", NOT_CHECKED) from error
    finally:
        exchange.handle.asking -= 1
    if isinstance(found, RefuseVerdict):
        raise found.problem
    if isinstance(found, AnswerVerdict):
        raise AnsweredByRelay(found.document)
    return found
