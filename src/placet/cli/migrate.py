"""`placet migrate`: update the schema of a database to this version."""

from pathlib import Path

import click

from placet.bootstrap.storage import database_exists, migrate_database
from placet.cli.database import hide_password, load_settings
from placet.cli.options import config_option, db_option


@click.command()
@db_option
@config_option
def migrate(db: str | None, config: Path | None) -> None:
    """Update the schema of the database.

    Stop the server, and make a backup with `placet backup` first. A new database gets its schema when it is
    first used.
    """
    url = load_settings(config, db=db).settings.db
    is_new = not database_exists(url)
    change, name = migrate_database(url), hide_password(url)
    if change.before == change.after:
        click.echo(f"{name} is already at schema {change.after}.", err=True)
    elif is_new:
        click.echo(f"Created {name} at schema {change.after}.", err=True)
    else:
        click.echo(f"Migrated {name} from schema {change.before} to {change.after}.", err=True)
