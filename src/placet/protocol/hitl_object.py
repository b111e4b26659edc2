"""The HTTP 202 body and its `hitl` object (spec 6), with every field of 0.5 to 0.9."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from placet.protocol.surface import Surface
from placet.protocol.timestamp import Timestamp
from placet.protocol.verification import VerificationPolicy

DefaultAction = Literal["skip", "approve", "reject", "abort"]
MAX_PROMPT_LENGTH = 500


class HitlObject(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent needs to pass a case to a person and to fetch the answer."""

    spec_version: str
    case_id: str
    review_url: str
    poll_url: str
    callback_url: str | None
    type: str
    prompt: str
    timeout: str
    default_action: DefaultAction
    created_at: Timestamp
    expires_at: Timestamp
    events_url: str | None = None
    context: dict[str, Any] | None = None
    reminder_at: Timestamp | tuple[Timestamp, ...] | None = None
    previous_case_id: str | None = None
    surface: Surface | None = None
    submit_url: str | None = None
    submit_token: str | None = None
    inline_actions: tuple[str, ...] | None = None
    verification_policy: VerificationPolicy | None = None


class HumanInputRequired(Struct, frozen=True, kw_only=True):
    """The body of HTTP 202."""

    status: Literal["human_input_required"] = "human_input_required"
    message: str
    data: dict[str, Any] | UnsetType = UNSET
    hitl: HitlObject
