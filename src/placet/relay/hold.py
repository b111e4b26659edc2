"""A held message and its life: one table keyed by stage and command, and one pure function over it.

A hold is stored as a row with a body that only the relay reads. The message is stored as its exact bytes with
the context to resume it. `apply` is the only way to change a hold after it was created.
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.cases.machine import STAY, Stay
from placet.errors import RelayConflict
from placet.ports.hold_store import HoldRow
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Dialect, Operation
from placet.relay.a2a.errors import A2AError, RpcId
from placet.relay.a2a.reply import A2AReply
from placet.relay.policy.policy import Leg
from placet.relay.policy.verdict import HoldingPolicy
from placet.relay.tenants import CallerKind

HoldKind = Literal["request", "response", "input"]
"""A held call to the agent, a held response of the agent, or a held request of the agent for input."""
DetectionSource = Literal["POLICY_ESCALATION", "AGENT_INPUT_REQUIRED", "PUSH_NOTIFICATION"]
ResolutionAction = Literal["APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]
MAX_SENDS = 2
DELIVERY_UNKNOWN = "The message was sent twice without a response. The agent may or may not have received it."


class MessageFrame(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The context of a held message: how it arrived, its task, and the leg from which it resumes."""

    matter: HoldKind
    leg: Leg
    """The leg on which the message is held. After approval it continues behind this leg."""
    dialect: Dialect
    operation: Operation
    method: str = "POST"
    rpc_id: RpcId = None
    path_task: str | None = None
    path_push: str | None = None
    tenant: str | None = None
    """The `tenant` of A2A, which is part of the agent's paths. It is not the relay's tenant."""
    query: str = ""
    headers: dict[str, str] = {}
    webhook: str | None = None
    """The id of the webhook that the agent pushes to."""
    pushed: bool = False
    upstream_task: str | None = None
    """The agent's id of the task; None if the agent has none yet."""
    upstream_context: str | None = None


class FrozenMessage(Struct, frozen=True, kw_only=True):
    """A held message: its frame and its exact bytes."""

    frame: MessageFrame
    data: bytes

    @property
    def digest(self) -> str:
        """Return the digest of frame and bytes. An approval is bound to it."""
        framed = msgspec.json.encode(self.frame, order="deterministic")
        return hashlib.sha256(b"%d\n%b%b" % (len(framed), framed, self.data)).hexdigest()

    def call(self) -> A2ACall:
        """Return the held call; for a held response, its call without the content."""
        frame = self.frame
        document: dict[str, Any] | None = None
        if frame.matter == "request":
            document = msgspec.json.decode(self.data) if self.data else None
        return A2ACall(
            dialect=frame.dialect,
            operation=frame.operation,
            method=frame.method,
            document=document,
            rpc_id=frame.rpc_id,
            path_task=frame.path_task,
            path_push=frame.path_push,
            tenant=frame.tenant,
            query=frame.query,
            headers=frame.headers,
        )

    def reply(self) -> A2AReply:
        """Return the held response."""
        frame = self.frame
        return A2AReply(
            dialect=frame.dialect, operation=frame.operation, document=msgspec.json.decode(self.data)
        )


class Resolution(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a hold was resolved, and by whom."""

    id: str
    action: ResolutionAction
    message: str | None = None
    resolved_by: str | None = None
    created_at: datetime


class HoldStage(StrEnum):
    """How far a hold has come."""

    WAITING = "waiting"
    """For a person."""
    APPROVED = "approved"
    """Approved, and not sent or released yet."""
    SENDING = "sending"
    """Sent to the agent, with an unknown result."""
    DELIVERED = "delivered"
    """The agent has the message, and its result is awaited."""
    REFUSED = "refused"
    """Rejected, expired or withdrawn. The agent's task may still have to be canceled."""
    DONE = "done"
    """The decision was carried out."""
    FAILED = "failed"
    """The decision could not be carried out."""

    @property
    def is_final(self) -> bool:
        """Whether nothing is left to do."""
        return self in (HoldStage.DONE, HoldStage.FAILED)


WAITING, APPROVED, SENDING, DELIVERED = (
    HoldStage.WAITING,
    HoldStage.APPROVED,
    HoldStage.SENDING,
    HoldStage.DELIVERED,
)
REFUSED, DONE, FAILED = HoldStage.REFUSED, HoldStage.DONE, HoldStage.FAILED


NO_DATA = msgspec.Raw(b"null")


class HoldBody(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"text_digests": "texts", "agent_task_id": "ran_as", "send_count": "sent"},  # stored names
):
    """The relay's data of a hold, stored as the body of its row. Only `stage` says how far it has come."""

    stage: HoldStage = WAITING
    frame: MessageFrame
    digest: str
    source_kind: CallerKind
    reason: dict[str, Any]
    """The metadata that callers see while the message is held."""
    role: Literal["user", "agent"]
    text: str
    data: msgspec.Raw = NO_DATA
    """The data parts as JSON, which may be large; null if the message has none."""
    summary: str
    context_id: str
    message_id: str | None = None
    policy: HoldingPolicy | None = None
    matched: str | None = None
    text_digests: tuple[str, ...] = ()
    """Digests of the texts, files and matches that the reviewer decides about."""
    resolution: Resolution | None = None
    agent_task_id: str | None = None
    """The agent's id of the task that the resumed message started, while the relay awaits its result."""
    send_count: int = 0
    """How many times the message was sent with an unknown result."""
    done_at: datetime | None = None
    """When the resolution was carried out, or failed."""
    failure: str | None = None
    """Why the resolution could not be carried out."""

    @property
    def has_data(self) -> bool:
        """Whether the message has data parts."""
        return self.data != NO_DATA


