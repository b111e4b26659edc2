"""A question as a service drafts it: the body of POST /v1/cases, in the `hitl` object's own names."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from assent.errors import ValidationFailed
from assent.protocol.hitl_object import MAX_PROMPT, DefaultAction
from assent.protocol.surface import Surface
from assent.protocol.verification import VerificationPolicy

STANDARD_TYPES = ("approval", "selection", "input", "confirmation", "escalation")
TYPE_PATTERN = f"^({'|'.join(STANDARD_TYPES)}|x-[a-z0-9][a-z0-9_-]*)$"

CaseType = Annotated[
    str,
    Meta(pattern=TYPE_PATTERN, max_length=100, description="One of the five types, or your own x-… type."),
]
Action = Annotated[str, Meta(pattern="^[a-z][a-z0-9_-]*$", max_length=64)]
CaseId = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]+$", max_length=100)]
Moment = Annotated[datetime, Meta(tz=True)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class CaseDraft(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a service asks of a person."""

    type: CaseType
    prompt: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_PROMPT, description="The question in one sentence, for a person."),
    ]
    message: (
        Annotated[
            str,
            Meta(max_length=2000, description="A summary for the agent to relay; else the prompt."),
        ]
        | None
    ) = None
    context: Annotated[
        dict[str, Any],
        Meta(description="What the person needs to see and choose from."),
    ] = field(default_factory=dict)
    timeout: (
        Annotated[str, Meta(max_length=50, description="How long the case stays open: 24h, 7d, PT24H, P7D.")]
        | None
    ) = None
    default_action: DefaultAction | None = None
    allow_default_approve: bool = False
    callback_url: Annotated[str, Meta(max_length=2048)] | None = None
    reminder_at: Moment | Annotated[tuple[Moment, ...], Meta(max_length=20)] | None = None
    inline_actions: (
        Annotated[
            tuple[Action, ...],
            Meta(max_length=20, description="Present: inline submit is offered for these."),
        ]
        | None
    ) = None
    actions: (
        Annotated[
            tuple[Action, ...],
            Meta(min_length=1, max_length=20, description="The actions of a custom x-… type."),
        ]
        | None
    ) = None
    previous_case_id: CaseId | None = None
    surface: Surface | None = None
    verification_policy: VerificationPolicy | None = None
    spec_version: Annotated[str, Meta(max_length=20)] | None = None
    service: Name | None = None
    agent: Name | None = None


def draft_from(fields: dict[str, Any]) -> CaseDraft:
    """The draft in plain Python values; raises ValidationFailed naming what to fix."""
    try:
        return msgspec.convert(fields, CaseDraft)
    except msgspec.ValidationError as error:
        raise ValidationFailed(str(error)) from error
