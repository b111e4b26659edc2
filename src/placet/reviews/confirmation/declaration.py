"""The declaration of confirmations: the last check before something that may be irreversible."""

from placet.reviews.confirmation.ask_command import ASK_COMMAND
from placet.reviews.confirmation.example import EXAMPLE
from placet.reviews.declaration import ActionDeclaration, TypeDeclaration
from placet.text.wording import message, phrase

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
            icon="check",
            is_affirmative=True,
            is_inline=True,
            tone="positive",
        ),
        ActionDeclaration(
            name="cancel",
            label=phrase("Do not do it"),
            answered=phrase("Not to be done"),
            afterwards=phrase("It is not done."),
            guidance="The person said no. Do not do it, and do not ask the same again; data may say why.",
            icon="cross",
            is_inline=True,
        ),
    ),
    field_labels={
        "confirmed_items": message("Items to confirm"),
        "confirm_word": message("Typed confirmation"),
    },
    template="confirmation/page.html",
    scripts={"[data-word]": "word.js"},
    example=EXAMPLE,
    requires_answer=True,
    page_word="confirm_word",
    command=ASK_COMMAND,
)

DECLARATION = CONFIRMATION
