"""`placet migrate`: bring a database's schema up to this version."""

from pathlib import Path

import click

from placet.bootstrap.storage import database_exists, migrate_database
from placet.cli.options import config_option, db_option, load_settings


@click.command()
@db_option
@config_option
def migrate(db: str | None, config: Path | None) -> None:
    """Bring the database's schema up to date.

    A new file gets its schema by itself when it is first used. Stop the server and make a backup first.
    """
    path = load_settings(config, db=db).settings.db
    is_new = not database_exists(path)
    change = migrate_database(path)
    if change.before == change.after:
        click.echo(f"{path} is at schema {change.after} already.", err=True)
    elif is_new:
        click.echo(f"There was no {path}: it is new, and at schema {change.after}.", err=True)
    else:
        click.echo(f"{path} went from schema {change.before} to {change.after}.", err=True)
