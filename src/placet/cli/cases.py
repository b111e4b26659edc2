"""`placet case`: list and withdraw your cases on a server, and show a case of a database on this machine."""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from placet.cases.case import Case
from placet.cases.case_verification import StoredCase, find_problems, read_state
from placet.cases.wire import build_poll_response
from placet.cli.client_options import key_option, require_key, require_secure, server_option
from placet.cli.command_group import CommandGroup
from placet.cli.database import load_settings, run_with_store
from placet.cli.options import config_option, db_option, json_option, limit_option
from placet.cli.output import print_json, print_table
from placet.cli.results import print_result
from placet.client import PlacetClient
from placet.errors import CaseNotFound, PlacetError
from placet.http.paging import MAX_LIMIT
from placet.protocol.poll import Status
from placet.text.truncation import to_single_line


@click.group(cls=CommandGroup)
def case() -> None:
    """List, show and withdraw cases."""


@case.command("list")
@server_option
@key_option
@click.option("--status", type=click.Choice([one.value for one in Status]), help="Only cases in this state.")
@click.option("--before", metavar="CASE_ID", help="Only cases that are older than this one.")
@limit_option
@json_option
def list_cases(
    server: str, key: str | None, status: str | None, before: str | None, limit: int, as_json: bool
) -> None:
    """List the cases that your API key opened on a server, newest first."""
    with PlacetClient(require_secure(server), require_key(key)) as client:
        found, following = _read_pages(client, status, before, limit)
    if as_json:
        print_result(found)
    else:
        rows = [
            (
                to_single_line(one["poll"]["case_id"]),
                to_single_line(one["type"]),
                one["poll"]["status"],
                datetime.fromisoformat(one["poll"]["created_at"]),
                to_single_line(one["poll"].get("result", {}).get("action", "-")),
            )
            for one in found
        ]
        print_table(("case", "type", "status", "since", "action"), rows, empty="There are no cases.")
    if following is not None:
        click.echo(f"There may be more. List them with: --before {to_single_line(following)}", err=True)


def _read_pages(
    client: PlacetClient, status: str | None, before: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return up to `limit` cases, and the id to continue from if there may be more."""
    found: list[dict[str, Any]] = []
    while True:
        page = client.cases(status=status, before=before, limit=min(limit - len(found), MAX_LIMIT))
        found += page["cases"]
        before = page.get("next")
        if before is None or len(found) >= limit:
            return found, before


@case.command()
@click.argument("case_id")
@server_option
@key_option
@click.option("--reason", metavar="TEXT", help="The reason, as the person sees it.")
@json_option
def cancel(case_id: str, server: str, key: str | None, reason: str | None, as_json: bool) -> None:
    """Withdraw a case that your API key opened on a server. It can no longer be answered."""
    with PlacetClient(require_secure(server), require_key(key)) as client:
        ended = client.cancel(case_id, reason=reason)
    if as_json:
        print_result(ended)
    click.echo(f"Withdrew {to_single_line(case_id)}.", err=True)


@case.command()
@click.argument("case_id")
@db_option
@config_option
@json_option
def show(case_id: str, db: str | None, config: Path | None, as_json: bool) -> None:
    """Show a case with its events, and check its chain."""
    stored = run_with_store(
        load_settings(config, db=db).settings.db, lambda store: store.find_stored_case(case_id)
    )
    if stored is None:
        raise CaseNotFound(f"There is no case {case_id!r}.")
    found, problems = read_state(stored), find_problems(stored)
    if as_json:
        _print_as_json(stored, found, problems)
    elif found is not None:
        erased = "" if found.erased_at is None else ", content erased"
        click.echo(f"{found.type} {found.id}: {found.status}, version {found.version}{erased}")
        rows = [(one.seq, one.type, one.at, one.actor, one.digest[:12]) for one in stored.events]
        print_table(("seq", "event", "at", "by", "digest"), rows, empty="There are no events.")
    if problems:
        raise PlacetError(" ".join(problems))
    click.echo("The chain is intact.", err=True)


def _print_as_json(stored: StoredCase, case: Case | None, problems: list[str]) -> None:
    listed = [
        {"seq": one.seq, "type": one.type, "at": one.at, "actor": one.actor, "digest": one.digest}
        for one in stored.events
    ]
    print_json(
        {
            "case_id": stored.id,
            "case": build_poll_response(case) if case is not None and _has_content(case) else None,
            "events": listed,
            "chain_holds": not problems,
            "problems": problems,
        }
    )


def _has_content(case: Case) -> bool:
    return case.erased_at is None and (case.status is not Status.COMPLETED or case.decision is not None)
