"""The declaration of approvals: a reviewer decides whether something may go out."""

from placet.reviews.approval.ask_command import ASK_COMMAND
from placet.reviews.approval.example import EXAMPLE
from placet.reviews.declaration import ActionDeclaration, TypeDeclaration
from placet.text.wording import message, phrase

APPROVE = ActionDeclaration(
    name="approve",
    label=phrase("Approve"),
    answered=phrase("Approved"),
    afterwards=phrase("It goes ahead exactly as it was shown."),
    guidance="Approved exactly as it was shown. Do that and nothing more.",
    icon="check",
    is_affirmative=True,
    is_inline=True,
    tone="positive",
)
EDIT = ActionDeclaration(
    name="edit",
    label=phrase("Request changes"),
    answered=phrase("Changes requested"),
    afterwards=phrase("The changes go back to the author. A new version comes to you as a new question."),
    guidance="Not approved yet. Make the changes in data, then ask again with this as previous_case_id.",
    icon="pencil",
)
REJECT = ActionDeclaration(
    name="reject",
    label=phrase("Reject"),
    answered=phrase("Rejected"),
    afterwards=phrase("It does not go ahead."),
    guidance="The person said no. Do not do it, and do not ask the same again; data may say why.",
    icon="cross",
    is_inline=True,
    tone="destructive",
)

APPROVAL = TypeDeclaration(
    name="approval",
    type="approval",
    package="placet.reviews.approval",
    title=phrase("Approval"),
    question=phrase("{service} asks for your approval"),
    if_answered=(phrase("If you approve"), phrase("It goes ahead exactly as it is shown here.")),
    actions=(APPROVE, EDIT, REJECT),  # ruling 8: changes need the page
    field_labels={"feedback": message("Feedback"), "edits": message("Your changes")},
    template="approval/page.html",
    decided_template="approval/decided.html",
    example=EXAMPLE,
    command=ASK_COMMAND,
)

DECLARATION = APPROVAL
