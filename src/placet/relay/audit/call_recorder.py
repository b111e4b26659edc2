"""Record each call in the audit log: parties, outcome and duration."""

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, get_args

import msgspec
from msgspec import Struct

from placet.errors import Unavailable
from placet.ports.audit_store import AuditRow
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_1_0, RPC_NAMES, Dialect, Version
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.sse import decode_events
from placet.relay.a2a.stream_merging import merge_event_documents
from placet.relay.audit.audit_event import get_transport
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.event_factory import EventStamp
from placet.relay.audit.payload_bodies import build_payload_body
from placet.relay.policies.evaluation import Outcome
from placet.relay.policies.finding import Finding, omit_sensitive_id
from placet.relay.policies.policy import Leg
from placet.relay.registry.subscriptions import Subscription
from placet.relay.traceback_redaction import redact_traceback
from placet.relay.traffic.exchange import Exchange

EVENT_TYPE = "COMMUNICATION_AUDIT"
PUSH_METHOD = "PushNotification"
MAX_DEFERRED_BYTES = 8 * 1024
"""Of a call with larger messages the event is made at once, lest many of them wait in memory."""
EVENT_OVERHEAD_BYTES = 2 * 1024
"""What an event takes beside its messages, roughly."""
PAYLOAD_OMITTED = {"payloadOmitted": "failed"}
ACTIONS: Mapping[Outcome, str] = {
    Outcome.PASS: "LOG",
    Outcome.LOG: "LOG",
    Outcome.WARN: "WARN",
    Outcome.MASK: "MASK",
    Outcome.HOLD: "HUMAN_REVIEW_REQUIRED",
    Outcome.BLOCK: "BLOCK",
}

log = logging.getLogger("placet.relay.audit")


class CallOutcome(Struct, frozen=True, kw_only=True):
    """What the caller got."""

    status: int = 200
    size: int
    reply: A2AReply | None = None
    problem: A2AError | None = None
    events: Sequence[bytes] = ()
    """The beginning of a stream, as it was sent."""
    streamed: bool = False


