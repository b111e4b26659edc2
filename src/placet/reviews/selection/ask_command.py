"""The command that asks for a selection: `placet ask selection`."""

from collections.abc import Sequence
from typing import Any

from placet.reviews.declaration import CommandDeclaration, CommandOption


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


ASK_COMMAND = CommandDeclaration(
    help="Ask a person to choose one or several options.",
    options=(
        CommandOption(
            flag="--option",
            argument="options",
            metavar="ID=TITLE",
            help="A choice. Repeatable.",
            value="entries",
            multiple=True,
            required=True,
        ),
        CommandOption(
            flag="--min",
            argument="least",
            help="Minimum number of choices. Default: 1.",
            value="integer",
            minimum=0,
        ),
        CommandOption(
            flag="--max",
            argument="most",
            help="Maximum number of choices. Default: 1.",
            value="integer",
            minimum=1,
        ),
        CommandOption(
            flag="--recommend",
            argument="recommended",
            metavar="ID",
            help="Id of a choice to recommend. Repeatable.",
            multiple=True,
        ),
    ),
    build_context=_build_context,
)
