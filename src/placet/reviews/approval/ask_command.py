"""The command that asks for an approval: `placet ask approval`."""

from typing import Any

from placet.reviews.declaration import CommandDeclaration, CommandOption


def _build_context(artifact: Any = None) -> dict[str, Any]:
    return {"artifact": artifact} if artifact is not None else {}


ASK_COMMAND = CommandDeclaration(
    help="Ask whether something may happen: approve, edit or reject.",
    options=(
        CommandOption(
            flag="--artifact",
            argument="artifact",
            metavar="TEXT|JSON|@FILE",
            help="What to approve: text, JSON or a file.",
            value="text_or_json",
        ),
    ),
    build_context=_build_context,
)