class CallRecorder:
    """Records calls in the audit log."""

    def __init__(self, trail: AuditLog) -> None:
        self._trail = trail

    def admit(self) -> None:
        """Raise A2AError while nothing more can be written down: nothing may pass then."""
        try:
            self._trail.record()
        except Unavailable as full:
            raise A2AError("busy", full.message) from full

    def note(self, exchange: Exchange, told: CallOutcome, took_for: timedelta) -> None:
        """Write down a call that has come to its end; raises Unavailable."""
        make = partial(self._event, exchange, told, took_for, self._trail.stamp())
        size = exchange.size + told.size
        # Of an answer in which nothing was found nothing more will become known either.
        over = told.reply is not None and not told.streamed and not exchange.handle.goes_on
        if over and size <= MAX_DEFERRED_BYTES and exchange.findings_record.is_empty:
            self._trail.record_later(make, size=size + EVENT_OVERHEAD_BYTES)
        else:
            self._trail.record(make())

    def _event(
        self, exchange: Exchange, told: CallOutcome, took_for: timedelta, stamp: EventStamp
    ) -> AuditRow:
        """The event of a call, in any case: one that could not be told in full is told without the rest."""
        try:
            return self._row(exchange, told, took_for, stamp)
        except Exception as error:
            log.error("audit_payload_omitted error=%s", redact_traceback(error))
            return self._trail.row(
                EVENT_TYPE,
                exchange.subscription,
                correlation_id=exchange.correlation_id,
                action=_choose_action(exchange.findings_record.outcome, told, told.reply),
                transport=exchange.transport or get_transport(exchange.call.dialect),
                took_for=took_for,
                metadata=PAYLOAD_OMITTED,
                stamp=stamp,
            )

    def _row(self, exchange: Exchange, told: CallOutcome, took_for: timedelta, stamp: EventStamp) -> AuditRow:
        call, findings_record, dialect = exchange.call, exchange.findings_record, exchange.call.dialect
        found = [one for of_leg in findings_record.findings.values() for one in of_leg]
        reply = told.reply if not told.streamed else _merge_stream(call, told)
        about = reply if reply is not None and reply.error is None else None
        metadata: dict[str, Any] = {
            "requestBytes": exchange.size,
            "responseBytes": told.size,
            "streamed": told.streamed,
        }
        if exchange.pushed:
            metadata["pushed"] = True
        if findings_record.opaque:
            metadata["notLookedAt"] = {
                leg.value: list(paths) for leg, paths in findings_record.opaque.items()
            }
        state = about.state if about is not None else None
        return self._trail.row(
            EVENT_TYPE,
            exchange.subscription,
            correlation_id=exchange.correlation_id,
            action=_choose_action(findings_record.outcome, told, reply),
            transport=exchange.transport or get_transport(dialect),
            message=_describe(told, reply) if not exchange.pushed else "The agent pushed a notification.",
            task_id=omit_sensitive_id((about.task_id if about is not None else None) or call.task_id, found),
            context_id=omit_sensitive_id(
                (about.context_id if about is not None else None) or call.context_id, found
            ),
            message_id=omit_sensitive_id(call.message_id, found),
            task_state=state,
            took_for=took_for,
            payload=self._payload(exchange, told, reply, state),
            metadata=metadata,
            stamp=stamp,
        )

    def note_refusal(
        self, subscription: Subscription, dialect: Dialect, problem: A2AError, correlation_id: str
    ) -> None:
        """Write down what was no call at all."""
        self._trail.record(
            self._trail.row(
                "VALIDATION_RESULT",
                subscription,
                correlation_id=correlation_id,
                action="ERROR",
                transport=get_transport(dialect),
                message=problem.message,
                payload={"version": dialect.version, "errorCode": problem.codes.rpc_code},
            )
        )

    def _payload(
        self, exchange: Exchange, told: CallOutcome, reply: A2AReply | None, state: str | None
    ) -> dict[str, Any]:
        call, findings = exchange.call, exchange.findings_record.findings
        payload: dict[str, Any] = {
            "version": call.dialect.version,
            "method": PUSH_METHOD if exchange.pushed else _METHODS[call.dialect.version, call.operation],
            "httpStatus": told.status,
        }
        if state is not None:
            payload["taskState"] = state
        if told.problem is not None:
            payload["errorMessage"] = told.problem.message
            payload["errorCode"] = told.problem.codes.rpc_code
        payloads = self._trail.payloads_for(exchange.subscription.tenant)
        if payloads == "none":
            return payload
        first = findings.get(Leg.REQUEST_FROM_SOURCE, ())
        elsewhere = _list_other_findings(findings, Leg.REQUEST_FROM_SOURCE) if findings else ()
        asked = build_payload_body(payloads, call, first, elsewhere=elsewhere)
        if asked is not None:
            payload["requestBody"] = asked
        answered = (
            None if reply is None else build_payload_body(payloads, reply, elsewhere=(*first, *elsewhere))
        )
        if answered is not None:
            payload["responseBody"] = answered
        return payload


_METHODS: dict[tuple[str, str], str] = {
    (version, operation): RPC_NAMES.get((Dialect("JSONRPC", version), operation), name)
    for version in get_args(Version)
    for (dialect, operation), name in RPC_NAMES.items()
    if dialect == RPC_1_0
}
"""What a version calls an operation; 0.3 borrows the names of what it does not have."""


def _list_other_findings(findings: Mapping[Leg, tuple[Finding, ...]], leg: Leg) -> tuple[Finding, ...]:
    return tuple(one for other, found in findings.items() if other is not leg for one in found)


def _choose_action(outcome: Outcome, told: CallOutcome, reply: A2AReply | None) -> str:
    if outcome in (Outcome.PASS, Outcome.LOG) and (
        told.problem is not None or (reply is not None and reply.error is not None)
    ):
        return "ERROR"
    return ACTIONS[outcome]


def _describe(told: CallOutcome, reply: A2AReply | None) -> str:
    if told.problem is not None:
        return "The call failed."
    if reply is not None and reply.error is not None:
        return "The agent answered with an error."
    return "The call was answered."


def _merge_stream(call: A2ACall, told: CallOutcome) -> A2AReply | None:
    """What a stream came to, as far as it was kept."""
    try:
        found = decode_events(b"".join(told.events))
        return merge_event_documents(found, call.dialect, call.operation, call.rpc_id)
    except (A2AError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
