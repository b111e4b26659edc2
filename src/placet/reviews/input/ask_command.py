"""The command that asks for an input: `placet ask input`."""

from typing import Any

from placet.reviews.declaration import CommandDeclaration, CommandOption


def _build_context(fields: list[dict[str, Any]], form: dict[str, Any] | None = None) -> dict[str, Any]:
    if bool(fields) == (form is not None):
        raise ValueError("Pass the fields with --field, or a complete form with --form, not both.")
    return {"form": form if form is not None else {"fields": fields}}


ASK_COMMAND = CommandDeclaration(
    help="Ask a person for information, as a form.",
    options=(
        CommandOption(
            flag="--field",
            argument="fields",
            metavar="KEY:TYPE[=A,B][:LABEL]",
            help="A field of the form. Repeatable. KEY? makes it optional; =A,B are the options of a select.",
            value="form_field",
            multiple=True,
        ),
        CommandOption(
            flag="--form",
            argument="form",
            metavar="JSON|@FILE",
            help="A complete form, instead of --field.",
            value="json_object",
        ),
    ),
    build_context=_build_context,
)
