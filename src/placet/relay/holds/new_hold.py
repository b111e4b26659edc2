"""A message to be held: its frozen bytes, and the ids, row and audit events of its hold."""

import hashlib
import hmac
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.ports.audit_store import AuditRow
from placet.ports.detector import Scannable
from placet.ports.hold_store import HoldRow
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.json_format import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.text_extraction import UnreadableContent
from placet.relay.audit.audit_log import AuditLog
from placet.relay.exchange import Exchange
from placet.relay.hold import NO_DATA, DetectionSource, FrozenMessage, HoldBody, HoldKind, MessageFrame
from placet.relay.holds.review_case import (
    MAX_FILES,
    HoldReason,
    build_summary,
    find_data_parts,
    get_author_role,
    join_visible_texts,
)
from placet.relay.policy.finding import digest_file, digest_match, digest_text, omit_sensitive_id
from placet.relay.policy.policy import Leg, PolicyAction
from placet.relay.policy.text_joining import list_joined_texts
from placet.relay.task import Task, TaskStatus

# Headers that are stored with a held message. None of them holds credentials.
STORED_HEADERS = frozenset(
    {"accept", "a2a-version", "a2a-extensions", "x-a2a-extensions", "content-type", "accept-language"}
    | {"traceparent", "tracestate", "x-correlation-id"}
)
MAX_APPROVED_TEXTS = 2_000
"""Limit of texts of one message that are stored as approved."""
MAX_ATTEMPTS = 16
"""How many times the same message may be held again after a decision."""


class HoldTarget(Struct, frozen=True, kw_only=True):
    """The task and context that a held message belongs to."""

    task: Task | None
    """The task; None if the relay has to create one."""
    context_id: str | None
    """The context that the caller named, or None."""


class NewHold(Struct, frozen=True, kw_only=True):
    """The message and everything needed to write its hold."""

    exchange: Exchange
    """The exchange. Its call is the one that was inspected, without masks."""
    held_call: A2ACall
    """The call as it is held, with masks; for a held response, its call."""
    frozen: FrozenMessage
    hold_reason: HoldReason
    pieces: Sequence[Scannable]
    detection_source: DetectionSource
    target: HoldTarget
    reply: A2AReply | None = None
    """The held response; None if a call is held."""
    requests: Sequence[str] = ()
    """The texts of the messages that the agent got, if it asks for input."""

    @property
    def content_digest(self) -> str:
        """Return the digest of the message. The same message in another call has the same digest."""
        content: object = self.exchange.call.message if self.reply is None else self.reply.document
        if self.reply is not None and self.reply.dialect.rpc:
            content = self.reply.document.get("result", self.reply.error)
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()

    def derive_ids(self, secret: str, count: int) -> tuple[str, Task]:
        """Return the hold's id and its task. The same message of the same sender gets the same ids.

        The ids depend on the secret, so that they do not reveal the message's content.
        """
        subscription, known, frame = self.exchange.subscription, self.target.task, self.frozen.frame
        message_key = self.exchange.call.message_id if self.reply is None else _get_reply_key(self.reply)
        parts = (
            subscription.tenant,
            subscription.source.name,
            subscription.sink.id,
            frame.leg.value,
            frame.matter,
            message_key or uuid.uuid4().hex,
            self.content_digest,
            known.id if known is not None else "",
            str(count),
        )
        hold_id = _derive_id(secret, "hold", *parts)
        if known is not None:
            return hold_id, known
        task = Task(
            id=_derive_id(secret, "task", *parts),
            owner=subscription.source.name,
            status=TaskStatus.RUNNING,
            upstream_id=None,
            context_id=self.target.context_id or _derive_id(secret, "context", *parts),
        )
        return hold_id, task

    def is_held_by(self, task: Task, secret: str) -> bool:
        """Return whether the task is held by this message. True for a response, which is about the task."""
        if self.reply is not None:
            return True
        hold_ids = (self.derive_ids(secret, count)[0] for count in range(MAX_ATTEMPTS))
        return any(task.hold_id == hold_id for hold_id in hold_ids)

    def build_row(self, hold_id: str, case_id: str, task: Task, metadata: Json, now: datetime) -> HoldRow:
        """Return the row of the hold."""
        exchange, hold_reason, frame = self.exchange, self.hold_reason, self.frozen.frame
        subscription, data = exchange.subscription, find_data_parts(self.held_call, self.reply)
        body = HoldBody(
            frame=frame,
            digest=self.frozen.digest,
            source_kind=subscription.source.kind,
            reason=metadata,
            role=get_author_role(frame.matter),
            text=join_visible_texts(self.pieces),
            data=NO_DATA if data is None else msgspec.Raw(msgspec.json.encode(data)),
            summary=build_summary(frame.matter, subscription, hold_reason),
            context_id=task.context_id or task.id,
            message_id=omit_sensitive_id(exchange.call.message_id, hold_reason.findings),
            policy=hold_reason.policy,
            matched=hold_reason.content,
            text_digests=tuple(
                dict.fromkeys(
                    [
                        *map(digest_text, self._list_texts()),
                        *self._list_file_digests(),
                        *self._list_match_digests(),
                    ]
                )
            ),
        )
        return HoldRow(
            id=hold_id,
            tenant=subscription.tenant,
            case_id=case_id,
            status="PENDING",
            rev=1,
            detection_source=self.detection_source,
            source=subscription.source.name,
            sink=subscription.sink.id,
            task_id=task.id,
            policy_name=None if hold_reason.policy is None else hold_reason.policy.name,
            correlation_id=exchange.correlation_id,
            created_at=now,
            body=msgspec.json.encode(body),
            envelope=self.frozen.data,
        )

    def _list_texts(self) -> list[str]:
        """Return the texts that the reviewer sees, single and joined."""
        pieces = self.pieces[:MAX_APPROVED_TEXTS]
        return [*(piece.text for piece in pieces), *list_joined_texts(pieces)]

    def list_files(self) -> list[UnreadableContent]:
        """Return the files of the held message that no policy can read."""
        return (self.reply or self.held_call).unreadable_content()

    def _list_file_digests(self) -> list[str]:
        return [digest_file(one.content) for one in self.list_files()[:MAX_FILES]]

    def _list_match_digests(self) -> list[str]:
        """Return the digests of the matches that the reviewer decides about."""
        held = [
            digest_match(one)
            for one in self.hold_reason.findings
            if one.action is PolicyAction.HUMAN_REVIEW_REQUIRED
        ]
        return [digest for digest in held if digest is not None][:MAX_APPROVED_TEXTS]

    def build_events(self, audit_log: AuditLog, hold: HoldRow) -> list[AuditRow]:
        """Return the audit events of a new hold."""
        build_event = partial(
            self._build_event,
            audit_log,
            action="HUMAN_REVIEW_REQUIRED",
            task_id=hold.task_id,
            metadata={
                "approvalId": hold.id,
                "caseId": hold.case_id,
                **self._reason_metadata,
                "digest": self.frozen.digest,
                "policyName": hold.policy_name,
            },
        )
        summary = build_summary(self.frozen.frame.matter, self.exchange.subscription, self.hold_reason)
        return [
            build_event("HITL", summary),
            build_event(
                "HITL_GUARD", "The task is guarded until a person has decided.", task_state="working"
            ),
        ]

    def build_backlog_event(self, audit_log: AuditLog, limit: int) -> AuditRow:
        """Return the audit event of a message that was refused because of the limit of pending holds."""
        known, policy = self.target.task, self.hold_reason.policy
        return self._build_event(
            audit_log,
            "HITL",
            f"A message that needs approval is refused: the caller has {limit:,} pending holds, the limit.",
            action="BLOCK",
            task_id=None if known is None else known.id,
            metadata={
                **self._reason_metadata,
                "policyName": None if policy is None else policy.name,
                "maxPendingHolds": limit,
            },
        )

    @property
    def _reason_metadata(self) -> dict[str, str]:
        return {"detectionSource": self.detection_source, "leg": self.frozen.frame.leg.value}

    def _build_event(self, audit_log: AuditLog, type: str, message: str, **fields: Any) -> AuditRow:
        exchange = self.exchange
        return audit_log.build_event(
            type,
            exchange.subscription,
            correlation_id=exchange.correlation_id,
            transport="JSONRPC" if self.frozen.frame.dialect.rpc else "REST",
            message=message,
            message_id=omit_sensitive_id(exchange.call.message_id, self.hold_reason.findings),
            **fields,
        )


