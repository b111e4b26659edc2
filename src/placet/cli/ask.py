"""`placet ask`: a question to a person in one line, through a Placet server."""

import functools
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click
import httpx
import msgspec

from placet.agent import PendingCase, read_case
from placet.agent.responses import credentials_of
from placet.cli import ask_drafts as drafts
from placet.cli.command_group import CommandGroup
from placet.cli.following import How, Waiting, follow, run, waiting_options
from placet.cli.request import DEFAULT_SERVER, Headers, build_request, send_whole
from placet.cli.telling import can_be_heard
from placet.errors import PlacetError, SettingsError, Unreachable
from placet.protocol.addresses import is_secure_or_loopback

ANSWERS = {
    "approval": ("approve", "reject"),
    "confirmation": ("confirm", "cancel"),
    "escalation": ("retry", "skip", "abort"),
}
Context = dict[str, Any]


class AskRefused(PlacetError):
    """The server does not take this question; `code` and `details` are its own."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(str(body.get("message") or f"The server answered HTTP {status}."))
        self.code = str(body.get("error") or "http_error")
        self.details = {"http_status": status, **({"path": body["path"]} if "path" in body else {})}


@click.group(cls=CommandGroup)
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


def question(kind: str) -> Callable[[Callable[..., Context]], click.Command]:
    """A subcommand that asks: the function gives the context of its kind, all the rest is alike."""

    def decorate(context_of: Callable[..., Context]) -> click.Command:
        @functools.wraps(context_of)
        def command(
            how: How,
            server: str,
            key: str | None,
            idempotency_key: str | None,
            inline: bool | None = None,
            **given: Any,
        ) -> None:
            if given["remind_after"] and idempotency_key is not None:
                raise click.UsageError("--remind-after does not go with --idempotency-key: the time goes on.")
            said = drafts.Said(**{name: given.pop(name) for name in drafts.Said.__struct_fields__})
            shown = said.shown(context_of(**given))
            draft = said.draft(kind, shown, now=datetime.now(UTC))
            if actions := _inline(kind, inline, how, shown):
                draft["inline_actions"] = actions
            run(functools.partial(_ask, functools.partial(_call, server, key, idempotency_key, draft)), how)

        return ask.command(kind)(_with_options(command, kind))

    return decorate


def _with_options(command: Callable[..., None], kind: str) -> Callable[..., None]:
    """The options of this kind first, then those of all."""
    own = list(getattr(command, "__click_params__", ()))
    command.__click_params__ = []  # type: ignore[attr-defined]
    decorated = waiting_options()(command)
    for option in (*reversed(_COMMON), *((_INLINE,) if kind in ANSWERS else ())):
        decorated = option(decorated)
    decorated.__click_params__ += own  # type: ignore[attr-defined]
    return click.argument("prompt")(decorated)


async def _ask(call_for: Callable[[], httpx.Request], waiting: Waiting) -> None:
    call = call_for()
    try:
        response, content = await send_whole(call)
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
    return build_request("POST", f"{server.rstrip('/')}/v1/cases", _encoded(draft), headers)


def _encoded(draft: Context) -> bytes:
    try:
        return msgspec.json.encode(draft)
    except UnicodeEncodeError:
        raise click.BadParameter("write it in UTF-8.", param_hint="PROMPT and options") from None


def _inline(kind: str, wanted: bool | None, how: How, context: Context) -> list[str]:
    """The actions that buttons may take; a word to be typed cannot be pressed."""
    if kind not in ANSWERS or wanted is False or (wanted is None and not _is_heard(how)):
        return []
    answers = ANSWERS[kind]
    return [one for one in answers if one != "confirm" or "confirm_word" not in context]


def _is_heard(how: How) -> bool:
    return any(can_be_heard(via, os.environ) for via in how.vias)


def _object(content: bytes) -> Context:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


# The five kinds


@question("approval")
@click.option("--artifact", metavar="TEXT|JSON|@FILE", help="What is to be approved: text, JSON, or a file.")
def approval(artifact: str | None) -> Context:
    """Ask whether something may happen: approve, edit or reject."""
    return {"artifact": drafts.text_or_json(artifact, "--artifact")} if artifact is not None else {}


@question("selection")
@click.option(
    "--option", "options", multiple=True, required=True, metavar="ID=TITLE", help="A choice; repeatable."
)
@click.option("--min", "least", type=click.IntRange(min=0), help="Choose at least so many; default: one.")
@click.option("--max", "most", type=click.IntRange(min=1), help="Choose at most so many; default: one.")
@click.option(
    "--recommend", "recommended", multiple=True, metavar="ID", help="A choice to recommend; repeatable."
)
def selection(
    options: tuple[str, ...], least: int | None, most: int | None, recommended: tuple[str, ...]
) -> Context:
    """Ask a person to choose one or several options."""
    limits = {"min_selections": least, "max_selections": most or max(1, least or 0)}
    return {
        "options": drafts.listed(options, "title", "--option"),
        **{name: limit for name, limit in limits.items() if limit is not None},
        **({"recommended": list(recommended)} if recommended else {}),
    }


@question("input")
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="KEY:TYPE[=A,B][:LABEL]",
    help="A question of the form; repeatable. KEY? is optional; =A,B are the options of a select.",
)
@click.option("--form", metavar="JSON|@FILE", help="A whole form, instead of --field.")
def input_(fields: tuple[str, ...], form: str | None) -> Context:
    """Ask a person for information, as a form."""
    if bool(fields) == (form is not None):
        raise click.UsageError("Name the questions with --field, or a whole form with --form.")
    if form is not None:
        return {"form": drafts.json_object(form, "--form")}
    return {"form": {"fields": [drafts.field(one) for one in fields]}}


@question("confirmation")
@click.option(
    "--item", "items", multiple=True, metavar="ID=TITLE", help="What is to be confirmed; repeatable."
)
@click.option("--allow-partial", is_flag=True, help="Some of the items may be confirmed without the others.")
@click.option("--irreversible", is_flag=True, help="Say that it cannot be undone.")
@click.option("--warning", metavar="TEXT", help="What to mind before confirming.")
@click.option("--confirm-word", metavar="WORD", help="A word that must be typed to confirm.")
def confirmation(
    items: tuple[str, ...],
    allow_partial: bool,
    irreversible: bool,
    warning: str | None,
    confirm_word: str | None,
) -> Context:
    """Ask for the last word before something is done: confirm or cancel."""
    said: Context = {
        "items": drafts.listed(items, "label", "--item") or None,
        "allow_partial": allow_partial or None,
        "irreversible": irreversible or None,
        "warning": warning,
        "confirm_word": confirm_word,
    }
    return {name: value for name, value in said.items() if value is not None}


@question("escalation")
@click.option("--error", metavar="TEXT|JSON|@FILE", help="What went wrong.")
@click.option("--log", metavar="TEXT|@FILE", help="The lines that tell more.")
@click.option(
    "--param", "params", multiple=True, metavar="NAME=VALUE", help="What a retry may change; repeatable."
)
def escalation(error: str | None, log: str | None, params: tuple[str, ...]) -> Context:
    """Ask how to go on after a failure: retry, skip or abort."""
    said: Context = {
        "error": drafts.text_or_json(error, "--error") if error is not None else None,
        "log": drafts.text(log, "--log") if log is not None else None,
        "params": drafts.values(params, "--param") or None,
    }
    return {name: value for name, value in said.items() if value is not None}
