"""What escalations declare: something failed, and a person says how to go on."""

from typing import Any

from placet.reviews.declaration import ActionDeclaration, CommandDeclaration, CommandOption, TypeDeclaration
from placet.reviews.escalation.example import EXAMPLE
from placet.text.wording import phrase


def _build_context(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value not in (None, {})}


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
            is_inline=True,
        ),
        ActionDeclaration(
            name="skip",
            label=phrase("Skip this step"),
            answered=phrase("Step left out"),
            afterwards=phrase("The step is left out, and the rest goes on."),
            guidance="Leave this step out and go on.",
            is_inline=True,
        ),
        ActionDeclaration(
            name="abort",
            label=phrase("Stop"),
            answered=phrase("Stopped"),
            afterwards=phrase("The work stops here."),
            guidance="Stop the task, and do not retry.",
            is_against=True,
            is_inline=True,
            tone="destructive",
        ),
    ),
    template="escalation/page.html",
    example=EXAMPLE,
    command=CommandDeclaration(
        help="Ask how to go on after a failure: retry, skip or abort.",
        options=(
            CommandOption(
                flag="--error",
                argument="error",
                metavar="TEXT|JSON|@FILE",
                help="What went wrong.",
                value="text_or_json",
            ),
            CommandOption(
                flag="--log",
                argument="log",
                metavar="TEXT|@FILE",
                help="The lines that tell more.",
                value="text_or_file",
            ),
            CommandOption(
                flag="--param",
                argument="params",
                metavar="NAME=VALUE",
                help="What a retry may change; repeatable.",
                value="values",
                multiple=True,
            ),
        ),
        build_context=_build_context,
    ),
)
