"""`assent migrate`: bring a database's schema up to this version."""

from pathlib import Path

import click

from assent.cli.options import config_option, db_option, loaded
from assent.stores.sqlite.migrate import migrate as migrate_file


@click.command()
@db_option
@config_option
def migrate(db: str | None, config: Path | None) -> None:
    """Bring the database's schema up to date; stop the server first."""
    path = loaded(config, db=db).settings.db
    state = migrate_file(path)
    click.echo(f"{path} is at schema {state.version}.", err=True)
