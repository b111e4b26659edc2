"""Inline submit (spec 7.5): the answer that an agent sends after a person pressed a native button."""

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from placet.protocol.conversion import anchor_pattern
from placet.protocol.timestamp import Timestamp
from placet.protocol.verification import Evidence
from placet.text.characters import is_one_line, is_storable

SUBMITTED_VIA = (
    "telegram_inline_button",
    "slack_block_action",
    "discord_component",
    "whatsapp_reply_button",
    "teams_adaptive_card",
)
PLATFORMS = ("telegram", "slack", "discord", "whatsapp", "teams")

VIA_OF_PLATFORM = dict(zip(PLATFORMS, SUBMITTED_VIA, strict=True))
"""The protocol's skill document writes the platform: `submitted_via: "telegram"`."""

Via = Annotated[
    str,
    Meta(pattern=anchor_pattern(f"{'|'.join((*SUBMITTED_VIA, *PLATFORMS))}|x-.+"), max_length=100),
]
Platform = Annotated[str, Meta(pattern=anchor_pattern(f"{'|'.join(PLATFORMS)}|x-.+"), max_length=100)]
ActionName = Annotated[str, Meta(min_length=1, max_length=100)]


class SubmittedBy(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who pressed the button, according to the caller; not verified."""

    platform: Platform
    platform_user_id: Annotated[str, Meta(min_length=1, max_length=500)]
    display_name: Annotated[str, Meta(max_length=500)] | None = None

    def __post_init__(self) -> None:
        _check_traceable(self.platform, self.platform_user_id, self.display_name or "")


class SubmitRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The body of an inline submit."""

    action: ActionName
    submitted_via: Via
    submitted_by: SubmittedBy
    data: dict[str, Any] = field(default_factory=dict)
    verification_evidence: Annotated[tuple[Evidence, ...], Meta(max_length=20)] = ()

    def __post_init__(self) -> None:
        _check_traceable(self.submitted_via)

    @property
    def via(self) -> str:
        """How the person answered, in the words of the specification."""
        return VIA_OF_PLATFORM.get(self.submitted_via, self.submitted_via)


class SubmitReceipt(Struct, frozen=True, kw_only=True):
    """The response to the submission that closed the case."""

    status: str
    case_id: str
    completed_at: Timestamp


def _check_traceable(*texts: str) -> None:
    """Raise ValueError, which the decoder converts, unless the texts fit on one line of the audit log."""
    together = "".join(texts)
    if not (is_storable(together) and is_one_line(together)):
        raise ValueError("Line breaks and control characters are not allowed here")
