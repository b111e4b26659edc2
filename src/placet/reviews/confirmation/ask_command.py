"""The command that asks for a confirmation: `placet ask confirmation`."""

from typing import Any

from placet.reviews.declaration import CommandDeclaration, CommandOption


def _build_context(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value not in (None, False, [])}


ASK_COMMAND = CommandDeclaration(
    help="Ask a person to confirm before something is done: confirm or cancel.",
    options=(
        CommandOption(
            flag="--item",
            argument="items",
            metavar="ID=TITLE",
            help="An item to confirm. Repeatable.",
            value="entries",
            title_key="label",
            multiple=True,
        ),
        CommandOption(
            flag="--allow-partial",
            argument="allow_partial",
            help="Allow confirming only some of the items.",
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
            help="A warning to show before the buttons.",
        ),
        CommandOption(
            flag="--confirm-word",
            argument="confirm_word",
            metavar="WORD",
            help="A word that must be typed to confirm.",
        ),
    ),
    build_context=_build_context,
)
