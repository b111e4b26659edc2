"""Record each call in the audit log, with its parties, outcome and duration."""

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
from placet.relay.audit.audit_event import STARTED_STAGE, get_transport
from placet.relay.audit.audit_log import AuditLog, EventStamp
from placet.relay.audit.payload_bodies import build_payload_body
from placet.relay.exchange import Exchange
from placet.relay.policy.evaluation import Outcome
from placet.relay.policy.finding import Finding, omit_sensitive_id
from placet.relay.policy.policy import Leg
from placet.relay.tenants import Subscription
from placet.relay.traceback_redaction import redact_traceback

EVENT_TYPE = "COMMUNICATION_AUDIT"
PUSH_METHOD = "PushNotification"
MAX_DEFERRED_BYTES = 8 * 1024
"""The event of a call with larger messages is built at once, to limit the memory of the queue."""
EVENT_OVERHEAD_BYTES = 2 * 1024
"""The size of an event without its messages, roughly."""
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
    """The response that the caller got."""

    status: int = 200
    size: int
    reply: A2AReply | None = None
    problem: A2AError | None = None
    events: Sequence[bytes] = ()
    """The beginning of the stream that was sent."""
    streamed: bool = False


class CallRecorder:
    """Records calls in the audit log."""

    def __init__(self, audit_log: AuditLog) -> None:
        self._audit_log = audit_log

    def check_capacity(self) -> None:
        """Raise A2AError if no more events can be recorded, so that the call must be refused."""
        try:
            self._audit_log.record()
        except Unavailable as full:
            raise A2AError("busy", full.message) from full

    def record(self, exchange: Exchange, outcome: CallOutcome, took_for: timedelta) -> None:
        """Record a call that has ended, with its task rows. Raises Unavailable if the queue is full."""
        build = partial(self._build_event, exchange, outcome, took_for, self._audit_log.stamp())
        writes = exchange.state.writes
        size = exchange.size + outcome.size
        # A call in the background may still add findings, which must not change an event that is built later.
        is_final = outcome.reply is not None and not outcome.streamed and not exchange.state.is_in_background
        if is_final and size <= MAX_DEFERRED_BYTES and exchange.findings_record.is_empty:
            self._audit_log.record_later(build, size=size + EVENT_OVERHEAD_BYTES, call=writes)
        else:
            self._audit_log.record(build(), call=writes)
        if writes is not None:
            writes.finish()

    def record_started_task(self, exchange: Exchange) -> None:
        """Record the new task of a stream before the caller gets it. Raises A2AError if the queue is full.

        The event of the whole stream follows when the stream ends, which may be hours later. The task row
        cannot wait for it: the caller comes back to the task if the stream breaks.
        """
        writes = exchange.state.writes
        if writes is None or not writes.rows:
            return
        try:
            self._audit_log.record(
                self._build_started_event(exchange, next(iter(writes.rows.values())).id), call=writes
            )
        except Unavailable as full:
            raise A2AError("busy", full.message) from full

    def _build_started_event(self, exchange: Exchange, task_id: str) -> AuditRow:
        call = exchange.call
        findings = _list_findings(exchange)
        return self._audit_log.build_event(
            EVENT_TYPE,
            exchange.subscription,
            correlation_id=exchange.correlation_id,
            action="LOG",
            transport=exchange.transport or get_transport(call.dialect),
            message="The agent started a task.",
            task_id=omit_sensitive_id(task_id, findings),
            context_id=omit_sensitive_id(call.context_id, findings),
            message_id=omit_sensitive_id(call.message_id, findings),
            payload={
                "version": call.dialect.version,
                "method": _METHODS[call.dialect.version, call.operation],
                "stage": STARTED_STAGE,
            },
            metadata={"streamed": True},
        )

    def _build_event(
        self, exchange: Exchange, outcome: CallOutcome, took_for: timedelta, stamp: EventStamp
    ) -> AuditRow:
        """Return the event of a call. If that fails, return an event without payload and ids."""
        try:
            return self._build_full_event(exchange, outcome, took_for, stamp)
        except Exception as error:
            log.error("audit_payload_omitted error=%s", redact_traceback(error))
            return self._audit_log.build_event(
                EVENT_TYPE,
                exchange.subscription,
                correlation_id=exchange.correlation_id,
                action=_choose_action(exchange.findings_record.outcome, outcome, outcome.reply),
                transport=exchange.transport or get_transport(exchange.call.dialect),
                took_for=took_for,
                metadata=PAYLOAD_OMITTED,
                stamp=stamp,
            )

    def _build_full_event(
        self, exchange: Exchange, outcome: CallOutcome, took_for: timedelta, stamp: EventStamp
    ) -> AuditRow:
        call, findings_record, dialect = exchange.call, exchange.findings_record, exchange.call.dialect
        findings = _list_findings(exchange)
        reply = outcome.reply if not outcome.streamed else _merge_stream(call, outcome)
        result = reply if reply is not None and reply.error is None else None
        metadata: dict[str, Any] = {
            "requestBytes": exchange.size,
            "responseBytes": outcome.size,
            "streamed": outcome.streamed,
        }
        if exchange.pushed:
            metadata["pushed"] = True
        if findings_record.unreadable_paths:
            metadata["unreadablePaths"] = {
                leg.value: list(paths) for leg, paths in findings_record.unreadable_paths.items()
            }
        state = result.state if result is not None else None
        return self._audit_log.build_event(
            EVENT_TYPE,
            exchange.subscription,
            correlation_id=exchange.correlation_id,
            action=_choose_action(findings_record.outcome, outcome, reply),
            transport=exchange.transport or get_transport(dialect),
            message=_describe(outcome, reply) if not exchange.pushed else "The agent pushed a notification.",
            task_id=omit_sensitive_id(
                (result.task_id if result is not None else None) or call.task_id, findings
            ),
            context_id=omit_sensitive_id(
                (result.context_id if result is not None else None) or call.context_id, findings
            ),
            message_id=omit_sensitive_id(call.message_id, findings),
            task_state=state,
            took_for=took_for,
            payload=self._build_payload(exchange, outcome, reply, state),
            metadata=metadata,
            stamp=stamp,
        )

    def record_invalid_call(
        self, subscription: Subscription, dialect: Dialect, problem: A2AError, correlation_id: str
    ) -> None:
        """Record a request that is not a valid call. Raises Unavailable if the queue is full."""
        self._audit_log.record(
            self._audit_log.build_event(
                "VALIDATION_RESULT",
                subscription,
                correlation_id=correlation_id,
                action="ERROR",
                transport=get_transport(dialect),
                message=problem.message,
                payload={"version": dialect.version, "errorCode": problem.codes.rpc_code},
            )
        )

    def _build_payload(
        self, exchange: Exchange, outcome: CallOutcome, reply: A2AReply | None, state: str | None
    ) -> dict[str, Any]:
        call, findings = exchange.call, exchange.findings_record.findings
        payload: dict[str, Any] = {
            "version": call.dialect.version,
            "method": PUSH_METHOD if exchange.pushed else _METHODS[call.dialect.version, call.operation],
            "httpStatus": outcome.status,
        }
        if state is not None:
            payload["taskState"] = state
        if outcome.problem is not None:
            payload["errorMessage"] = outcome.problem.message
            payload["errorCode"] = outcome.problem.codes.rpc_code
        mode = self._audit_log.get_payload_mode(exchange.subscription.tenant)
        if mode == "none":
            return payload
        first = findings.get(Leg.REQUEST_FROM_SOURCE, ())
        others = _list_other_findings(findings, Leg.REQUEST_FROM_SOURCE) if findings else ()
        request = build_payload_body(mode, call, first, elsewhere=others)
        if request is not None:
            payload["requestBody"] = request
        response = None if reply is None else build_payload_body(mode, reply, elsewhere=(*first, *others))
        if response is not None:
            payload["responseBody"] = response
        return payload


