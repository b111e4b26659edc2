"""`placet deliveries`: list callback deliveries, and send one again."""

from pathlib import Path

import click

from placet.cli.command_group import CommandGroup
from placet.cli.database import load_settings, run_with_store
from placet.cli.options import config_option, db_option, json_option, limit_option
from placet.cli.output import print_json, print_table
from placet.desk import clock
from placet.desk.outbox import Outbox
from placet.ports.outbox_store import DeliveryFilter
from placet.server.endpoint_api import build_delivery_view


@click.group(cls=CommandGroup)
def deliveries() -> None:
    """List deliveries, and send one again."""


@deliveries.command("list")
@db_option
@config_option
@json_option
@click.option("--case", "case_id", metavar="CASE_ID", help="Only deliveries of this case.")
@click.option(
    "--state", type=click.Choice(["waiting", "delivered", "failed"]), help="Only deliveries in this state."
)
@limit_option
def list_deliveries(
    db: str | None, config: Path | None, as_json: bool, case_id: str | None, state: str | None, limit: int
) -> None:
    """List deliveries, newest first."""
    found = run_with_store(
        load_settings(config, db=db).settings.db,
        lambda store: store.list_deliveries(DeliveryFilter(case_id=case_id, state=state), limit=limit),
    )
    if as_json:
        print_json([build_delivery_view(one) for one in found])
        return
    rows = [
        (one.id, one.event, one.state, one.attempts, one.last_status or one.last_error, one.target)
        for one in found
    ]
    print_table(("id", "event", "state", "tries", "last", "to"), rows, empty="There are no deliveries.")


@deliveries.command()
@click.argument("delivery_id", metavar="ID")
@db_option
@config_option
def replay(delivery_id: str, db: str | None, config: Path | None) -> None:
    """Send a delivery again. The running server sends it."""
    path = load_settings(config, db=db).settings.db
    run_with_store(path, lambda store: Outbox(store=store, couriers={}, clock=clock.now).replay(delivery_id))
    click.echo(f"{delivery_id} will be sent again.", err=True)
