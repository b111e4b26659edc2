"""The part of a stored hold that only the relay reads."""

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.ports.hold_store import HoldRow
from placet.relay.frozen_message import FrozenMessage, MessageFrame
from placet.relay.task_reasons import PolicyLevel
from placet.relay.tenants import CallerKind

DetectionSource = Literal["POLICY_ESCALATION", "AGENT_INPUT_REQUIRED", "PUSH_NOTIFICATION"]
ResolutionAction = Literal["APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]


class HoldingPolicy(Struct, frozen=True, kw_only=True):
    """The policy that holds a message."""

    id: str
    name: str
    version: str
    level: PolicyLevel


class Resolution(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a hold was resolved, and by whom."""

    id: str
    action: ResolutionAction
    message: str | None = None
    resolved_by: str | None = None
    created_at: datetime


class HoldBody(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"text_digests": "texts", "agent_task_id": "ran_as", "send_count": "sent"},  # stored names
):
    """The relay's data of a hold, stored as the body of its row."""

    frame: MessageFrame
    digest: str
    source_kind: CallerKind
    reason: dict[str, Any]
    """The metadata that callers see while the message is held."""
    role: Literal["user", "agent"]
    text: str
    data: list[Any] | None = None
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
    """When the resolution was carried out."""
    failure: str | None = None
    """Why the resolution could not be carried out."""


def decode_hold_body(hold: HoldRow) -> HoldBody:
    """Return the relay's data of a hold."""
    return msgspec.json.decode(hold.body, type=HoldBody)


def frozen_message_from_hold(hold: HoldRow, body: HoldBody) -> FrozenMessage:
    """Return the held message of a hold."""
    return FrozenMessage(frame=body.frame, data=hold.envelope)
