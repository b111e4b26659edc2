"""The declaration of approvals: a reviewer decides whether something may go out."""

from typing import Any

from placet.reviews.approval.example import EXAMPLE
from placet.reviews.declaration import ActionDeclaration, CommandDeclaration, CommandOption, TypeDeclaration
from placet.text.wording import phrase

APPROVE = ActionDeclaration(
    name="approve",
    label=phrase("Approve"),
    answered=phrase("Approved"),
    afterwards=phrase("It goes ahead exactly as it was shown."),
    guidance="Approved exactly as it was shown. Do that and nothing more.",
    is_inline=True,
    tone="positive",
)
EDIT = ActionDeclaration(
    name="edit",
    label=phrase("Request changes"),
    answered=phrase("Changes requested"),
    afterwards=phrase(
        "The changes go back to whoever made it. A new version comes to you as a new question."
    ),
    guidance="Not approved yet. Make the changes in data, then ask again with this as previous_case_id.",
    is_against=True,
)
REJECT = ActionDeclaration(
    name="reject",
    label=phrase("Reject"),
    answered=phrase("Rejected"),
    afterwards=phrase("It does not go ahead."),
    guidance="The person said no. Do not do it, and do not ask the same again; data may say why.",
    is_against=True,
    is_inline=True,
    tone="destructive",
)


def _build_context(artifact: Any = None) -> dict[str, Any]:
    return {"artifact": artifact} if artifact is not None else {}


APPROVAL = TypeDeclaration(
    name="approval",
    type="approval",
    package="placet.reviews.approval",
    title=phrase("Approval"),
    question=phrase("{service} asks for your approval"),
    if_answered=(phrase("If you approve"), phrase("It goes ahead exactly as it is shown here.")),
    actions=(APPROVE, EDIT, REJECT),  # ruling 8: changes need the page
    template="approval/page.html",
    example=EXAMPLE,
    command=CommandDeclaration(
        help="Ask whether something may happen: approve, edit or reject.",
        options=(
            CommandOption(
                flag="--artifact",
                argument="artifact",
                metavar="TEXT|JSON|@FILE",
                help="What is to be approved: text, JSON, or a file.",
                value="text_or_json",
            ),
        ),
        build_context=_build_context,
    ),
)