def _derive_id(secret: str, *parts: str) -> str:
    """Return an id that is the same for the same parts, so that a repeated message is held once."""
    mac = hmac.new(bytes.fromhex(secret), "\x00".join(parts).encode("utf-8", "surrogatepass"), "sha256")
    return str(uuid.UUID(bytes=mac.digest()[:16], version=4))


def _get_reply_key(reply: A2AReply) -> str | None:
    """Return what distinguishes responses with equal content: the message id or the status timestamp."""
    content = reply.task or reply.status_update
    status = content.get("status") if content is not None else None
    timestamp = status.get("timestamp") if isinstance(status, dict) else None
    return reply.message_id or (timestamp if isinstance(timestamp, str) else None)


def select_stored_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be stored. Credentials are looked up again on resume."""
    return {name: value for name, value in headers.items() if name in STORED_HEADERS}


def freeze_call(leg: Leg, exchange: Exchange, document: dict[str, Any] | None) -> FrozenMessage:
    """Return a held call with this document."""
    data = b"" if document is None else msgspec.json.encode(document)
    return FrozenMessage(frame=_build_frame("request", leg, exchange), data=data)


def freeze_reply(
    matter: Literal["response", "input"],
    leg: Leg,
    exchange: Exchange,
    reply: A2AReply,
    *,
    upstream_task: str | None,
    upstream_context: str | None,
) -> FrozenMessage:
    """Return a held response with the caller's ids. The frame keeps the agent's ids."""
    frame = replace(
        _build_frame(matter, leg, exchange), upstream_task=upstream_task, upstream_context=upstream_context
    )
    return FrozenMessage(frame=frame, data=msgspec.json.encode(reply.document))


def _build_frame(matter: HoldKind, leg: Leg, exchange: Exchange) -> MessageFrame:
    call = exchange.call
    return MessageFrame(
        matter=matter,
        leg=leg,
        dialect=call.dialect,
        operation=call.operation,
        method=call.method,
        rpc_id=call.rpc_id,
        path_task=call.path_task,
        path_push=call.path_push,
        tenant=call.tenant,
        query=call.query,
        headers=select_stored_headers(exchange.headers),
        webhook=exchange.webhook,
        pushed=exchange.pushed,
    )
