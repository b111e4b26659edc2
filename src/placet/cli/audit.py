"""`placet audit`: list and export the relay's audit events, and follow one call."""

import itertools
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import click

from placet.cli.client_options import join_options
from placet.cli.command_group import CommandGroup
from placet.cli.options import json_option, limit_option, parse_time
from placet.cli.output import print_table
from placet.cli.relay_operations import add_location_options, run_audit
from placet.cli.results import print_bytes, print_result
from placet.errors import CaseNotFound, PlacetError
from placet.http.operations import Operations
from placet.http.paging import MAX_SIZE
from placet.relay.audit.audit_event import AUDIT_ACTIONS, TRANSPORTS
from placet.text.characters import escape_hidden_in_json, mark_hidden
from placet.text.truncation import to_single_line, truncate

MAX_TEXT_LENGTH = 60
Query = dict[str, str]
_NAMES = {
    "types": "audit_type",
    "action": "audit_action",
    "transport": "transport",
    "correlation_id": "correlation_id",
    "source_agent": "source_agent_id",
    "source_user": "source_user_id",
    "sink_agent": "sink_agent_id",
    "task_id": "task_id",
}


audit_options = add_location_options("audit")


@click.group(cls=CommandGroup)
def audit() -> None:
    """List, trace and export the relay's audit log."""


filter_options = join_options(
    click.option(
        "--since",
        metavar="TIME",
        help="Only events since this time: a timestamp, or a duration ago, such as 2h.",
    ),
    click.option("--until", metavar="TIME", help="Only events before this time."),
    click.option(
        "--type",
        "types",
        multiple=True,
        metavar="TYPE",
        help="Only events of this type, such as HITL. Repeatable.",
    ),
    click.option("--action", type=click.Choice(list(AUDIT_ACTIONS)), help="Only events with this action."),
    click.option("--transport", type=click.Choice(TRANSPORTS), help="Only events of this transport."),
    click.option("--correlation-id", metavar="ID", help="Only events of this call."),
    click.option("--source-agent", metavar="ID", help="Only messages from this agent."),
    click.option("--source-user", metavar="ID", help="Only messages from this user."),
    click.option("--sink-agent", metavar="ID", help="Only messages to this agent."),
    click.option("--task-id", metavar="ID", help="Only events of this task."),
)


@audit.command("list")
@filter_options
@limit_option
@audit_options
@json_option
def list_events(limit: int, as_json: bool, **given: Any) -> None:
    """List events, newest first."""
    query = _build_query(given)
    found = run_audit(given, lambda relay: list_newest(relay, query, limit))
    if as_json:
        print_result(found)
        return
    rows = [
        (
            _format_time(one["createdAt"]),
            one["auditType"],
            one["auditAction"],
            _describe_ends(one),
            mark_hidden(one["correlationId"]),
            describe_message(one["message"], (one["metadata"] or {}).get("resolvedBy")),
        )
        for one in found
    ]
    header = ("at", "type", "action", "route", "correlation id", "message")
    print_table(header, rows, empty="No events found.")


@audit.command()
@click.argument("correlation_id", metavar="CORRELATION_ID")
@audit_options
@json_option
def trace(correlation_id: str, as_json: bool, **given: Any) -> None:
    """Show the steps of one call."""
    found = run_audit(given, lambda relay: _trace(relay, correlation_id))
    if as_json:
        print_result(found)
        return
    took = found["totalDurationMicros"] / 1000
    click.echo(f"{mark_hidden(found['correlationId'])}: {found['stepCount']} steps in {took:,.3f} ms")
    rows = [
        (
            f"+{one['offsetMicros'] / 1000:,.3f}",
            "-" if one["durationMicros"] is None else f"{one['durationMicros'] / 1000:,.3f}",
            one["auditType"],
            one["auditAction"],
            _describe_ends(one),
            describe_message(one["message"], one.get("resolvedBy")),
        )
        for one in found["steps"]
    ]
    print_table(("ms", "took", "type", "action", "route", "message"), rows, empty="There are no steps.")


@audit.command()
@filter_options
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write. Default: standard output.",
)
@audit_options
def export(output: Path | None, **given: Any) -> None:
    """Export events as JSON Lines, in the order they were written."""
    query = _build_query(given)

    async def write(relay: Operations) -> int:
        pieces = relay.stream("exportAuditEvents", **query)
        return await (_write_lines(pieces, _print_lines) if output is None else _write_file(pieces, output))

    count = run_audit(given, write)
    if output is not None:
        click.echo(f"Wrote {count} events to {output}.", err=True)


async def _write_file(pieces: AsyncIterator[bytes], output: Path) -> int:
    """Write the lines to a file. After an error, such as a wrong key, an existing file is unchanged."""
    try:
        with ExitStack() as closing:
            opened = cache(lambda: closing.enter_context(output.open("wb")))
            count = await _write_lines(pieces, lambda lines: opened().write(lines))
            opened()
            return count
    except OSError as error:
        raise PlacetError(f"{output} cannot be written: {error.strerror}.") from error


async def _write_lines(pieces: AsyncIterator[bytes], write: Callable[[bytes], object]) -> int:
    """Write whole lines as they arrive; return their number."""
    count, rest = 0, b""
    async for piece in pieces:
        lines, end, rest = (rest + piece).rpartition(b"\n")
        write(lines + end)
        count += (lines + end).count(b"\n")
    return count


def _print_lines(lines: bytes) -> None:
    """Write lines unchanged, or escaped for a terminal."""
    print_bytes(
        escape_hidden_in_json(lines.decode("utf-8", "replace")).encode() if sys.stdout.isatty() else lines
    )


async def list_newest(relay: Operations, query: Query, limit: int) -> list[dict[str, Any]]:
    """Return the newest events. An event that new ones push to the next page is returned once."""
    found: dict[str, dict[str, Any]] = {}
    size = min(limit, MAX_SIZE)
    for number in itertools.count():
        page = await relay.call("listAuditEvents", **query, page=str(number), size=str(size))
        found.update((one["eventId"], one) for one in page["content"])
        if page["last"] or len(found) >= limit:
            break
    return list(found.values())[:limit]


async def _trace(relay: Operations, correlation_id: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await relay.call("getTrace", correlation_id=correlation_id)
    except CaseNotFound as refusal:
        if "/" in correlation_id:
            refusal.add_note("`placet audit list --correlation-id` finds its events.")
        raise
    return found


def _build_query(given: dict[str, Any]) -> Query:
    asked = {**given, "types": ",".join(given["types"]) or None}
    query = {name: asked[flag] for flag, name in _NAMES.items() if asked[flag] is not None}
    for flag, name in (("since", "start_time"), ("until", "end_time")):
        if given[flag] is not None:
            query[name] = parse_time(f"--{flag}", given[flag]).isoformat()
    return query


def _describe_ends(event: dict[str, Any]) -> str:
    source, sink = event["sourceAgent"] or event["sourceUser"], event["sinkAgent"]
    ends = [mark_hidden(one["name"]) for one in (source, sink) if one is not None]
    return " -> ".join(ends) or "-"


def _format_time(text: str) -> str:
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def describe_message(message: str, resolved_by: str | None) -> str:
    """Return what happened, and who decided it."""
    shown = to_single_line(message if resolved_by is None else f"{message} ({resolved_by})")
    return truncate(shown, MAX_TEXT_LENGTH)