class Hold(Struct, frozen=True, kw_only=True):
    """A held message with what became of it."""

    row: HoldRow
    body: HoldBody

    @property
    def id(self) -> str:
        """Return the id of the hold."""
        return self.row.id

    @property
    def stage(self) -> HoldStage:
        """Return how far the hold has come."""
        return self.body.stage

    @property
    def is_approved(self) -> bool:
        """Whether a person has approved the message."""
        return self.row.status == "APPROVED"

    @property
    def message(self) -> FrozenMessage:
        """Return the held message."""
        return FrozenMessage(frame=self.body.frame, data=self.row.envelope)


def hold_from_row(row: HoldRow) -> Hold:
    """Return the hold of a row. Rows of earlier releases have no stage."""
    body = decode_hold_body(row)
    if body.stage is WAITING and (row.status != "PENDING" or body.done_at is not None):
        body = replace(body, stage=_get_stage_of_earlier_release(row, body))
    return Hold(row=row, body=body)


def decode_hold_body(row: HoldRow) -> HoldBody:
    """Return the relay's data of a hold, as it is stored."""
    return msgspec.json.decode(row.body, type=HoldBody)


def _get_stage_of_earlier_release(row: HoldRow, body: HoldBody) -> HoldStage:
    if body.done_at is not None:
        return DONE if body.failure is None else FAILED
    if row.status != "APPROVED":
        return REFUSED
    if body.agent_task_id is not None:
        return DELIVERED
    return SENDING if body.send_count else APPROVED


class HoldCommand(Struct, frozen=True, kw_only=True):
    """Something that happens to a hold."""


class ApproveHold(HoldCommand, frozen=True, kw_only=True):
    """A person has approved the message."""

    resolution: Resolution


class RefuseHold(HoldCommand, frozen=True, kw_only=True):
    """The message was rejected, expired, or was withdrawn."""

    resolution: Resolution


class BeginSending(HoldCommand, frozen=True, kw_only=True):
    """The message is about to be sent. This is stored first, because the server may be killed meanwhile."""


class UndoSending(HoldCommand, frozen=True, kw_only=True):
    """The message was certainly not received by the agent."""


class NoteDelivery(HoldCommand, frozen=True, kw_only=True):
    """The agent has the message and works on a task."""

    agent_task_id: str


class FinishHold(HoldCommand, frozen=True, kw_only=True):
    """The decision was carried out."""

    at: datetime


class FailHold(HoldCommand, frozen=True, kw_only=True):
    """The decision cannot be carried out."""

    at: datetime
    message: str


REFUSE = RelayConflict
HoldRule = HoldStage | Stay | type[RelayConflict]

