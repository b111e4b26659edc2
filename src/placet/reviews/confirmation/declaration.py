"""The declaration of confirmations: the last check before something that may be irreversible."""

from typing import Any

from placet.reviews.confirmation.example import EXAMPLE
from placet.reviews.declaration import ActionDeclaration, CommandDeclaration, CommandOption, TypeDeclaration
from placet.text.wording import phrase


def _build_context(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value not in (None, False, [])}


CONFIRMATION = TypeDeclaration(
    name="confirmation",
    type="confirmation",
    package="placet.reviews.confirmation",
    title=phrase("Confirmation"),
    question=phrase("{service} asks you to confirm"),
    if_answered=(phrase("If you confirm"), phrase("It is done at once.")),
    actions=(
        ActionDeclaration(
            name="confirm",
            label=phrase("Confirm"),
            answered=phrase("Confirmed"),
            afterwards=phrase("It is being done."),
            guidance="Confirmed. If data has confirmed_items, do it for those only.",
            is_inline=True,
            tone="positive",
        ),
        ActionDeclaration(
            name="cancel",
            label=phrase("Do not do it"),
            answered=phrase("Not to be done"),
            afterwards=phrase("It is not done."),
            guidance="The person said no. Do not do it, and do not ask the same again; data may say why.",
            is_against=True,
            is_inline=True,
        ),
    ),
    template="confirmation/page.html",
    example=EXAMPLE,
    requires_answer=True,
    page_word="confirm_word",
    command=CommandDeclaration(
        help="Ask for the last word before something is done: confirm or cancel.",
        options=(
            CommandOption(
                flag="--item",
                argument="items",
                metavar="ID=TITLE",
                help="What is to be confirmed; repeatable.",
                value="entries",
                title_key="label",
                multiple=True,
            ),
            CommandOption(
                flag="--allow-partial",
                argument="allow_partial",
                help="Some of the items may be confirmed without the others.",
                value="flag",
            ),
            CommandOption(
                flag="--irreversible",
                argument="irreversible",
                help="Say that it cannot be undone.",
                value="flag",
            ),
            CommandOption(
                flag="--warning",
                argument="warning",
                metavar="TEXT",
                help="What to mind before confirming.",
            ),
            CommandOption(
                flag="--confirm-word",
                argument="confirm_word",
                metavar="WORD",
                help="A word that must be typed to confirm.",
            ),
        ),
        build_context=_build_context,
    ),
)
