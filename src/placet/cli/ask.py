"""`placet ask`: ask a person through a Placet server."""

import functools
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import click
import httpx
import msgspec

from placet.agent import PendingCase, read_case
from placet.agent.responses import credentials_of
from placet.cli import ask_arguments
from placet.cli.ask_arguments import QuestionArguments
from placet.cli.case_waiting import CaseWait, WaitOptions, follow, run, wait_options
from placet.cli.command_group import CommandGroup
from placet.cli.notifications import can_receive_answers
from placet.cli.request import DEFAULT_SERVER, Headers, build_request, send_and_read
from placet.errors import PlacetError, SettingsError, Unreachable
from placet.protocol.addresses import is_secure_or_loopback
from placet.reviews.declaration import CommandOption, TypeDeclaration
from placet.reviews.registry import DECLARATIONS

Context = dict[str, Any]


class AskRefused(PlacetError):
    """The server refused the question. `code` and `details` are from its response."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(str(body.get("message") or f"The server answered HTTP {status}."))
        self.code = str(body.get("error") or "http_error")
        self.details = {"http_status": status, **({"path": body["path"]} if "path" in body else {})}


class AskGroup(CommandGroup):
    """One command for each review type that declares one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the types."""
        return sorted(name for name, declared in DECLARATIONS.items() if declared.is_askable)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a type."""
        declared = DECLARATIONS.get(cmd_name)
        return build_command(declared) if declared is not None and declared.command is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of these arguments. The error for an unknown one suggests similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            names = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None


@click.group(cls=AskGroup)
def ask() -> None:
    """Ask a person through a Placet server, wait, and print what they decided."""


_COMMON = (
    click.option(
        "--server",
        envvar="PLACET_SERVER",
        default=DEFAULT_SERVER,
        show_default=True,
        metavar="URL",
        help="The Placet server.",
    ),
    click.option(
        "--key", envvar="PLACET_KEY", metavar="API_KEY", help="A key of that server; better in PLACET_KEY."
    ),
    click.option(
        "--message", metavar="TEXT", help="A summary to send along with the link; default: the prompt."
    ),
    click.option(
        "--context", metavar="JSON|@FILE", help="Everything the page should show, as a JSON object."
    ),
    click.option(
        "--fact", "facts", multiple=True, metavar="NAME=VALUE", help="One fact to show; repeatable."
    ),
    click.option("--timeout", metavar="DURATION", help="How long the case stays open, such as 30m or 24h."),
    click.option(
        "--default-action",
        type=click.Choice(["skip", "reject", "abort"]),
        help="What you will do when nobody answers in time.",
    ),
    click.option(
        "--remind-after",
        multiple=True,
        metavar="DURATION",
        help="Tell a person who has not begun once more, so long from now; repeatable.",
    ),
    click.option("--service", metavar="NAME", help="Who asks, as the person sees it."),
    click.option("--agent", metavar="NAME", help="Which agent waits, as the person sees it."),
    click.option("--previous", metavar="CASE_ID", help="The case that this one continues."),
    click.option(
        "--idempotency-key",
        metavar="TEXT",
        help="The same again opens no second case; default: every call asks.",
    ),
)
_INLINE = click.option(
    "--inline/--no-inline",
    default=None,
    help="Whether a messenger's buttons may answer; default: where presses can be heard.",
)


def build_command(declared: TypeDeclaration) -> click.Command:
    """Return the command for questions of this type: its own options first, then the shared ones."""

    def run_command(
        how: WaitOptions,
        server: str,
        key: str | None,
        idempotency_key: str | None,
        inline: bool | None = None,
        **given: Any,
    ) -> None:
        if given["remind_after"] and idempotency_key is not None:
            raise click.UsageError("--remind-after does not go with --idempotency-key: the time goes on.")
        names = QuestionArguments.__struct_fields__
        question = QuestionArguments(**{name: given.pop(name) for name in names})
        context = question.build_context(_build_context(declared, given))
        draft = question.build_draft(declared.type, context, now=datetime.now(UTC))
        if actions := _list_inline_actions(declared, inline, how, context):
            draft["inline_actions"] = actions
        run(functools.partial(_ask, functools.partial(_call, server, key, idempotency_key, draft)), how)

    run_command.__doc__ = declared.command.help if declared.command else None
    decorated: Callable[..., None] = wait_options()(run_command)
    for option in (*reversed(_COMMON), *((_INLINE,) if declared.inline_actions else ())):
        decorated = option(decorated)
    for each in reversed(declared.command.options if declared.command else ()):
        decorated = _click_option(each)(decorated)
    return click.command(declared.name)(click.argument("prompt")(decorated))


