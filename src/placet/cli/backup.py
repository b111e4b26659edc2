"""`placet backup`: copy the database to a file that only its owner can read."""

from pathlib import Path

import click

from placet.bootstrap.storage import back_up_database
from placet.cli.database import load_settings
from placet.cli.options import config_option, db_option


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@db_option
@config_option
def backup(file: Path, db: str | None, config: Path | None) -> None:
    """Copy the database to a new file, also while a server uses it.

    The copy contains private signing keys and callback secrets. Only its owner can read it.
    """
    path = load_settings(config, db=db).settings.db
    back_up_database(path, file)
    click.echo(f"Copied {path} to {file}.", err=True)
