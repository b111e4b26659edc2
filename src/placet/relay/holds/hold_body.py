"""The part of a stored hold that only the relay reads."""

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.ports.hold_store import HoldRow
from placet.relay.holds.frozen_message import FrozenMessage, MessageFrame
from placet.relay.registry.subscriptions import CallerKind
from placet.relay.tasks.reasons import PolicyLevel

DetectionSource = Literal["POLICY_ESCALATION", "AGENT_INPUT_REQUIRED", "PUSH_NOTIFICATION"]
ResolutionAction = Literal["APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]


class HoldingPolicy(Struct, frozen=True, kw_only=True):
    """The policy that holds a message."""

    id: str
    name: str
    version: str
    level: PolicyLevel


class Resolution(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a hold, and who decided it."""

    id: str
    action: ResolutionAction
    message: str | None = None
    resolved_by: str | None = None
    created_at: datetime


class HoldBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of a hold that only the relay reads."""

    frame: MessageFrame
    digest: str
    source_kind: CallerKind
    reason: dict[str, Any]
    """The metadata that callers see while it is held."""
    role: Literal["user", "agent"]
    text: str
    data: list[Any] | None = None
    summary: str
    context_id: str
    message_id: str | None = None
    policy: HoldingPolicy | None = None
    matched: str | None = None
    texts: tuple[str, ...] = ()
    """Digests of the texts that a person sees."""
    resolution: Resolution | None = None
    ran_as: str | None = None
    """The agent's name for the task that the message has led to, while its answer is still waited for."""
    sent: int = 0
    """How often it was sent without anybody knowing whether it arrived."""
    done_at: datetime | None = None
    """When all that follows from the resolution was done."""
    failure: str | None = None
    """Why it could not be done."""


def decode_hold_body(hold: HoldRow) -> HoldBody:
    """What the relay wrote into a hold."""
    return msgspec.json.decode(hold.body, type=HoldBody)


def frozen_message_from_hold(hold: HoldRow, body: HoldBody) -> FrozenMessage:
    """The message of a hold."""
    return FrozenMessage(frame=body.frame, data=hold.envelope)
