"""`placet migrate`: bring a database's schema up to this version."""

from pathlib import Path

import click

from placet.cli.options import config_option, db_option, loaded
from placet.stores.sqlite.migrate import migrate as migrate_file


@click.command()
@db_option
@config_option
def migrate(db: str | None, config: Path | None) -> None:
    """Bring the database's schema up to date.

    A new file gets its schema by itself when it is first used. Stop the server and make a backup first.
    """
    path = loaded(config, db=db).settings.db
    is_new = not Path(path).exists()
    before = migrate_file(path)
    if before.current:
        click.echo(f"{path} is at schema {before.known} already.", err=True)
    elif is_new:
        click.echo(f"There was no {path}: it is new, and at schema {before.known}.", err=True)
    else:
        click.echo(f"{path} went from schema {before.version} to {before.known}.", err=True)
