"""`placet passkey`: invite people to register passkeys, list and remove passkeys."""

from pathlib import Path

import click

from placet.cli.command_group import CommandGroup
from placet.cli.database import load_settings, run_with_store
from placet.cli.options import config_option, db_option, json_option
from placet.cli.output import print_json, print_table
from placet.desk import clock
from placet.desk.passkey_invitations import invite as create_invitation
from placet.desk.passkey_invitations import remove_passkey
from placet.errors import SettingsError
from placet.ports.passkey_store import Passkey
from placet.protocol.duration import parse_duration
from placet.protocol.service_paths import PASSKEYS

SHORT_ID_LENGTH = 12


@click.group(cls=CommandGroup)
def passkey() -> None:
    """Invite people to register passkeys, list and remove passkeys.

    People prove with a passkey that they gave an answer, where a case requires it.
    """


@passkey.command()
@click.argument("email")
@click.option("--name", help="The person's name, as results show it.")
@click.option(
    "--expires-in", metavar="DURATION", default="24h", show_default=True, help="How long the link works."
)
@db_option
@config_option
def invite(email: str, name: str | None, expires_in: str, db: str | None, config: Path | None) -> None:
    """Print a link with which this person registers one passkey. Send it to them alone: it works once."""
    settings = load_settings(config, db=db).settings
    from placet.bootstrap.verification import find_relying_party

    if find_relying_party(settings) is None:
        raise SettingsError(
            f"base_url is {settings.public_url}: browsers create no passkeys for an IP address."
            " Set base_url to an address with a host name, such as http://localhost:8400."
        )
    lasts_for = parse_duration(expires_in, "--expires-in")
    token = run_with_store(
        settings.db,
        lambda store: create_invitation(store, email, name=name, now=clock.now(), lasts_for=lasts_for),
        create=True,
    )
    click.echo(f"{settings.public_url}{PASSKEYS}?token={token}")


@passkey.command("list")
@db_option
@config_option
@json_option
def list_passkeys(db: str | None, config: Path | None, as_json: bool) -> None:
    """List the registered passkeys."""
    found = run_with_store(load_settings(config, db=db).settings.db, lambda store: store.list_passkeys())
    if as_json:
        print_json([_describe(one) for one in found])
        return
    rows = [
        (
            one.id[:SHORT_ID_LENGTH],
            one.email,
            one.name or "",
            "synced" if one.is_synced else "one device",
            one.created_at,
            one.used_at or "never",
        )
        for one in found
    ]
    header = ("id", "e-mail", "name", "kept", "registered", "last used")
    print_table(header, rows, empty="No passkeys are registered yet.")


@passkey.command()
@click.argument("passkey_id", metavar="ID")
@db_option
@config_option
def remove(passkey_id: str, db: str | None, config: Path | None) -> None:
    """Remove a passkey, for example of a lost device. It proves nothing from now on."""
    settings = load_settings(config, db=db).settings
    run_with_store(settings.db, lambda store: remove_passkey(store, passkey_id))
    click.echo(f"Removed {passkey_id}.", err=True)


def _describe(one: Passkey) -> dict[str, object]:
    return {
        "id": one.id,
        "email": one.email,
        "name": one.name,
        "synced": one.is_synced,
        "created_at": one.created_at,
        "used_at": one.used_at,
    }
