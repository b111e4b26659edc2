"""What escalations declare: something failed, and a person says how to go on."""

from placet.reviews.declaration import ActionDeclaration, TypeDeclaration
from placet.reviews.escalation.ask_command import ASK_COMMAND
from placet.reviews.escalation.example import EXAMPLE
from placet.text.wording import message, phrase

ESCALATION = TypeDeclaration(
    name="escalation",
    type="escalation",
    package="placet.reviews.escalation",
    title=phrase("Escalation"),
    question=phrase("{service} asks you how to go on"),
    if_answered=(
        phrase("When you decide"),
        phrase("It is tried again, left out, or stopped, as you say."),
    ),
    actions=(
        ActionDeclaration(
            name="retry",
            label=phrase("Try again"),
            answered=phrase("To be tried again"),
            afterwards=phrase("It is tried again."),
            guidance="Try again, with data.modified_params where there are any.",
            icon="retry",
            is_affirmative=True,
            is_ambiguous=True,
            is_inline=True,
        ),
        ActionDeclaration(
            name="skip",
            label=phrase("Skip this step"),
            answered=phrase("Step left out"),
            afterwards=phrase("The step is left out, and the rest goes on."),
            guidance="Leave this step out and go on.",
            icon="skip",
            is_affirmative=True,
            is_ambiguous=True,
            is_inline=True,
        ),
        ActionDeclaration(
            name="abort",
            label=phrase("Stop"),
            answered=phrase("Stopped"),
            afterwards=phrase("The work stops here."),
            guidance="Stop the task, and do not retry.",
            icon="stop",
            is_inline=True,
            tone="destructive",
        ),
    ),
    field_labels={"modified_params": message("Changed parameters"), "reason": message("Reason")},
    takes_custom_actions=True,
    template="escalation/page.html",
    scripts={"[data-was]": "changes.js"},
    example=EXAMPLE,
    command=ASK_COMMAND,
)

DECLARATION = ESCALATION
