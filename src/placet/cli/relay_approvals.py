"""`placet relay approval`: list, show and decide held messages."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from placet.cli.client_options import join_options
from placet.cli.command_group import CommandGroup
from placet.cli.database import load_settings
from placet.cli.options import config_option, json_option
from placet.cli.output import print_table
from placet.cli.relay_operations import run_on_server
from placet.cli.results import print_result
from placet.text.characters import escape_hidden_in_json, mark_hidden
from placet.text.truncation import to_single_line, truncate

STATUSES = ("PENDING", "APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN", "ALL")
LABELS = (
    ("leg", "leg"),
    ("source", "detectionSource"),
    ("summary", "summary"),
    ("policy", "policyName"),
    ("match", "matchedContent"),
    ("task", "taskId"),
    ("correlation", "correlationId"),
    ("held at", "createdAt"),
    ("failure", "failure"),
)
MAX_CELL_LENGTH = 60


@click.group(cls=CommandGroup)
def approval() -> None:
    """List, show and decide held messages."""


approval_options = join_options(
    click.option(
        "--server", envvar="PLACET_SERVER", metavar="URL", help="Server URL. Default: from the settings."
    ),
    click.option(
        "--key",
        envvar="PLACET_KEY",
        metavar="API_KEY",
        help="API key of that server. Better: set PLACET_KEY.",
    ),
    click.option("--tenant", metavar="NAME", help="Tenant, for administrators. Default: the key's tenant."),
    config_option,
)


@approval.command("list")
@approval_options
@click.option(
    "--status",
    type=click.Choice(STATUSES),
    default="PENDING",
    show_default=True,
    help="Only messages in this state.",
)
@click.option(
    "--size",
    type=click.IntRange(1, 200),
    default=20,
    show_default=True,
    help="Maximum number of messages to list.",
)
@json_option
def list_approvals(status: str, size: int, as_json: bool, **where: Any) -> None:
    """List held messages, newest first."""

    page = _call(where, "listApprovals", status=status, size=str(size))
    if as_json:
        print_result(page["content"])
        return
    mixed = status == "ALL"
    rows = [
        (
            one["id"],
            datetime.fromisoformat(one["createdAt"]),
            *([one["status"]] if mixed else []),
            *map(_format_cell, _ends(one)),
            _format_cell(one["policyName"] or one["detectionSource"]),
            _format_cell(
                one["agentMessageText"] or " ".join(map(_format_json, one["agentMessageData"] or ()))
            ),
        )
        for one in page["content"]
    ]
    header = ("id", "since", *(["status"] if mixed else []), "from", "to", "why", "message")
    print_table(header, rows, empty="Nothing is pending." if status == "PENDING" else "No approvals found.")
    if not page["last"]:
        click.echo(f"{page['totalElements']} in total. Use --size to list more.", err=True)


@approval.command()
@click.argument("approval_id", metavar="ID")
@approval_options
@json_option
def show(approval_id: str, as_json: bool, **where: Any) -> None:
    """Show a held message, why it is held, and its decision."""
    found = _call(where, "getApproval", id=approval_id)
    if as_json:
        print_result(found)
        return
    sender, receiver = _ends(found)
    lines = [("status", found["status"]), ("from", sender), ("to", receiver)]
    lines += [(label, found[name]) for label, name in LABELS]
    for label, value in lines:
        if value is not None:
            click.echo(
                f"{label:<12} {to_single_line(str(value))}"
            )  # a match of two lines must not look like two facts
    for part in found["agentMessageData"] or ():
        click.echo(f"{'data':<12} {_format_json(part)}")
    if found["resolution"] is not None:
        said = found["resolution"]["message"]
        who = found["resolution"]["resolvedBy"] or "nobody"
        click.echo(f"{'resolved by':<12} " + to_single_line(f"{who}: {said}" if said else who))
        click.echo(f"{'resolved at':<12} {found['resolution']['createdAt']}")
    click.echo()
    click.echo(mark_hidden(found["agentMessageText"]))


@approval.command()
@click.argument("approval_id", metavar="ID")
@approval_options
@click.option("--message", metavar="TEXT", help="The answer, if the agent asked for input; else a reason.")
def approve(approval_id: str, message: str | None, **where: Any) -> None:
    """Approve a held message: it is delivered."""
    _resolve(approval_id, "APPROVED", message, where)


@approval.command()
@click.argument("approval_id", metavar="ID")
@approval_options
@click.option("--message", metavar="TEXT", help="The reason.")
def reject(approval_id: str, message: str | None, **where: Any) -> None:
    """Reject a held message: it is never delivered, and its task is cancelled."""
    _resolve(approval_id, "REJECTED", message, where)


@approval.command()
@click.argument("approval_id", metavar="ID")
@approval_options
def link(approval_id: str, **where: Any) -> None:
    """Print a link to the review page. Anyone with the link can decide."""
    found = _call(where, "linkToApproval", id=approval_id)
    click.echo(found["reviewUrl"])


def _resolve(approval_id: str, action: str, message: str | None, where: dict[str, Any]) -> None:
    body = {"action": action, **({"message": message} if message else {})}
    made = _call(where, "resolveApproval", body, id=approval_id)
    click.echo(f"{made['status'].capitalize()}.", err=True)


def _call(where: dict[str, Any], operation: str, body: Any = None, **arguments: str) -> Any:
    config: Path | None = where["config"]
    server = where["server"] or load_settings(config).settings.public_url
    return asyncio.run(
        run_on_server(
            server, where["key"], where["tenant"], lambda relay: relay.call(operation, body, **arguments)
        )
    )


def _ends(approval: dict[str, Any]) -> tuple[str, str]:
    """Return the sender and the receiver of the held message. Of a response, the agent is the sender."""
    user, agent = approval["sourceUserId"], approval["sinkAgentId"]
    caller = approval["sourceAgentId"] if user is None else f"{user} (user)"
    return (caller, agent) if approval["agentMessageRole"] == "user" else (agent, caller)


def _format_json(part: Any) -> str:
    """Return a data part on one line. The agent receives it like the texts."""
    return escape_hidden_in_json(msgspec.json.encode(part).decode())


def _format_cell(text: str) -> str:
    return truncate(to_single_line(text), MAX_CELL_LENGTH)
