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
from placet.agent.responses import select_credentials
from placet.cli import ask_value_parsing
from placet.cli.ask_value_parsing import QuestionArguments
from placet.cli.case_waiting import CaseWait, WaitOptions, follow, run, wait_options
from placet.cli.client_options import key_option, require_key, require_secure, server_option
from placet.cli.command_group import CommandGroup
from placet.cli.notifications import can_receive_answers
from placet.cli.request import Headers, build_request, send_and_read
from placet.errors import ServerRefused, Unreachable
from placet.http.client_operations import OPEN_CASE
from placet.reviews.declaration import CommandOption, TypeDeclaration
from placet.reviews.registry import DECLARATIONS

CaseContext = dict[str, Any]


class AskGroup(CommandGroup):
    """One command for each review type that declares one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the types."""
        return sorted(name for name, declared in DECLARATIONS.items() if declared.is_askable)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a type."""
        declared = DECLARATIONS.get(cmd_name)
        return build_command(declared) if declared is not None and declared.command is not None else None


@click.group(cls=AskGroup)
def ask() -> None:
    """Ask a person through a Placet server, wait for the answer, and print it."""


_COMMON = (
    server_option,
    key_option,
    click.option("--message", metavar="TEXT", help="Summary to send with the link. Default: the prompt."),
    click.option("--context", metavar="JSON|@FILE", help="What the review page shows, as a JSON object."),
    click.option("--fact", "facts", multiple=True, metavar="NAME=VALUE", help="A fact to show. Repeatable."),
    click.option("--timeout", metavar="DURATION", help="How long the case stays open, such as 30m or 24h."),
    click.option(
        "--default-action",
        type=click.Choice(["skip", "reject", "abort"]),
        help="What you will do if there is no answer in time.",
    ),
    click.option(
        "--remind-after",
        multiple=True,
        metavar="DURATION",
        help="Remind the person after this time if they have not started. Repeatable.",
    ),
    click.option(
        "--notify", multiple=True, metavar="NAME", help="A recipient whom the server notifies. Repeatable."
    ),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="TEXT",
        help="A word by which the server chooses recipients. Repeatable.",
    ),
    click.option("--service", metavar="NAME", help="Name of the service, as shown to the person."),
    click.option("--agent", metavar="NAME", help="Name of the agent, as shown to the person."),
    click.option("--previous", metavar="CASE_ID", help="The case that this one continues."),
    click.option(
        "--idempotency-key",
        metavar="TEXT",
        help="A second command with the same key creates no second case.",
    ),
)
_INLINE = click.option(
    "--inline/--no-inline",
    default=None,
    help="Whether messenger buttons may answer. Default: if this command can receive them.",
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
            raise click.UsageError(
                "--remind-after cannot be used with --idempotency-key: each call sets another time."
            )
        names = QuestionArguments.__struct_fields__
        question = QuestionArguments(**{name: given.pop(name) for name in names})
        context = question.build_context(_build_context(declared, given))
        draft = question.build_draft(declared.type, context, now=datetime.now(UTC))
        if actions := _list_inline_actions(declared, inline, how, context):
            draft["inline_actions"] = actions
        run(functools.partial(_ask, functools.partial(_call, server, key, idempotency_key, draft)), how)

    decorated: Callable[..., None] = wait_options()(run_command)
    for option in (*reversed(_COMMON), *((_INLINE,) if declared.inline_actions else ())):
        decorated = option(decorated)
    for each in reversed(declared.command.options if declared.command else ()):
        decorated = _click_option(each)(decorated)
    return click.command(declared.name, help=declared.command.help if declared.command else None)(
        click.argument("prompt")(decorated)
    )


def _click_option(option: CommandOption) -> Callable[[Callable[..., None]], Callable[..., None]]:
    if option.value == "flag":
        return click.option(option.flag, option.argument, is_flag=True, help=option.help)
    param_type = click.IntRange(min=option.minimum) if option.value == "integer" else None
    return click.option(
        option.flag,
        option.argument,
        type=param_type,
        multiple=option.multiple,
        required=option.required,
        metavar=option.metavar,
        help=option.help,
    )


def _build_context(declared: TypeDeclaration, given: dict[str, Any]) -> CaseContext:
    if declared.command is None:
        return {}
    values = {one.argument: _read_value(one, given[one.argument]) for one in declared.command.options}
    try:
        return declared.command.build_context(**values)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _read_value(option: CommandOption, value: Any) -> Any:
    if option.value == "entries":
        return ask_value_parsing.parse_entries(value, option.title_key, option.flag)
    if option.value == "values":
        return ask_value_parsing.parse_values(value, option.flag)
    if value is None or option.value not in _READERS:
        return value
    reader = _READERS[option.value]
    return [reader(one, option.flag) for one in value] if option.multiple else reader(value, option.flag)


_READERS: Mapping[str, Callable[[str, str], Any]] = {
    "text_or_file": ask_value_parsing.read_text,
    "text_or_json": ask_value_parsing.read_text_or_json,
    "json_object": ask_value_parsing.read_json_object,
    "form_field": lambda value, flag: ask_value_parsing.parse_field(value),
}


async def _ask(call_for: Callable[[], httpx.Request], waiting: CaseWait) -> None:
    call = call_for()
    try:
        response, content = await send_and_read(call)
    except Unreachable as error:
        error.add_note("Start a server with `placet serve`, or set its URL with --server or PLACET_SERVER.")
        raise
    case = read_case(response.status_code, content, url=str(call.url), now=datetime.now(UTC))
    if case is None:
        raise _refusal_from_reply(response.status_code, _parse_object(content))
    await follow(PendingCase(case=case, credentials=select_credentials(call)), waiting)


def _refusal_from_reply(status: int, body: CaseContext) -> ServerRefused:
    known = {name: value for name, value in body.items() if name in ("error", "message", "path")}
    return ServerRefused.of(status, {"error": "http_error", "http_status": status, **known})


def _call(server: str, key: str | None, idempotency_key: str | None, draft: CaseContext) -> httpx.Request:
    headers: Headers = [
        (b"Content-Type", b"application/json"),
        (b"Authorization", b"Bearer " + os.fsencode(require_key(key))),
    ]
    if idempotency_key is not None:
        headers.append((b"Idempotency-Key", os.fsencode(idempotency_key)))
    return build_request(OPEN_CASE.method, OPEN_CASE.url(require_secure(server)), _encode(draft), headers)


def _encode(draft: CaseContext) -> bytes:
    try:
        return msgspec.json.encode(draft)
    except UnicodeEncodeError:
        raise click.BadParameter("write it in UTF-8.", param_hint="PROMPT and options") from None


def _list_inline_actions(
    declared: TypeDeclaration, wanted: bool | None, how: WaitOptions, context: CaseContext
) -> list[str]:
    """Return the actions that buttons may take."""
    if wanted is False or (wanted is None and not _can_receive_presses(how)):
        return []
    return list(declared.pressable_actions(context))


def _can_receive_presses(how: WaitOptions) -> bool:
    return any(can_receive_answers(via, os.environ) for via in how.vias)


def _parse_object(content: bytes) -> CaseContext:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
