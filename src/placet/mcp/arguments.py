"""What an assistant may say in a question: the arguments of the tools, each with the words for the model."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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


Verification = Annotated[
    Proof | None, Field(description="Ask for proof of a person; only if you were told which one counts.")
]
