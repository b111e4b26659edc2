"""What an assistant may say in a question: the arguments of the tools, and the drafts they become."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from assent.errors import ValidationFailed

LONGEST_WAIT_S = 300
DEFAULT_WAIT_S = 20

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


def draft(
    kind: str,
    prompt: str,
    own: dict[str, Any],
    *,
    facts: dict[str, Any],
    timeout: str,
    default_action: str,
    previous_case_id: str,
    agent: str | None,
) -> dict[str, Any]:
    """The body that opens a case; what was left out is the server's to choose."""
    said: dict[str, Any] = {
        "type": kind,
        "prompt": prompt,
        "context": {**facts, **_given(own)},
        "timeout": timeout,
        "default_action": default_action,
        "previous_case_id": previous_case_id,
        "agent": agent,
    }
    return _given(said)


def approval(text: str, parts: dict[str, Any]) -> dict[str, Any]:
    """What an approval shows; raises ValidationFailed for a thing that is both text and parts."""
    if text and parts:
        raise ValidationFailed("Give what is to be approved as text or as parts, not as both.")
    return {"artifact": text or parts}


def selection(options: list[Option], least: int, most: int, recommended: list[str]) -> dict[str, Any]:
    """What a selection shows."""
    return {
        "options": [_plain(one) for one in options],
        "min_selections": least,
        "max_selections": max(least, most),
        "recommended": recommended,
    }


def form(fields: list[FormField]) -> dict[str, Any]:
    """What an input shows."""
    return {"form": {"fields": [_plain(one) for one in fields]}} if fields else {}


def items(listed: list[Item]) -> list[dict[str, Any]]:
    """What a confirmation is about."""
    return [_plain(one) for one in listed]


def _plain(model: BaseModel) -> dict[str, Any]:
    return _given(model.model_dump(mode="json"))


def _given(said: dict[str, Any]) -> dict[str, Any]:
    """Without what was left out; a zero is something said, and so is False among a form's defaults."""
    return {name: value for name, value in said.items() if value not in ("", None, [], {})}