_METHODS: dict[tuple[str, str], str] = {
    (version, operation): RPC_NAMES.get((Dialect("JSONRPC", version), operation), name)
    for version in get_args(Version)
    for (dialect, operation), name in RPC_NAMES.items()
    if dialect == RPC_1_0
}
"""The name of an operation in a version. An operation that 0.3 does not have has its name of 1.0."""


def _list_findings(exchange: Exchange) -> list[Finding]:
    return [finding for findings in exchange.findings_record.findings.values() for finding in findings]


def _list_other_findings(findings: Mapping[Leg, tuple[Finding, ...]], leg: Leg) -> tuple[Finding, ...]:
    return tuple(one for other, found in findings.items() if other is not leg for one in found)


def _choose_action(decision: Outcome, outcome: CallOutcome, reply: A2AReply | None) -> str:
    if decision in (Outcome.PASS, Outcome.LOG) and (
        outcome.problem is not None or (reply is not None and reply.error is not None)
    ):
        return "ERROR"
    return ACTIONS[decision]


def _describe(outcome: CallOutcome, reply: A2AReply | None) -> str:
    if outcome.problem is not None:
        return "The call failed."
    if reply is not None and reply.error is not None:
        return "The agent answered with an error."
    return "The call was answered."


def _merge_stream(call: A2ACall, outcome: CallOutcome) -> A2AReply | None:
    """Return the merged events of the beginning of a stream, or None if they cannot be parsed."""
    try:
        events = decode_events(b"".join(outcome.events))
        return merge_event_documents(events, call.dialect, call.operation, call.rpc_id)
    except (A2AError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
