"""The command that asks for a rating: `placet ask x-rating`."""

from typing import Any

from placet.reviews.declaration import CommandDeclaration, CommandOption


def _build_context(subject: str) -> dict[str, Any]:
    return {"subject": subject}


ASK_COMMAND = CommandDeclaration(
    help="Ask a person for a rating.",
    options=(
        CommandOption(
            flag="--subject", argument="subject", metavar="TEXT", help="What is rated.", required=True
        ),
    ),
    build_context=_build_context,
)
