"""What an assistant may say in a question: the arguments of the tools, each with the words for the model."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST_WAIT_S = 300
DEFAULT_WAIT_S = 20
# What is left out; never written to.
NO_FACTS: dict[str, Any] = {}
NONE: list[Any] = []

# The SDK reads JSON inside of strings for every type but plain `str`: texts are plain, and "" means none.
Prompt = Annotated[
    str,
    Field(min_length=1, max_length=500, description="The question to the person, in one plain sentence."),
]
Facts = Annotated[
    dict[str, Any],
    Field(
        description="Everything else the person needs to decide, by names that read well, such as"
        ' {"amount": "120 EUR", "why": "The invoice is due on Friday"}. They see nothing but what you send.'
    ),
]
Timeout = Annotated[
    str,
    Field(
        max_length=50,
        description="How long the person has, such as 30m, 4h or 2d; the server's default is usually 24h.",
    ),
]
DefaultAction = Annotated[
    Literal["", "skip", "reject", "abort"],
    Field(description="What you will do if nobody answers in time; never the thing you ask about."),
]
Previous = Annotated[
    str,
    Field(max_length=200, description="The case_id of the question that this one continues, after an edit."),
]
RemindAfter = Annotated[
    list[str],
    Field(
        max_length=10,
        description="When to remind a person who has not begun, counted from now, such as 1h or 1d; before"
        " the timeout. The link is sent again where there is a messenger.",
    ),
]
WaitSeconds = Annotated[
    float,
    Field(
        ge=0,
        le=LONGEST_WAIT_S,
        description="How long this call waits for the decision; afterwards the question stays open.",
    ),
]
CaseId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^[A-Za-z0-9_.~-]*[A-Za-z0-9_~-]$",
        description="The case_id of the question.",
    ),
]
ShowLink = Annotated[
    bool, Field(description="Offer the person the link again first, for instance after they closed it.")
]
Reason = Annotated[str, Field(max_length=2000, description="Why, in a sentence that the person will see.")]


class Option(BaseModel):
    """One choice; whatever else it holds is shown on its card."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(min_length=1, max_length=500, description="What data.selected names it by.")
    title: str = Field(min_length=1, description="What the person reads.")
    description: str = Field("", description="A sentence more.")


class Item(BaseModel):
    """One thing to be confirmed; whatever else it holds is shown beside it."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(min_length=1, max_length=500, description="What data.confirmed_items names it by.")
    label: str = Field(min_length=1, description="What the person reads.")


class FieldOption(BaseModel):
    """One choice of a select or multiselect."""

    value: str
    label: str


class Condition(BaseModel):
    """The answer to an earlier question that makes this one be asked."""

    model_config = ConfigDict(extra="forbid")

    field: str = Field(min_length=1, description="The key of the earlier question.")
    operator: Literal["eq", "neq", "in", "gt", "lt"] = "eq"
    value: Any


class FormField(BaseModel):
    """One question of a form."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(min_length=1, description="The name of the answer in data.")
    label: str = Field(min_length=1, max_length=200, description="What the person reads.")
    type: Literal[
        "text", "textarea", "number", "date", "email", "url", "boolean", "select", "multiselect", "range"
    ] = "text"
    required: bool = True
    hint: str = Field("", max_length=2000, description="A sentence of help.")
    placeholder: str = Field("", max_length=2000)
    sensitive: bool = Field(False, description="Masked while it is typed. The answer still comes to you.")
    default: Any = Field(None, description="What the field holds before the person changes it.")
    options: list[FieldOption] = Field([], description="For select and multiselect.")
    validation: dict[str, Any] = Field({}, description="minLength, maxLength, pattern, min or max.")
    conditional: Condition | None = Field(None, description="Ask only after a certain answer before.")


class FormStep(BaseModel):
    """One page of a form with several."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=200, description="What the person reads above it.")
    description: str = Field("", max_length=2000, description="A sentence more.")
    fields: list[FormField] = Field([], max_length=200, description="Its questions; none: a summary.")


class Proof(BaseModel):
    """Which proof of a person the server's verifier must accept before an answer counts."""

    model_config = ConfigDict(extra="forbid")

    required_for: list[Literal["inline_submit", "browser_submit"]] = Field(
        ["inline_submit"],
        min_length=1,
        description="inline_submit: buttons in messengers, which then are not offered, so that the person"
        " answers by the link. browser_submit: the page, if the server has a verifier for pages.",
    )
    proof_type: str = Field("proof_of_human", description="proof_of_human, or an x-… type of the server.")
    provider: str = Field("", description="Whose proofs count; anybody's if left out.")
    min_assurance: Literal["", "low", "medium", "high"] = ""
    freshness_seconds: int = Field(300, ge=1, description="How old a proof may be.")


Text = Annotated[
    str, Field(description="What is to be approved, whole and exact: a mail, a command, a text, a diff.")
]
Parts = Annotated[
    dict[str, Any],
    Field(description='Or its named parts instead of text, such as {"to": …, "subject": …, "body": …}.'),
]
Options = Annotated[list[Option], Field(min_length=1, max_length=1000, description="What to choose from.")]
Least = Annotated[int, Field(ge=0, le=1000, description="Choose at least so many.")]
Most = Annotated[int, Field(ge=1, le=1000, description="Choose at most so many.")]
Recommended = Annotated[list[str], Field(description="The ids you recommend; nothing is preselected.")]
Fields = Annotated[
    list[FormField], Field(max_length=200, description="The form; without fields there is one box for text.")
]
Steps = Annotated[
    list[FormStep],
    Field(max_length=20, description="Or a long form in several pages, instead of fields."),
]
Items = Annotated[
    list[Item], Field(max_length=1000, description="What it is done to; each is ticked by the person.")
]
AllowPartial = Annotated[bool, Field(description="Whether some items may be confirmed without the others.")]
Irreversible = Annotated[bool, Field(description="Say true if it cannot be undone.")]
Warning_ = Annotated[str, Field(max_length=2000, description="What to mind before confirming.")]
ConfirmWord = Annotated[
    str, Field(max_length=100, description="A word that the person must type; for what would be very bad.")
]
ErrorText = Annotated[str, Field(min_length=1, description="What went wrong, in words.")]
Log = Annotated[str, Field(description="The lines of output that tell more.")]
Params = Annotated[dict[str, Any], Field(description="What a retry may change, by name.")]
Suggestions = Annotated[list[str], Field(max_length=20, description="What you would suggest to do.")]
Verification = Annotated[
    Proof | None, Field(description="Ask for proof of a person; only if you were told which one counts.")
]
