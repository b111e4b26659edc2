"""`placet case`: show cases of a database on this machine."""

from pathlib import Path

import click

from placet.cases.case import Case
from placet.cases.events import Event, find_broken_link
from placet.cases.wire import poll_response
from placet.cli.command_group import CommandGroup
from placet.cli.options import (
    config_option,
    db_option,
    json_option,
    load_settings,
    print_json,
    print_table,
    with_store,
)
from placet.errors import CaseNotFound, PlacetError
from placet.ports.store import Store


@click.group(cls=CommandGroup)
def case() -> None:
    """Cases: show one with its events, and check its chain."""


@case.command()
@click.argument("case_id")
@db_option
@config_option
@json_option
def show(case_id: str, db: str | None, config: Path | None, as_json: bool) -> None:
    """Show a case, its events and whether its chain holds."""
    found, events = with_store(
        load_settings(config, db=db).settings.db, lambda store: _case_with_events(store, case_id)
    )
    broken = find_broken_link(events, head=found.chain)
    if as_json:
        _print_as_json(found, events, broken)
    else:
        erased = "" if found.erased_at is None else ", content erased"
        click.echo(f"{found.type} {found.id}: {found.status}, version {found.version}{erased}")
        rows = [(one.seq, one.type, one.at, one.actor, one.digest[:12]) for one in events]
        print_table(("seq", "event", "at", "by", "digest"), rows, empty="There are no events.")
    if broken is not None:
        raise PlacetError(f"The chain is broken at event {broken}.")
    click.echo("The chain holds.", err=True)


def _print_as_json(case: Case, events: list[Event], broken: int | None) -> None:
    listed = [
        {"seq": one.seq, "type": one.type, "at": one.at, "actor": one.actor, "digest": one.digest}
        for one in events
    ]
    poll = None if case.erased_at is not None else poll_response(case)
    print_json({"case_id": case.id, "case": poll, "events": listed, "chain_holds": broken is None})


async def _case_with_events(store: Store, case_id: str) -> tuple[Case, list[Event]]:
    found = await store.get_case(case_id)
    if found is None:
        raise CaseNotFound(f"There is no case {case_id!r}.")
    return found, list(await store.list_events(case_id))
