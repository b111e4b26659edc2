"""`placet key`: create, list and revoke API keys."""

from pathlib import Path

import click

from placet.cli.command_group import CommandGroup
from placet.cli.database import has_database, load_settings, run_with_store
from placet.cli.options import config_option, db_option, json_option
from placet.cli.output import print_json, print_table
from placet.desk import clock
from placet.desk.api_keys import DEFAULT_SCOPES, create_key, revoke_key
from placet.ports.identity import ALL_SCOPES
from placet.ports.key_store import ApiKey
from placet.protocol.duration import parse_duration


@click.group(cls=CommandGroup)
def key() -> None:
    """Create, list and revoke API keys.

    Keys with the same name belong to the same principal. To rotate a key, create a second one with its name,
    then revoke the first.
    """


@key.command()
@click.argument("name")
@db_option
@config_option
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(ALL_SCOPES),
    help="A scope of the key. Repeatable. Default: cases:write and cases:read.",
)
@click.option(
    "--expires-in", metavar="DURATION", help="How long the key is valid, such as 90d. Default: forever."
)
def create(
    name: str, db: str | None, config: Path | None, scopes: tuple[str, ...], expires_in: str | None
) -> None:
    """Create a key and print it to standard output. It cannot be shown again."""
    lasts_for = parse_duration(expires_in, "--expires-in") if expires_in else None
    file = load_settings(config, db=db).settings.db
    is_new = not has_database(file)
    secret = run_with_store(
        file,
        lambda store: create_key(
            store, name, scopes=scopes or DEFAULT_SCOPES, expires_for=lasts_for, now=clock.now()
        ),
        create=True,
    )
    click.echo(secret)
    if is_new:  # a key in the wrong database would be refused by the server
        click.echo(f"Created a new database, {file}. The key works with servers that use it.", err=True)


@key.command("list")
@db_option
@config_option
@json_option
def list_keys(db: str | None, config: Path | None, as_json: bool) -> None:
    """List all keys, without their secrets, which are not stored."""
    keys = run_with_store(load_settings(config, db=db).settings.db, lambda store: store.list_api_keys())
    if as_json:
        print_json(
            [
                {"id": one.id, "name": one.name, "scopes": one.scopes, "state": _describe_state(one)}
                for one in keys
            ]
        )
        return
    rows = [(one.id, one.name, " ".join(one.scopes), one.created_at, _describe_state(one)) for one in keys]
    print_table(("id", "name", "scopes", "created", "state"), rows, empty="There are no keys yet.")


@key.command()
@click.argument("key_id", metavar="ID")
@db_option
@config_option
def revoke(key_id: str, db: str | None, config: Path | None) -> None:
    """Revoke a key by its id. A running server refuses it within seconds."""
    run_with_store(
        load_settings(config, db=db).settings.db, lambda store: revoke_key(store, key_id, clock.now())
    )
    click.echo(f"Revoked {key_id}.", err=True)


def _describe_state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "active" if key.is_valid(clock.now()) else "expired"
