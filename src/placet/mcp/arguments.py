"""The arguments of the MCP tools, each with its description for the model."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_WAIT_S = 300
DEFAULT_WAIT_S = 20

# The SDK parses JSON inside strings for every type except plain `str`. So texts are `str`, and "" means none.
PromptArgument = Annotated[
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
TimeoutArgument = Annotated[
    str,
    Field(
        max_length=50,
        description="How long the person has, such as 30m, 4h or 2d; the server's default is usually 24h.",
    ),
]
DefaultActionArgument = Annotated[
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
        description="When to remind a person who has not started, counted from now, such as 1h or 1d; before"
        " the timeout. With a messenger, the link is sent again.",
    ),
]
WaitSeconds = Annotated[
    float,
    Field(
        ge=0,
        le=MAX_WAIT_S,
        description="How long this call waits for the decision; afterwards the question stays open.",
    ),
]
CaseIdArgument = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^[A-Za-z0-9_.~-]*[A-Za-z0-9_~-]$",
        description="The case_id of the question.",
    ),
]
ShowLink = Annotated[
    bool, Field(description="Show the person the link again first, for example after they closed it.")
]
Reason = Annotated[str, Field(max_length=2000, description="Why, in a sentence that the person will see.")]


class Proof(BaseModel):
    """The proof of a person that the server's verifier must accept before an answer counts."""

    model_config = ConfigDict(extra="forbid")

    required_for: list[Literal["inline_submit", "browser_submit"]] = Field(
        ["inline_submit"],
        min_length=1,
        description="inline_submit: buttons in messengers, which then are not offered, so that the person"
        " answers by the link. browser_submit: the page, if the server has a verifier for pages.",
    )
    proof_type: str = Field("proof_of_human", description="proof_of_human, or an x-… type of the server.")
    provider: str = Field("", description="The accepted provider of proofs; any if left out.")
    min_assurance: Literal["", "low", "medium", "high"] = ""
    freshness_seconds: int = Field(300, ge=1, description="The maximum age of a proof.")


Verification = Annotated[
    Proof | None,
    Field(description="Require proof of a person; only if your instructions say which proof counts."),
]
