"""The command that asks for an escalation: `placet ask escalation`."""

from typing import Any

from placet.reviews.declaration import CommandDeclaration, CommandOption


def _build_context(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value not in (None, {})}


ASK_COMMAND = CommandDeclaration(
    help="Ask how to continue after a failure: retry, skip or abort.",
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
            help="Log lines to show.",
            value="text_or_file",
        ),
        CommandOption(
            flag="--param",
            argument="params",
            metavar="NAME=VALUE",
            help="A parameter that a retry may change. Repeatable.",
            value="values",
            multiple=True,
        ),
    ),
    build_context=_build_context,
)
