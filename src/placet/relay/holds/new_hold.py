"""A message that is about to be held: its ids, its row and its audit events."""

import hashlib
import hmac
import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from placet.ports.audit_store import AuditRow
from placet.ports.detector import Scannable
from placet.ports.hold_store import HoldRow
from placet.relay.a2a.json_fields import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_log import AuditLog
from placet.relay.holds.case_draft import (
    HoldReason,
    build_summary,
    find_data_parts,
    get_author_role,
    join_visible_texts,
)
from placet.relay.holds.frozen_message import FrozenMessage
from placet.relay.holds.hold_body import DetectionSource, HoldBody
from placet.relay.holds.message_holder import digest_file, digest_text
from placet.relay.holds.task_locator import HoldTarget
from placet.relay.inspection.message_inspector import InspectionRequest
from placet.relay.policies.finding import omit_sensitive_id
from placet.relay.policies.text_joining import list_joined_texts
from placet.relay.tasks.task_repository import Task

MAX_APPROVED_TEXTS = 2_000
"""So many texts of one message are remembered as approved."""
MAX_ATTEMPTS = 16
"""So often the same message may be held, one time after the other."""


class NewHold(Struct, frozen=True, kw_only=True):
    """The message and everything needed to write its hold."""

    request: InspectionRequest
    frozen: FrozenMessage
    matched: HoldReason
    pieces: Sequence[Scannable]
    source: DetectionSource
    place: HoldTarget
    reply: A2AReply | None = None
    """What is held, if that is an answer."""

    @property
    def content(self) -> str:
        """What is said, by its digest: the same again if the same is said in another call."""
        said: object = self.request.call.message if self.reply is None else self.reply.document
        if self.reply is not None and self.reply.dialect.rpc:
            said = self.reply.document.get("result", self.reply.error)
        return hashlib.sha256(msgspec.json.encode(said)).hexdigest()

    def names(self, secret: str, count: int) -> tuple[str, Task]:
        """The hold's id and its task: the same again for the same message of the same sender.

        Nobody without the secret can tell from them what was said.
        """
        subscription, known, frame = self.request.subscription, self.place.entry, self.frozen.frame
        said = self.request.call.message_id if self.reply is None else _get_reply_key(self.reply)
        parts = (
            subscription.tenant,
            subscription.source.name,
            subscription.sink.id,
            frame.leg.value,
            frame.matter,
            said or uuid.uuid4().hex,
            self.content,
            known.id if known is not None else "",
            str(count),
        )
        hold_id = _derive_id(secret, "hold", *parts)
        if known is not None:
            return hold_id, known
        entry = Task(
            id=_derive_id(secret, "task", *parts),
            owner=subscription.source.name,
            upstream_id=None,
            context_id=self.place.context_id or _derive_id(secret, "context", *parts),
        )
        return hold_id, entry

    def is_held_by(self, entry: Task, secret: str) -> bool:
        """Whether its task waits for this very message; answers all tell of the task as it stands."""
        if self.reply is not None:
            return True
        own = (self.names(secret, count)[0] for count in range(MAX_ATTEMPTS))
        return entry.hold_id is not None and entry.hold_id in own

    def row(self, hold_id: str, case_id: str, entry: Task, metadata: Json, now: datetime) -> HoldRow:
        """The hold as it is written."""
        request, matched, frame = self.request, self.matched, self.frozen.frame
        subscription = request.subscription
        body = HoldBody(
            frame=frame,
            digest=self.frozen.digest,
            source_kind=subscription.source.kind,
            reason=metadata,
            role=get_author_role(frame.matter),
            text=join_visible_texts(self.pieces),
            data=find_data_parts(request, self.reply),
            summary=build_summary(frame.matter, subscription, matched),
            context_id=entry.context_id or entry.id,
            message_id=omit_sensitive_id(request.call.message_id, matched.findings),
            policy=matched.policy,
            matched=matched.content,
            texts=tuple(dict.fromkeys([*map(digest_text, self._texts()), *self._files()])),
        )
        return HoldRow(
            id=hold_id,
            tenant=subscription.tenant,
            case_id=case_id,
            status="PENDING",
            rev=1,
            detection_source=self.source,
            source=subscription.source.name,
            sink=subscription.sink.id,
            task_id=entry.id,
            policy_name=None if matched.policy is None else matched.policy.name,
            correlation_id=request.correlation_id,
            created_at=now,
            body=msgspec.json.encode(body),
            envelope=self.frozen.data,
        )

    def _texts(self) -> list[str]:
        """What a person sees, piece by piece and as it reads together."""
        seen = self.pieces[:MAX_APPROVED_TEXTS]
        return [*(piece.text for piece in seen), *list_joined_texts(seen)]

    def _files(self) -> list[str]:
        """What a person is told of and cannot be shown, by its digests."""
        held = self.reply or self.request.call
        return [digest_file(one.content) for one in held.unreadable()[:MAX_APPROVED_TEXTS]]

    def events(self, trail: AuditLog, hold: HoldRow) -> list[AuditRow]:
        """What the audit is told of a hold."""
        event = partial(
            self._event,
            trail,
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
        found = build_summary(self.frozen.frame.matter, self.request.subscription, self.matched)
        return [
            event("HITL", found),
            event("HITL_GUARD", "The task is guarded until a person has decided.", task_state="working"),
        ]

    def build_backlog_event(self, trail: AuditLog, most: int) -> AuditRow:
        """What the audit is told when there was no room for a hold."""
        known, policy = self.place.entry, self.matched.policy
        return self._event(
            trail,
            "HITL",
            f"A message that a person would have to see is refused: {most:,} of this caller's wait already.",
            action="BLOCK",
            task_id=None if known is None else known.id,
            metadata={
                **self._reason_metadata,
                "policyName": None if policy is None else policy.name,
                "maxPendingHolds": most,
            },
        )

    @property
    def _reason_metadata(self) -> dict[str, str]:
        return {"detectionSource": self.source, "leg": self.frozen.frame.leg.value}

    def _event(self, trail: AuditLog, type: str, message: str, **told: Any) -> AuditRow:
        request = self.request
        return trail.row(
            type,
            request.subscription,
            correlation_id=request.correlation_id,
            transport="JSONRPC" if self.frozen.frame.dialect.rpc else "REST",
            message=message,
            message_id=omit_sensitive_id(request.call.message_id, self.matched.findings),
            **told,
        )


def _derive_id(secret: str, *parts: str) -> str:
    """An id that is the same for the same parts, so that what comes twice is held once."""
    made = hmac.new(bytes.fromhex(secret), "\x00".join(parts).encode("utf-8", "surrogatepass"), "sha256")
    return str(uuid.UUID(bytes=made.digest()[:16], version=4))


def _get_reply_key(reply: A2AReply) -> str | None:
    """What tells one answer from another that says the same."""
    about = reply.task or reply.status_update
    status = about.get("status") if about is not None else None
    told = status.get("timestamp") if isinstance(status, dict) else None
    return reply.message_id or (told if isinstance(told, str) else None)
