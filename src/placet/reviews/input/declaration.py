"""The declaration of inputs: a reviewer fills in a form with information that only they have."""

from typing import Any

from placet.reviews.declaration import ActionDeclaration, CommandDeclaration, CommandOption, TypeDeclaration
from placet.reviews.input.example import EXAMPLE
from placet.text.wording import phrase


def _build_context(fields: list[dict[str, Any]], form: dict[str, Any] | None = None) -> dict[str, Any]:
    if bool(fields) == (form is not None):
        raise ValueError("Name the questions with --field, or a whole form with --form.")
    return {"form": form if form is not None else {"fields": fields}}


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
        ),
    ),
    link_label="Open and answer",
    template="input/page.html",
    example=EXAMPLE,
    command=CommandDeclaration(
        help="Ask a person for information, as a form.",
        options=(
            CommandOption(
                flag="--field",
                argument="fields",
                metavar="KEY:TYPE[=A,B][:LABEL]",
                help="A question of the form; repeatable. KEY? is optional; "
                "=A,B are the options of a select.",
                value="form_field",
                multiple=True,
            ),
            CommandOption(
                flag="--form",
                argument="form",
                metavar="JSON|@FILE",
                help="A whole form, instead of --field.",
                value="json_object",
            ),
        ),
        build_context=_build_context,
    ),
)