def _click_option(option: CommandOption) -> Callable[[Callable[..., None]], Callable[..., None]]:
    if option.value == "flag":
        return click.option(option.flag, option.argument, is_flag=True, help=option.help)
    kind = click.IntRange(min=option.minimum) if option.value == "integer" else None
    return click.option(
        option.flag,
        option.argument,
        type=kind,
        multiple=option.multiple,
        required=option.required,
        metavar=option.metavar,
        help=option.help,
    )


def _build_context(declared: TypeDeclaration, given: dict[str, Any]) -> Context:
    if declared.command is None:
        return {}
    values = {one.argument: _read_value(one, given[one.argument]) for one in declared.command.options}
    try:
        return declared.command.build_context(**values)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _read_value(option: CommandOption, value: Any) -> Any:
    if option.value == "entries":
        return ask_arguments.parse_entries(value, option.title_key, option.flag)
    if option.value == "values":
        return ask_arguments.parse_values(value, option.flag)
    if value is None or option.value not in _READERS:
        return value
    reader = _READERS[option.value]
    return [reader(one, option.flag) for one in value] if option.multiple else reader(value, option.flag)


_READERS: Mapping[str, Callable[[str, str], Any]] = {
    "text_or_file": ask_arguments.read_text,
    "text_or_json": ask_arguments.read_text_or_json,
    "json_object": ask_arguments.read_json_object,
    "form_field": lambda value, flag: ask_arguments.parse_field(value),
}


async def _ask(call_for: Callable[[], httpx.Request], waiting: CaseWait) -> None:
    call = call_for()
    try:
        response, content = await send_and_read(call)
    except Unreachable as error:
        error.add_note("Start a server with `placet serve`, or name yours with --server or in PLACET_SERVER.")
        raise
    case = read_case(response.status_code, content, url=str(call.url), now=datetime.now(UTC))
    if case is None:
        raise AskRefused(response.status_code, _object(content))
    await follow(PendingCase(case=case, credentials=credentials_of(call)), waiting)


def _call(server: str, key: str | None, idempotency_key: str | None, draft: Context) -> httpx.Request:
    if not is_secure_or_loopback(server):
        raise SettingsError("The server's address must be https://… or on loopback: a key travels with it.")
    if not key:
        raise SettingsError(
            "Name a key of the server in PLACET_KEY or with --key; `placet key create` makes one."
        )
    headers: Headers = [
        (b"Content-Type", b"application/json"),
        (b"Authorization", b"Bearer " + os.fsencode(key)),
    ]
    if idempotency_key is not None:
        headers.append((b"Idempotency-Key", os.fsencode(idempotency_key)))
    return build_request("POST", f"{server.rstrip('/')}/v1/cases", _encode(draft), headers)


def _encode(draft: Context) -> bytes:
    try:
        return msgspec.json.encode(draft)
    except UnicodeEncodeError:
        raise click.BadParameter("write it in UTF-8.", param_hint="PROMPT and options") from None


def _list_inline_actions(
    declared: TypeDeclaration, wanted: bool | None, how: WaitOptions, context: Context
) -> list[str]:
    """Return the actions that buttons may take."""
    if wanted is False or (wanted is None and not _is_heard(how)):
        return []
    return list(declared.pressable_actions(context))


def _is_heard(how: WaitOptions) -> bool:
    return any(can_receive_answers(via, os.environ) for via in how.vias)


def _object(content: bytes) -> Context:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
