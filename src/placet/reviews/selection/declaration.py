"""What selections declare: a person chooses one or more of several options."""

from collections.abc import Sequence
from typing import Any

from placet.reviews.declaration import ActionDeclaration, CommandDeclaration, CommandOption, TypeDeclaration
from placet.reviews.selection.example import EXAMPLE
from placet.text.wording import phrase


def _build_context(
    options: list[dict[str, str]],
    least: int | None = None,
    most: int | None = None,
    recommended: Sequence[str] = (),
) -> dict[str, Any]:
    limits = {"min_selections": least, "max_selections": most or max(1, least or 0)}
    return {
        "options": options,
        **{name: limit for name, limit in limits.items() if limit is not None},
        **({"recommended": list(recommended)} if recommended else {}),
    }


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
        ),
    ),
    link_label="Open and choose",
    template="selection/page.html",
    example=EXAMPLE,
    is_first_sample=True,
    command=CommandDeclaration(
        help="Ask a person to choose one or several options.",
        options=(
            CommandOption(
                flag="--option",
                argument="options",
                metavar="ID=TITLE",
                help="A choice; repeatable.",
                value="entries",
                multiple=True,
                required=True,
            ),
            CommandOption(
                flag="--min",
                argument="least",
                help="Choose at least so many; default: one.",
                value="integer",
                minimum=0,
            ),
            CommandOption(
                flag="--max",
                argument="most",
                help="Choose at most so many; default: one.",
                value="integer",
                minimum=1,
            ),
            CommandOption(
                flag="--recommend",
                argument="recommended",
                metavar="ID",
                help="A choice to recommend; repeatable.",
                multiple=True,
            ),
        ),
        build_context=_build_context,
    ),
)
