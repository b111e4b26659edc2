"""What selections declare: a person chooses one or more of several options."""

from placet.reviews.declaration import ActionDeclaration, TypeDeclaration
from placet.reviews.selection.ask_command import ASK_COMMAND
from placet.reviews.selection.example import EXAMPLE
from placet.reviews.selection.options import OPTION_SPELLINGS
from placet.text.wording import message, phrase

SELECTION = TypeDeclaration(
    name="selection",
    type="selection",
    package="placet.reviews.selection",
    title=phrase("Selection"),
    question=phrase("{service} asks you to choose"),
    if_answered=(phrase("When you choose"), phrase("What you choose is used, and nothing else.")),
    actions=(
        ActionDeclaration(
            name="select",
            label=phrase("Send my choice"),
            messenger_label="Choose",
            answered=phrase("Chosen"),
            afterwards=phrase("What was chosen is used from here on."),
            guidance="Go on with the options in data.selected, and with no others.",
            icon="send",
            is_affirmative=True,
        ),
    ),
    link_label="Open and choose",
    card_lists=OPTION_SPELLINGS,
    field_labels={"selected": message("Your choice")},
    template="selection/page.html",
    example=EXAMPLE,
    is_first_sample=True,
    command=ASK_COMMAND,
)

DECLARATION = SELECTION
