"""Options that several commands share: the Placet server to call, and its key. Imports little."""

import os
import re
from collections.abc import Callable

import click

from placet.errors import SettingsError
from placet.protocol.addresses import is_secure_or_loopback

CommandFunction = Callable[..., None]
Decorator = Callable[[CommandFunction], CommandFunction]
DEFAULT_PORT = 8400
PORT = re.compile(r"[0-9]{1,5}")


def read_port() -> int:
    """Return the port in PLACET_PORT, or the default port. Raises SettingsError if it is not a port."""
    text = os.environ.get("PLACET_PORT", "")
    if not text or "://" in text:  # the address that Kubernetes sets for a service named "placet"
        return DEFAULT_PORT
    if not PORT.fullmatch(text) or int(text) > 65535:
        raise SettingsError(f"PLACET_PORT: {text[:20]!a} is not a port. Use a number from 0 to 65535.")
    return int(text)


def get_default_server() -> str:
    """Return the URL of the server on this machine, at the port in PLACET_PORT if that is set."""
    return f"http://127.0.0.1:{read_port() or DEFAULT_PORT}"


server_option = click.option(
    "--server",
    envvar="PLACET_SERVER",
    default=get_default_server,
    show_default=f"http://127.0.0.1:{DEFAULT_PORT}, or the port in PLACET_PORT",
    metavar="URL",
    help="The Placet server.",
)
key_option = click.option(
    "--key", envvar="PLACET_KEY", metavar="API_KEY", help="API key of that server. Better: set PLACET_KEY."
)


def join_options(*options: Decorator) -> Decorator:
    """Return several options as one decorator, in the order of the help text."""

    def decorate(command: CommandFunction) -> CommandFunction:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def require_secure(server: str) -> str:
    """Return the URL of a server; raise SettingsError if the API key must not be sent there."""
    if not is_secure_or_loopback(server):
        raise SettingsError(
            "The server URL must be https://… or on loopback, because the API key is sent to it."
        )
    return server


def require_key(key: str | None) -> str:
    """Return the API key; raise SettingsError if there is none."""
    if not key:
        raise SettingsError("No API key. Set PLACET_KEY or pass --key; `placet key create` creates a key.")
    return key
