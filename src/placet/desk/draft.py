"""The body of POST /v1/cases. Its fields have the names of the `hitl` object."""

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from placet.cases.case_reader import CaseReader
from placet.errors import ValidationFailed
from placet.protocol import duration
from placet.protocol.conversion import anchor_pattern, convert_input
from placet.protocol.hitl_object import MAX_PROMPT_LENGTH, DefaultAction
from placet.protocol.review_types import STANDARD_TYPES
from placet.protocol.surface import Surface
from placet.protocol.timestamp import Timestamp
from placet.protocol.verification import VerificationPolicy
from placet.protocol.versions import SPEC_VERSIONS

TYPE_PATTERN = anchor_pattern(f"{'|'.join(STANDARD_TYPES)}|x-[a-z0-9][a-z0-9_-]*")

CaseType = Annotated[
    str,
    Meta(pattern=TYPE_PATTERN, max_length=100, description="One of the five types, or your own x-… type."),
]
Action = Annotated[str, Meta(pattern=anchor_pattern("[a-z][a-z0-9_-]*"), max_length=64)]
CaseId = Annotated[str, Meta(pattern=anchor_pattern("[a-zA-Z0-9_-]+"), max_length=100)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
MessageText = Annotated[str, Meta(max_length=2000)]
Reminders = Annotated[tuple[Timestamp, ...], Meta(max_length=20)]
InlineActions = Annotated[tuple[Action, ...], Meta(max_length=20)]
CustomActions = Annotated[tuple[Action, ...], Meta(min_length=1, max_length=20)]

# extra_json_schema only documents the rule: the code that enforces it has better error messages.
Prompt = Annotated[
    str, Meta(min_length=1, max_length=MAX_PROMPT_LENGTH, extra_json_schema={"pattern": r"\S"})
]
TimeoutText = Annotated[str, Meta(max_length=50, extra_json_schema={"pattern": duration.PATTERN})]
CallbackUrl = Annotated[str, Meta(max_length=2048, extra_json_schema={"pattern": "^https?://"})]
OwnReviewUrl = Annotated[str, Meta(max_length=2048, extra_json_schema={"pattern": "^https?://"})]
AgentCallbackUrl = Annotated[str, Meta(max_length=2048)]
SpecVersion = Annotated[str, Meta(max_length=20, extra_json_schema={"enum": list(SPEC_VERSIONS)})]


def _describe(text: str) -> Meta:
    return Meta(description=text)


AskerNames = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...], Meta(max_length=20)]
ShortName = Annotated[str, Meta(min_length=1, max_length=100)]
RecipientNames = Annotated[tuple[ShortName, ...], Meta(max_length=20)]
Labels = Annotated[tuple[ShortName, ...], Meta(max_length=20)]
ReviewerAddresses = Annotated[
    tuple[Annotated[str, Meta(min_length=3, max_length=254)], ...], Meta(max_length=20)
]
ReviewerName = Annotated[str, Meta(min_length=1, max_length=200)]


