"""`placet case`: show cases of a database on this machine."""

from pathlib import Path

import click

from placet.cases.case import Case
from placet.cases.case_verification import StoredCase, find_problems, read_state
from placet.cases.wire import poll_response
from placet.cli.command_group import CommandGroup
from placet.cli.database import load_settings, with_store
from placet.cli.options import config_option, db_option, json_option
from placet.cli.output import print_json, print_table
from placet.errors import CaseNotFound, PlacetError
from placet.protocol.poll import Status


@click.group(cls=CommandGroup)
def case() -> None:
    """Show a case with its events, and check its chain."""


@case.command()
@click.argument("case_id")
@db_option
@config_option
@json_option
def show(case_id: str, db: str | None, config: Path | None, as_json: bool) -> None:
    """Show a case with its events, and check its chain."""
    stored = with_store(
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
            "case": poll_response(case) if case is not None and _has_content(case) else None,
            "events": listed,
            "chain_holds": not problems,
            "problems": problems,
        }
    )


def _has_content(case: Case) -> bool:
    return case.erased_at is None and (case.status is not Status.COMPLETED or case.decision is not None)
