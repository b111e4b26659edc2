"""The declaration of inputs: a reviewer fills in a form with information that only they have."""

from placet.reviews.declaration import ActionDeclaration, TypeDeclaration
from placet.reviews.input.ask_command import ASK_COMMAND
from placet.reviews.input.example import EXAMPLE
from placet.text.wording import phrase

INPUT = TypeDeclaration(
    name="input",
    type="input",
    package="placet.reviews.input",
    title=phrase("Input"),
    question=phrase("{service} asks you for information"),
    if_answered=(phrase("When you answer"), phrase("Your answers go to {service}.")),
    actions=(
        ActionDeclaration(
            name="submit",
            label=phrase("Send my answers"),
            messenger_label="Answer",
            answered=phrase("Answered"),
            afterwards=phrase("The answers are used from here on."),
            guidance="Use the answers in data.",
            icon="send",
            is_affirmative=True,
        ),
    ),
    link_label="Open and answer",
    template="input/page.html",
    styles=("60-wizard.css",),
    scripts={"[data-step]": "form.js"},
    example=EXAMPLE,
    command=ASK_COMMAND,
)

DECLARATION = INPUT
