"""`placet db`: copy a SQLite file into a PostgreSQL database."""

import click

from placet.bootstrap.storage import copy_database
from placet.cli.command_group import CommandGroup
from placet.cli.database import hide_password, run_with_store
from placet.cli.options import json_option
from placet.cli.output import print_json, print_table
from placet.desk.log_verification import LogTotals, verify_log
from placet.errors import PlacetError
from placet.ports.store import Store


@click.group(cls=CommandGroup)
def db() -> None:
    """Copy a SQLite file into a PostgreSQL database."""


@db.command()
@click.argument("source")
@click.argument("target")
@json_option
def copy(source: str, target: str, as_json: bool) -> None:
    """Copy the file SOURCE into the empty database TARGET, and verify the copy.

    Stop the server first: what it writes meanwhile is not copied. SOURCE is a path or sqlite:///FILE, TARGET
    postgresql://USER@HOST/NAME. The file is not changed. Either everything is copied or nothing.
    """
    copied = copy_database(source, target)
    problems = run_with_store(target, _list_problems)
    if as_json:
        print_json({"copied": dict(copied), "problems": problems})
    else:
        rows = [(table, str(count)) for table, count in copied.items() if count]
        print_table(("TABLE", "ROWS"), rows, empty="The file has no rows.")
        click.echo(f"Copied {source} to {hide_password(target)}. Problems: {len(problems)}.", err=True)
    if problems:
        raise PlacetError(f"The copy has problems: {problems[0]} Run `placet verify log` on both databases.")


async def _list_problems(store: Store) -> list[str]:
    return [one.problem async for one in verify_log(store, (), LogTotals())]