TRANSITIONS: Mapping[tuple[HoldStage, type[HoldCommand]], HoldRule] = {
    (WAITING, ApproveHold): APPROVED,
    (WAITING, RefuseHold): REFUSED,
    (WAITING, BeginSending): REFUSE,
    (WAITING, UndoSending): REFUSE,
    (WAITING, NoteDelivery): REFUSE,
    (WAITING, FinishHold): REFUSE,
    (WAITING, FailHold): FAILED,  # the case of the hold does not exist any more
    (APPROVED, ApproveHold): STAY,  # the first decision counts
    (APPROVED, RefuseHold): STAY,
    (APPROVED, BeginSending): SENDING,
    (APPROVED, UndoSending): STAY,
    (APPROVED, NoteDelivery): REFUSE,
    (APPROVED, FinishHold): DONE,  # a held response was released, without being sent
    (APPROVED, FailHold): FAILED,
    (SENDING, ApproveHold): STAY,
    (SENDING, RefuseHold): STAY,
    (SENDING, BeginSending): SENDING,
    (SENDING, UndoSending): APPROVED,
    (SENDING, NoteDelivery): DELIVERED,
    (SENDING, FinishHold): DONE,
    (SENDING, FailHold): FAILED,
    (DELIVERED, ApproveHold): STAY,
    (DELIVERED, RefuseHold): STAY,
    (DELIVERED, BeginSending): REFUSE,  # the agent has the message
    (DELIVERED, UndoSending): STAY,
    (DELIVERED, NoteDelivery): STAY,
    (DELIVERED, FinishHold): DONE,
    (DELIVERED, FailHold): FAILED,
    (REFUSED, ApproveHold): STAY,
    (REFUSED, RefuseHold): STAY,
    (REFUSED, BeginSending): REFUSE,
    (REFUSED, UndoSending): REFUSE,
    (REFUSED, NoteDelivery): REFUSE,
    (REFUSED, FinishHold): DONE,
    (REFUSED, FailHold): FAILED,
    (DONE, ApproveHold): STAY,
    (DONE, RefuseHold): STAY,
    (DONE, BeginSending): REFUSE,
    (DONE, UndoSending): STAY,
    (DONE, NoteDelivery): STAY,
    (DONE, FinishHold): STAY,
    (DONE, FailHold): STAY,
    (FAILED, ApproveHold): STAY,
    (FAILED, RefuseHold): STAY,
    (FAILED, BeginSending): REFUSE,
    (FAILED, UndoSending): STAY,
    (FAILED, NoteDelivery): STAY,
    (FAILED, FinishHold): STAY,
    (FAILED, FailHold): STAY,
}

HoldChanges = tuple[dict[str, Any], dict[str, Any]]
"""The changes of the row and of the body."""


def apply(hold: Hold, command: HoldCommand) -> Hold:
    """Return the hold after `command`, the same object if nothing changes.

    Raises RelayConflict if the table refuses the command, and A2AError if a message would be sent too often.
    """
    rule = TRANSITIONS[hold.stage, type(command)]
    if isinstance(rule, type):
        raise rule()
    if isinstance(rule, Stay):
        return hold
    of_row, of_body = _CHANGES[type(command)](hold, command)
    body = replace(hold.body, stage=rule, **of_body)
    row = replace(hold.row, rev=hold.row.rev + 1, body=msgspec.json.encode(body), **of_row)
    return Hold(row=row, body=body)


def _resolve(hold: Hold, command: ApproveHold | RefuseHold) -> HoldChanges:
    resolution = command.resolution
    if (resolution.action == "APPROVED") != isinstance(command, ApproveHold):
        raise RelayConflict()
    return {"status": resolution.action, "resolved_at": resolution.created_at}, {"resolution": resolution}


def _begin_sending(hold: Hold, command: BeginSending) -> HoldChanges:
    if hold.body.send_count >= MAX_SENDS:
        raise A2AError("agent_response", DELIVERY_UNKNOWN)
    return {}, {"send_count": hold.body.send_count + 1}


def _undo_sending(hold: Hold, command: UndoSending) -> HoldChanges:
    return {}, {"send_count": max(0, hold.body.send_count - 1)}


def _note_delivery(hold: Hold, command: NoteDelivery) -> HoldChanges:
    return {}, {"agent_task_id": command.agent_task_id}


def _finish(hold: Hold, command: FinishHold) -> HoldChanges:
    return {}, {"done_at": command.at}


def _fail(hold: Hold, command: FailHold) -> HoldChanges:
    return {}, {"done_at": command.at, "failure": command.message}


_CHANGES: Mapping[type[HoldCommand], Callable[[Hold, Any], HoldChanges]] = {
    ApproveHold: _resolve,
    RefuseHold: _resolve,
    BeginSending: _begin_sending,
    UndoSending: _undo_sending,
    NoteDelivery: _note_delivery,
    FinishHold: _finish,
    FailHold: _fail,
}
HOLD_COMMANDS = tuple(_CHANGES)