class CaseDraft(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The question of a service to a reviewer."""

    type: CaseType
    prompt: Annotated[Prompt, _describe("The question in one sentence, for a person.")]
    message: Annotated[
        MessageText | None, _describe("A summary for the agent to relay; else the prompt.")
    ] = None
    context: Annotated[dict[str, Any], _describe("What the person needs to see and choose from.")] = field(
        default_factory=dict
    )
    page_context: Annotated[
        dict[str, Any],
        _describe(
            "More context, which only the review page shows. It is not sent to the agent, and a case with it "
            "cannot be answered inline."
        ),
    ] = field(default_factory=dict)
    result_schema: Annotated[
        dict[str, Any] | None,
        _describe(
            "A JSON Schema of `result.data`. An answer may then have more fields than the review type knows, "
            "if all of its data fits."
        ),
    ] = None
    timeout: Annotated[
        TimeoutText | None,
        _describe("How long the case stays open: 30m, 24h, 7d, 1d12h, PT24H, P7D."),
    ] = None
    default_action: Annotated[
        DefaultAction | None,
        _describe(
            "What you will do if there is no answer in time; Placet reports it and does nothing itself."
        ),
    ] = None
    allow_default_approve: Annotated[
        bool,
        _describe("Set to true to allow `approve` as default_action. Some types never allow it."),
    ] = False
    callback_url: Annotated[
        CallbackUrl | None, _describe("Where to POST the outcome: a public https address of yours.")
    ] = None
    hitl_callback_url: Annotated[
        AgentCallbackUrl | None,
        _describe(
            "The field of this name in the agent's request: used if there is no `callback_url`. An address "
            "that cannot be called is left out, with a warning in the 202."
        ),
    ] = None
    review_url: Annotated[
        OwnReviewUrl | None,
        _describe(
            "A page of your own for the reviewer, in place of ours: https. `{case_id}` in it is replaced. "
            "Send the answer with POST /v1/reviews/{case_id}/answer. The key needs the scope `cases:answer`."
        ),
    ] = None
    reader: Annotated[
        CaseReader | None,
        _describe("Who else may poll and stream this case: the agent that called you."),
    ] = None
    reminder_at: Annotated[
        Timestamp | Reminders | None,
        _describe("When to remind the person, between now and the deadline."),
    ] = None
    inline_actions: Annotated[
        InlineActions | None,
        _describe("If present, inline submit is offered, for these actions only."),
    ] = None
    actions: Annotated[
        CustomActions | None,
        _describe("All actions of a custom x-… type, or of a type that takes custom actions."),
    ] = None
    affirmative_actions: Annotated[
        InlineActions | None, _describe("Those of the declared actions that are a yes.")
    ] = None
    only_reviewer: Annotated[
        ReviewerName | None,
        _describe(
            "The one person whom you ask, by a name of your own. If they hand the question back and have not "
            "passed it on, the case is cancelled. Without this, a case that is handed back stays open."
        ),
    ] = None
    four_eyes: Annotated[
        bool,
        _describe(
            "Set to true if you, and those in `asked_by`, must not be able to say yes. A yes then needs a "
            "person whom the server knows: a review link is not enough. A server may require it for every "
            "case."
        ),
    ] = False
    asked_by: Annotated[
        AskerNames,
        _describe("With the four-eyes rule: names of the people who asked through you. They cannot approve."),
    ] = ()
    notify: Annotated[
        RecipientNames,
        _describe("The recipients whom the server notifies of this case, by their names in its settings."),
    ] = ()
    labels: Annotated[
        Labels, _describe("Words by which the server's settings choose further recipients.")
    ] = ()
    reviewers: Annotated[
        ReviewerAddresses,
        _describe(
            "The e-mail addresses of the only people who can answer. Needs a `verification_policy` that "
            "requires a passkey or an e-mail code, because a review link does not tell who opened it."
        ),
    ] = ()
    previous_case_id: Annotated[CaseId | None, _describe("The case of yours that this one continues.")] = None
    surface: Surface | None = None
    verification_policy: VerificationPolicy | None = None
    spec_version: Annotated[
        SpecVersion | None,
        _describe("The protocol version of the `hitl` object you want; else the newest."),
    ] = None
    service: Annotated[Name | None, _describe("The name of the service, as shown to the person.")] = None
    agent: Annotated[Name | None, _describe("The name of the agent, as shown to the person.")] = None

    @property
    def shown_context(self) -> dict[str, Any]:
        """The whole context that the reviewer sees."""
        return {**self.context, **self.page_context} if self.page_context else self.context


def draft_from(fields: dict[str, Any]) -> CaseDraft:
    """Return the draft from plain Python values. Raises ValidationFailed, naming the invalid field."""
    for name in ("context", "page_context"):
        if name not in fields:
            continue
        # Lists instead of sets: the digest must not depend on the order in which a set is stored.
        with suppress(TypeError, ValueError, RecursionError):  # the conversion reports what is wrong
            fields = {**fields, name: msgspec.to_builtins(fields[name])}
    return convert_input(fields, CaseDraft, ValidationFailed, "draft")
