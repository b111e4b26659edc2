"""The declaration of tool calls: an approval whose context holds the calls of one turn of an agent."""

from placet.reviews.approval.declaration import APPROVAL, APPROVE, EDIT, REJECT
from placet.reviews.declaration import OutcomeDeclaration, TypeDeclaration
from placet.reviews.tool_calls.example import EXAMPLE
from placet.text.wording import message, phrase

TOOL_CALLS = TypeDeclaration(
    name="tool_calls",
    type=APPROVAL.type,
    package="placet.reviews.tool_calls",
    title=phrase("Tool calls"),
    actions=(APPROVE, EDIT, REJECT),
    outcomes=(
        OutcomeDeclaration(
            name="approve_calls",
            answered=phrase("Approved"),
            afterwards=phrase("The agent runs these calls exactly as they were shown."),
        ),
        OutcomeDeclaration(
            name="reject_calls",
            answered=phrase("Rejected"),
            afterwards=phrase("The agent runs none of these calls."),
        ),
        OutcomeDeclaration(
            name="decide_calls",
            answered=phrase("Decided call by call"),
            afterwards=phrase("The agent does with each call what was decided, and nothing else."),
        ),
    ),
    field_labels={"decisions": message("Decisions")},
    template="tool_calls/page.html",
    decided_template="tool_calls/decided.html",
    styles=("56-tool-calls.css",),
    scripts={"[data-calls]": "tool-calls.js"},
    example=EXAMPLE,
    entry_point="hook",
    requires_answer=True,
)

DECLARATION = TOOL_CALLS
